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


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    os.environ.update(dict.fromkeys(THREADS, "1"))
    if problem := missing_programs(nginx=False):
        print(problem, file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="mzm-") as name:
        folder = Path(name).resolve()
        small, large = question(folder, 1), question(folder, ROWS)
        first = json.loads(small.read_text())
        positive = int(first["inputs"][0]["data"][0] > 0)
        server = contestants.Mizzen(folder, train(folder), question=first, answer=[positive])
        try:
            server.start()
            load.run(server.url, small, connections=8, seconds=1)  # warm
            load.run(server.url, large, connections=2, seconds=1)
            rounds = [measure(server.url, small, large, options) for _ in range(options.rounds)]
        finally:
            server.stop()
    show(rounds)
    return 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.mixed", description="Small requests beside large ones.")
    parser.add_argument("--rounds", type=int, default=3, help="interleaved rounds; figures are medians over them")
    parser.add_argument("--seconds", type=int, default=5, help="length of one window")
    parser.add_argument("--small", type=int, default=16, metavar="N", help="connections that ask one row")
    parser.add_argument("--large", type=int, default=4, metavar="N", help=f"connections that ask {ROWS} rows")
    return parser.parse_args(arguments)


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


def measure(url: str, small: Path, large: Path, options: argparse.Namespace) -> tuple[load.Load, load.Load, load.Load]:
    """Of small requests alone, and of small and large ones at once."""
    alone = load.run(url, small, options.small, options.seconds)
    beside: list[load.Load] = []
    other = threading.Thread(target=lambda: beside.append(load.run(url, large, options.large, options.seconds)))
    other.start()
    mixed = load.run(url, small, options.small, options.seconds)
    other.join()
    return alone, mixed, beside[0]


def show(rounds: Sequence[tuple[load.Load, load.Load, load.Load]]) -> None:
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
    ratio = median(mixed.p99_ms / alone.p99_ms for alone, mixed, _ in rounds)
    print(f"\n{report.table(rows)}\n\np99 of one row beside {ROWS} rows is {ratio:.2f} times its p99 alone.")


if __name__ == "__main__":
    sys.exit(main())
