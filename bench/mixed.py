"""`python -m bench.mixed`: what large requests do to small ones of the same model.

One row at 16 connections, alone and beside 1000 rows at 4 connections, over interleaved rounds. The figure that counts
is the ratio of p99: small requests may wait for one large one, not for all of them.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from bench import contestants, load, report
from bench.run import THREADS, missing_programs

COLUMNS, ROWS = 30, 1000
Round = tuple[load.Load, load.Load, load.Load]
"""Small requests alone, small ones beside large ones, and those large ones."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    os.environ.update(dict.fromkeys(THREADS, "1"))
    if problem := missing_programs(nginx=False):
        print(problem, file=sys.stderr)
        return 1
    show(rounds(options.rounds, options.seconds, options.small, options.large))
    return 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.mixed", description="Small requests beside large ones.")
    parser.add_argument("--rounds", type=int, default=3, help="interleaved rounds; figures are medians over them")
    parser.add_argument("--seconds", type=int, default=5, help="length of one window")
    parser.add_argument("--small", type=int, default=16, metavar="N", help="connections that ask one row")
    parser.add_argument("--large", type=int, default=4, metavar="N", help=f"connections that ask {ROWS} rows")
    return parser.parse_args(arguments)


def rounds(number: int, seconds: int, small: int = 16, large: int = 4) -> list[Round]:
    """Of a plane that is brought up for it: one row over `small` connections, many over `large` ones."""
    with tempfile.TemporaryDirectory(prefix="mzm-") as name:
        folder = Path(name).resolve()
        one, many = question(folder, 1), question(folder, ROWS)
        first = json.loads(one.read_text())
        positive = int(first["inputs"][0]["data"][0] > 0)
        server = contestants.Mizzen(folder, train(folder), question=first, answer=[positive])
        try:
            server.start()
            load.run(server.url, one, connections=8, seconds=1)  # warm
            load.run(server.url, many, connections=2, seconds=1)
            return [measure(server.url, (one, small), (many, large), seconds) for _ in range(number)]
        finally:
            server.stop()


def train(folder: Path) -> Path:
    import joblib
    import numpy
    from sklearn.linear_model import LogisticRegression

    rng = numpy.random.default_rng(0)
    rows = rng.normal(size=(400, COLUMNS))
    path = folder / "model.joblib"
    joblib.dump(LogisticRegression().fit(rows, (rows[:, 0] > 0).astype(int)), path)
    return path


def question(folder: Path, rows: int) -> Path:
    rng = random.Random(rows)
    data = [round(rng.gauss(0, 1), 8) for _ in range(rows * COLUMNS)]
    tensor = {"name": "input", "shape": [rows, COLUMNS], "datatype": "FP64", "data": data}
    path = folder / f"rows{rows}.json"
    path.write_text(json.dumps({"inputs": [tensor]}))
    return path


def measure(url: str, small: tuple[Path, int], large: tuple[Path, int], seconds: int) -> Round:
    """Of small requests alone, and of small and large ones at once; each with its connections."""
    alone = load.run(url, *small, seconds)
    beside: list[load.Load] = []
    other = threading.Thread(target=lambda: beside.append(load.run(url, *large, seconds)))
    other.start()
    mixed = load.run(url, *small, seconds)
    other.join()
    return alone, mixed, beside[0]


def ratio(rounds: Sequence[Round]) -> float:
    return median(mixed.p99_ms / alone.p99_ms for alone, mixed, _ in rounds)


def show(rounds: Sequence[Round]) -> None:
    rows: list[tuple[str, ...]] = [("requests", "per second", "p50 ms", "p99 ms", "errors")]
    for what, seen in zip(
        ("one row, alone", "one row, beside", f"{ROWS} rows"), zip(*rounds, strict=True), strict=True
    ):
        rows.append((
            what,
            report.number(median(one.requests / one.seconds for one in seen)),
            report.number(median(one.p50_ms for one in seen)),
            report.number(median(one.p99_ms for one in seen)),
            str(sum(one.errors for one in seen)),
        ))  # fmt: skip
    times = ratio(rounds)
    print(f"\n{report.table(rows)}\n\np99 of one row beside {ROWS} rows is {times:.2f} times its p99 alone.")


if __name__ == "__main__":
    sys.exit(main())
