"""What people read of a run, as Markdown: who was measured, a summary, every case, the figures, what failed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.peers.figures import Figure
from bench.peers.results import MIZZEN, Failure, Load, Result, Results, Start
from bench.report import number, table

TITLES = {
    "iris": "One row of iris",
    "grpc": "One row of iris over gRPC",
    "noop": "A model that does nothing",
    "json": "1000 x 30 numbers as JSON",
    "binary": "1000 x 30 numbers as bytes",
    "forest": "200 trees, one row",
    "ensemble": "The mean of three models of iris",
}


@dataclass(frozen=True, slots=True)
class Head:
    date: str
    cores: int
    versions: dict[str, str]
    rounds: int
    seconds: int
    noise: str

    def __str__(self) -> str:
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        run = f"{self.rounds} rounds of {self.seconds} s windows"
        return f"{self.date}, {self.cores} cores, {run}. {versions}.\n\n{self.noise}"


def whole(
    head: Head, results: Results, starts: Sequence[Start], failures: Sequence[Failure], figures: Sequence[Figure]
) -> str:
    parts = [str(head), "## Summary", summary(results)]
    for case, title in TITLES.items():
        if rows := list(case_rows(results, case)):
            parts += [f"## {title}", table([CASE_HEADER, *rows])]
    parts += ["## Starts", start_table(starts), "## Figures", figure_table(figures)]
    if failures:
        parts += ["## Who took no part", failure_table(failures)]
    return "\n\n".join(parts)


def summary(results: Results) -> str:
    """A row per server, each in its best configuration: CPU µs per request, and how many times Mizzen's that is."""
    loads = [load for load in _loads(results) if load in results.by_load]
    peers = {one.peer: None for load in loads for one in results.by_load[load].values()}
    order = [MIZZEN, *(peer for peer in peers if peer != MIZZEN)] if MIZZEN in peers else list(peers)
    rows: list[tuple[str, ...]] = [("server", *(f"{case} {connections}" for case, connections in loads))]
    rows += [(peer, *(_cell(results, peer, load) for load in loads)) for peer in order]
    return table(rows)


CASE_HEADER = (
    "connections", "server", "CPU µs/request", "min-max", "x Mizzen", "requests/s", "p50 ms", "p99 ms", "errors",
)  # fmt: skip


def case_rows(results: Results, case: str) -> Iterator[tuple[str, ...]]:
    for load in _loads(results):
        if load[0] != case:
            continue
        ours = results.at(*load)
        for one in results.by_load.get(load, {}).values():
            yield (
                str(load[1]),
                one.contestant,
                number(one.cpu_us),
                f"{number(one.lowest_us)}-{number(one.highest_us)}",
                f"{one.cpu_us / ours.cpu_us:.2f}" if ours else "-",
                number(one.per_second),
                f"{one.p50_ms:.2f}",
                f"{one.p99_ms:.2f}",
                str(one.errors),
            )
        for name, errors in results.silent.get(load, {}).items():
            yield (str(load[1]), name, "too few answers", *"-----", str(errors))


def start_table(starts: Sequence[Start]) -> str:
    """Of the first case each server took part in."""
    rows: list[tuple[str, ...]] = [("server", "start s", "start CPU s", "RSS MB", "PSS MB")]
    seen: set[str] = set()
    for one in starts:
        if one.contestant not in seen:
            seen.add(one.contestant)
            figures = (f"{value:.1f}" for value in (one.seconds, one.cpu_seconds, one.rss_mb, one.pss_mb))
            rows.append((one.contestant, *figures))
    return table(rows)


def figure_table(figures: Sequence[Figure]) -> str:
    words = {True: "met", False: "NOT MET", None: "-"}
    rows = [(figure.what, figure.wanted, figure.seen, words[figure.met]) for figure in figures]
    return table([("figure", "wanted", "seen", ""), *rows])


def failure_table(failures: Sequence[Failure]) -> str:
    rows = [(one.contestant, one.case, one.reason.replace("|", "/").replace("\n", " ")) for one in failures]
    return table([("server", "case", "why"), *rows])


def _loads(results: Results) -> list[Load]:
    return sorted(results.by_load | results.silent, key=lambda load: (list(TITLES).index(load[0]), load[1]))


def _cell(results: Results, peer: str, load: Load) -> str:
    case, connections = load
    ours = results.at(case, connections)
    one: Result | None = ours if peer == MIZZEN else results.best_of(peer, case, connections)
    if one is None:
        return "-"
    return (
        number(one.cpu_us) if one is ours or ours is None else f"{number(one.cpu_us)} ({one.cpu_us / ours.cpu_us:.1f}x)"
    )
