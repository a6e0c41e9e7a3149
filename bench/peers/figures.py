"""The figures that Mizzen holds itself to, each met or not by what was measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bench.peers.lineup import FLOORS, OVER_GRPC
from bench.peers.results import MIZZEN, Result, Results


@dataclass(frozen=True, slots=True)
class Figure:
    what: str
    wanted: str
    seen: str
    met: bool | None
    """None: not measured in this run."""


def lines(results: Results, objective_ms: float, mixed: float | None) -> list[Figure]:
    """`mixed` is how many times its own p99 a small request's becomes beside large ones."""
    return [
        *_beside_nginx(results),
        _cheaper(results, 64, 15),
        _cheaper(results, 16, 8),
        _cheaper(results, 1, 2),
        _as_quick_as_fastapi(results),
        *_over_grpc(results),
        *_large(results),
        *_forest(results, objective_ms),
        *_composed(results),
        at_most("one row beside 1000 rows, p99 against its own", 3, mixed),
    ]


def _beside_nginx(results: Results) -> Iterator[Figure]:
    for case, what, most in (("iris", "one row of iris", 5), ("noop", "a model that does nothing", 3.5)):
        ours, floor = results.at(case, 64), results.at(case, 64, "nginx")
        ratio = ours.cpu_us / floor.cpu_us if ours and floor else None
        yield at_most(f"{what}, 64 connections, CPU against nginx", most, ratio)


def _cheaper(results: Results, connections: int, least: float) -> Figure:
    plural = "" if connections == 1 else "s"
    what = f"one row of iris, {connections} connection{plural}, CPU of the best peer against ours"
    return _at_least(what, least, *_against(results.best("iris", connections, FLOORS), results.at("iris", connections)))


def _as_quick_as_fastapi(results: Results) -> Figure:
    ours, by_hand = results.at("iris", 1), results.at("iris", 1, "fastapi")
    what, wanted = "one row of iris, 1 connection, p50", "no worse than FastAPI by hand"
    if not ours or not by_hand:
        return Figure(what, wanted, "not measured", None)
    seen = f"{ours.p50_ms:.2f} ms, FastAPI {by_hand.p50_ms:.2f} ms"
    return Figure(what, wanted, seen, ours.p50_ms <= by_hand.p50_ms)


def _over_grpc(results: Results) -> Iterator[Figure]:
    for peer in OVER_GRPC:
        for calls in (1, 64):
            what = f"one row of iris over gRPC, {calls} at a time, CPU of {peer} against ours"
            yield _at_least(what, 3, *_against(results.best_of(peer, "grpc", calls), results.at("grpc", calls)))


def _large(results: Results) -> Iterator[Figure]:
    """As bytes, against the best peer in whichever form it is best."""
    as_json, as_bytes = (results.best(case, 4, FLOORS) for case in ("json", "binary"))
    found = [one for one in (as_json, as_bytes) if one]
    best = min(found, key=lambda one: one.cpu_us) if found else None
    what = "1000 x 30 as bytes, CPU of the best peer against ours"
    yield _at_least(what, 5, *_against(best, results.at("binary", 4)))
    what = "1000 x 30 as JSON, CPU of the best peer against ours"
    yield _at_least(what, 1, *_against(as_json, results.at("json", 4)))


def _forest(results: Results, objective_ms: float) -> Iterator[Figure]:
    auto, off = results.at("forest", 64), results.at("forest", 64, "mizzen, batching off")
    ratio = auto.per_second / off.per_second if auto and off else None
    yield _at_least("200 trees, requests/s of adaptive batching against batching off", 10, ratio, "")
    what, wanted = "200 trees, adaptive batching, p99", f"within {objective_ms:g} ms, no errors"
    silent = results.silent.get(("forest", 64), {})
    if auto is None and MIZZEN in silent:
        yield Figure(what, wanted, f"hardly any answers, {silent[MIZZEN]} errors", met=False)
        return
    if auto is None:
        yield Figure(what, wanted, "not measured", None)
        return
    seen = f"{auto.p99_ms:.1f} ms, {auto.errors} errors"
    yield Figure(what, wanted, seen, auto.p99_ms <= objective_ms and not auto.errors)


def _composed(results: Results) -> Iterator[Figure]:
    """Each by itself, with batching or without."""
    for name in ("bentoml", "ray", "ray haproxy"):
        what = f"mean of three models, 16 connections, CPU of {name} against ours"
        group = results.by_load.get(("ensemble", 16), {}).values()
        best = next((one for one in group if one.contestant.split(",")[0] == name), None)
        yield _at_least(what, 30, *_against(best, results.at("ensemble", 16)))


def _against(peer: Result | None, ours: Result | None) -> tuple[float | None, str]:
    return (peer.cpu_us / ours.cpu_us, f" ({peer.contestant})") if peer and ours else (None, "")


def _at_least(what: str, least: float, seen: float | None, who: str) -> Figure:
    text = "not measured" if seen is None else f"{seen:.2f}x{who}"
    return Figure(what, f"at least {least:g}x", text, None if seen is None else seen >= least)


def at_most(what: str, most: float, seen: float | None, who: str = "") -> Figure:
    text = "not measured" if seen is None else f"{seen:.2f}x{who}"
    return Figure(what, f"at most {most:g}x", text, None if seen is None else seen <= most)
