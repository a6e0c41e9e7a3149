"""`make bench-peers`: every server answers every case rightly, then is loaded in turn over interleaved rounds.

A server that cannot be installed or started is reported with the reason, and the others go on. Servers of a case are
up together and idle while one of them is loaded; those that are busy even when nobody asks come after the others,
each alone.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench import contestants, load, mixed, report, streams
from bench.peers import environments, figures, lineup, plane, questions, results, tables
from bench.peers.server import Peer
from bench.run import THREADS, missing_programs, progress, rotated, start, window

RESULTS = contestants.HERE / "results" / "peers.json"
CASES = (*tables.TITLES, "mixed")
NAMES = ("mizzen", *lineup.PEERS)
Contestant = Peer | plane.Plane


@dataclass
class Run:
    """What was seen so far."""

    samples: list[results.Sample] = field(default_factory=list)
    starts: list[results.Start] = field(default_factory=list)
    failures: list[results.Failure] = field(default_factory=list)
    mixed: float | None = None
    """How many times its own p99 a small request's was beside large ones."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also when a shell started this with SIGINT ignored
    os.environ.update(dict.fromkeys(THREADS, "1"))
    if problem := missing_programs("nginx" in options.only, "grpc" in options.cases):
        print(problem, file=sys.stderr)
        return 1
    seen = Run()
    began = datetime.now(UTC)
    # Short, because unix sockets live below it.
    with tempfile.TemporaryDirectory(prefix="mzp-", ignore_cleanup_errors=True) as name:
        try:
            measure(Path(name).resolve(), options, seen)
        except KeyboardInterrupt:
            print("\nInterrupted; the servers are stopped.", file=sys.stderr)
            return 130
    return show(seen, options, began)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-peers", description="Mizzen beside other model servers.")
    parser.add_argument("--rounds", type=int, default=3, help="interleaved rounds; figures are medians over them")
    parser.add_argument("--seconds", type=int, default=2, help="length of one window")
    known = (("--only", NAMES, "servers"), ("--cases", CASES, "what is asked"))
    for option, names, what in known:
        parser.add_argument(option, default=list(names), type=_among(names), metavar="A,B", help=f"{what}: {names}")
    parser.add_argument("-o", "--output", type=Path, default=RESULTS, metavar="FILE", help="all figures as JSON")
    return parser.parse_args(arguments)


def measure(folder: Path, options: argparse.Namespace, seen: Run) -> None:
    models = folder / "models"
    models.mkdir()
    cases = [case for case in questions.train(models) if case.name in options.cases]
    peers = []
    for peer in options.only:
        try:
            if peer != "mizzen":
                environments.provide(peer, models)
        except environments.NotInstalled as error:
            fail(seen, results.Failure("all", peer, str(error)))
            continue
        peers.append(peer)
    for case in cases:
        everyone = list(contestants_of(case, peers, folder))
        together = [contestant for contestant, apart in everyone if not apart]
        compete(case, together, options, seen)
        for contestant, apart in everyone:
            if apart:
                compete(case, [contestant], options, seen)
    if "mixed" in options.cases and "mizzen" in peers:
        seen.mixed = mixed.ratio(mixed.rounds(options.rounds, options.seconds))


def contestants_of(case: questions.Case, peers: list[str], folder: Path) -> Iterator[tuple[Contestant, bool]]:
    """And whether each has to run apart."""
    models = folder / "models"
    for peer in peers:
        if peer == "mizzen":
            for name, spec in plane.specs(case):
                own = Path(tempfile.mkdtemp(prefix="m", dir=folder)) / "p"
                yield plane.Plane(own, models / plane.model_of(case), name, case=case, spec=spec), False
            continue
        for entry in lineup.entries(peer, case):
            own = Path(tempfile.mkdtemp(prefix="p", dir=folder)) / "p"
            yield Peer(entry.name, entry.launch, case, own, models), entry.apart


def compete(case: questions.Case, everyone: Sequence[Contestant], options: argparse.Namespace, seen: Run) -> None:
    """Start, check, warm and load them; whatever happens, none is left."""
    up: list[Contestant] = []
    try:
        for server in everyone:
            up.append(server)  # before its start: what it began has to be ended, too
            try:
                seen.starts.append(started(case, server))
                streams.either(server.url, _body(server), case.connections[-1], 1, server.asking.headers)  # warm
            except (contestants.StartFailed, load.LoadFailed, OSError) as error:
                fail(seen, results.Failure(case.name, server.name, str(error)))
                up.remove(server)
                server.stop()
        for round_ in range(options.rounds if up else 0):
            for connections in case.connections:
                for server in rotated(up, round_):
                    take(case, server, connections, round_=round_ + 1, seconds=options.seconds * case.longer, seen=seen)
    finally:
        for server in reversed(up):
            server.stop()


def started(case: questions.Case, server: Contestant) -> results.Start:
    footprint = start(server)
    rss, pss = (sum(part[i] for part in footprint.memory.values()) for i in (0, 1))
    return results.Start(case.name, server.name, footprint.seconds, footprint.cpu_seconds, rss, pss)


def take(case: questions.Case, server: Contestant, connections: int, *, round_: int, seconds: int, seen: Run) -> None:
    try:
        done = window(server, _body(server), connections, round_, seconds, headers=server.asking.headers)
    except load.LoadFailed as error:  # it is gone
        fail(seen, results.Failure(case.name, server.name, str(error)))
        return
    seen.samples.append(results.Sample(case.name, done))
    progress(done, f"{case.name:<8}")


def show(seen: Run, options: argparse.Namespace, began: datetime) -> int:
    if not seen.samples:
        print("No server could be measured.", file=sys.stderr)
        return 1
    medians = results.medians(seen.samples)
    measured = {one.peer for group in medians.by_load.values() for one in group.values()}
    head = tables.Head(
        date=began.date().isoformat(),
        cores=os.cpu_count() or 1,
        versions=environments.versions([name for name in options.only if name in measured]),
        rounds=options.rounds,
        seconds=options.seconds,
        noise=report.noise([sample.window for sample in seen.samples]),
    )
    lines = figures.lines(medians, plane.OBJECTIVE_MS, seen.mixed)
    text = tables.whole(head, medians, seen.starts, seen.failures, lines)
    print(f"\n{text}")
    machine = {"kernel": platform.release(), "python": platform.python_version()}
    parts: dict[str, Sequence[Any]] = {
        "samples": seen.samples,
        "starts": seen.starts,
        "failures": seen.failures,
        "figures": lines,
    }
    everything = {"head": asdict(head), "machine": machine} | {
        name: list(map(asdict, values)) for name, values in parts.items()
    }
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(everything, indent=1) + "\n")
    options.output.with_suffix(".md").write_text(text + "\n")
    print(f"\nAll figures: {os.path.relpath(options.output)}, these tables beside it.")
    return 0


def fail(seen: Run, failure: results.Failure) -> None:
    seen.failures.append(failure)
    reason = " ".join(failure.reason.split())
    print(f"{failure.contestant} takes no part ({failure.case}): {reason}", file=sys.stderr, flush=True)


def _body(server: Contestant) -> Path:
    path = server.folder / "question"
    if not path.exists():
        path.write_bytes(server.asking.body)
    return path


def _among(names: tuple[str, ...]) -> Callable[[str], list[str]]:
    def read(text: str) -> list[str]:
        chosen = text.split(",")
        if unknown := set(chosen) - set(names):
            raise argparse.ArgumentTypeError(f"no {', '.join(sorted(unknown))}; there are {', '.join(names)}")
        return chosen

    return read


if __name__ == "__main__":
    sys.exit(main())
