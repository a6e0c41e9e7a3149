"""`make bench-scale`: what a whole plane costs on a store of many models: its starts, and one change.

A start is measured twice: the first one on objects that no controller has seen, as after an upgrade, and the next one,
when there is nothing left to do. A change is measured with all that follows from it, until the plane is quiet again.
CPU and memory are those of the plane's process.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

import httpx2

from bench import contestants, procfs, report
from bench.core import HERE, fill, name_of
from bench.run import train
from mizzen.kinds.schema.resource import API_VERSION

CHANGES = 20
WINDOW = 0.5
"""Seconds. A plane that uses next to nothing in several windows on end is quiet."""
NOTHING = 0.05
LONGEST = 1800.0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make bench-scale", description="What a whole plane costs.")
    parser.add_argument("--models", type=int, nargs="+", default=[100, 10_000], help="sizes of the stores")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="mzw-") as folder:
        for models in options.models:
            plane = WholePlane(Path(folder) / str(models), models)
            plane.data_dir.mkdir()
            asyncio.run(fill(plane.data_dir, models))
            with plane.running():
                starts = [plane.start("first start")]
            with plane.running():
                starts.append(plane.start("start again"))
                show_starts(starts)
                show_changes(plane.changes())
    return 0


@dataclass(frozen=True, slots=True)
class Start:
    what: str
    models: int
    ready_cpu: float
    settled_cpu: float
    """Seconds of CPU since the process began."""
    rss_mb: float
    peak_mb: float
    writes: int
    """Resource versions that were given."""
    waits_ms: tuple[float, ...]
    """Of somebody who looked at a model, again and again, meanwhile."""


@dataclass(frozen=True, slots=True)
class Change:
    what: str
    models: int
    cpu_ms: float
    """Of the plane, without what it uses when nothing happens."""


class WholePlane:
    """Supervisor, plane and gateway over a store that is there already."""

    def __init__(self, data_dir: Path, models: int) -> None:
        self.data_dir = data_dir
        self.models = models
        self._pid = 0

    @contextmanager
    def running(self) -> Iterator[None]:
        try:
            yield
        finally:
            self._mizzen("down")

    def start(self, what: str) -> Start:
        before = self._position()
        self._mizzen("up", "--detach", "--port", "0", "--inference-port", "0", "--grpc-port", "0", "--tls-port", "0")
        there = procfs.with_environment("MIZZEN_DATA_DIR", str(self.data_dir.resolve()))
        [self._pid] = [pid for pid in there if contestants.role(pid) == "plane"]
        ready = procfs.precise_cpu_seconds(self._pid)
        with self._looking() as waits:
            self._settle()
        return Start(
            what, self.models, ready, procfs.precise_cpu_seconds(self._pid), procfs.memory(self._pid).rss_mb,
            _peak_mb(self._pid), self._position() - before, tuple(waits),
        )  # fmt: skip

    def changes(self) -> list[Change]:
        with self._client() as client:

            def labelled(number: int) -> httpx2.Response:
                name = f"new-{number}"
                metadata, spec = {"name": name, "labels": {"n": "1"}}, {"aliases": {"live": "1"}}
                body = {"apiVersion": API_VERSION, "kind": "Model", "metadata": metadata, "spec": spec}
                return client.put(f"{HERE}/models/{name}", json=body)

            file = {"path": str(train(self.data_dir.parent))}
            found = [
                self._change("create a model", lambda n: client.post("/model", json={"name": f"new-{n}"})),
                self._change("add a version", lambda n: client.post(f"/model/new-{n}/version", json=file)),
                self._change(
                    "point an alias", lambda n: client.put(f"/model/new-{n}/alias/live", json={"version": "1"})
                ),
                self._change("label a model", labelled),
            ]
            _answering(client, file)
            found += [
                self._change(
                    "promote", lambda n: client.post("/model/new-0/current", json={"version": str(2 - n % 2)})
                ),
                self._change("delete a model", lambda n: client.delete(f"/model/new-{n + 1}"), CHANGES - 1),
            ]
        return found

    def _change(self, what: str, call: Callable[[int], httpx2.Response], count: int = CHANGES) -> Change:
        self._settle()
        idle = self._idle()
        before, began = procfs.precise_cpu_seconds(self._pid), time.monotonic()
        for number in range(count):
            answer = call(number)
            assert answer.status_code < 300, f"{what}: {answer.status_code} {answer.text[:400]}"
        self._settle()
        used = procfs.precise_cpu_seconds(self._pid) - before - idle * (time.monotonic() - began)
        return Change(what, self.models, used / count * 1000)

    def _idle(self) -> float:
        """What the plane uses per second when nothing happens."""
        before, began = procfs.precise_cpu_seconds(self._pid), time.monotonic()
        time.sleep(4 * WINDOW)
        return (procfs.precise_cpu_seconds(self._pid) - before) / (time.monotonic() - began)

    def _settle(self) -> None:
        end = time.monotonic() + LONGEST
        quiet = 0
        while quiet < 3:
            assert time.monotonic() < end, "the plane does not come to rest"
            before = procfs.precise_cpu_seconds(self._pid)
            time.sleep(WINDOW)
            used = procfs.precise_cpu_seconds(self._pid) - before
            quiet = quiet + 1 if used < NOTHING * WINDOW else 0

    @contextmanager
    def _looking(self) -> Iterator[list[float]]:
        waits: list[float] = []
        over = threading.Event()

        def look() -> None:
            with self._client() as client:
                while not over.wait(0.2):
                    began = time.monotonic()
                    assert client.get(f"/model/{name_of(50)}").status_code == 200
                    waits.append(1000 * (time.monotonic() - began))

        looker = threading.Thread(target=look)
        looker.start()
        try:
            yield waits
        finally:
            over.set()
            looker.join()

    def _client(self) -> httpx2.Client:
        control = json.loads((self.data_dir / "run" / "supervisor.json").read_text())["listeners"]["control"]
        headers = {"authorization": f"Bearer {(self.data_dir / 'admin-token').read_text().strip()}"}
        url = f"http://{control['host']}:{control['port']}"
        return httpx2.Client(base_url=url, headers=headers, timeout=60, trust_env=False)

    def _position(self) -> int:
        with closing(sqlite3.connect(self.data_dir / "mizzen.db")) as connection:
            [(position,)] = connection.execute("SELECT rv FROM state").fetchall()
        return int(position)

    def _mizzen(self, *arguments: str) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MIZZEN_")}
        command = [sys.executable, "-m", "mizzen.cli.main", *arguments, "--data-dir", str(self.data_dir)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode:
            raise contestants.StartFailed(f"mizzen {arguments[0]}: {done.stderr[-600:]}")


def _answering(client: httpx2.Client, file: dict[str, str]) -> None:
    """Two versions of one model are served, so that current can be moved to and fro."""
    client.post("/model/new-0/version", json=file).raise_for_status()
    for version in ("1", "2"):
        client.post(f"/model/new-0/serve/{version}", json={}).raise_for_status()
    end = time.monotonic() + LONGEST
    for version in ("1", "2"):
        while client.post("/model/new-0/current", json={"version": version}).status_code != 200:
            assert time.monotonic() < end, f"version {version} does not answer"
            time.sleep(WINDOW)


def _peak_mb(pid: int) -> float:
    lines = (procfs.PROC / str(pid) / "status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))


def show_starts(starts: Sequence[Start]) -> None:
    rows: list[tuple[str, ...]] = [
        ("models", "start", "ready, CPU s", "quiet, CPU s", "RSS MB", "peak MB", "writes", "get p50 ms", "p99 ms")
    ]
    for start in starts:
        figures = (
            start.ready_cpu, start.settled_cpu, start.rss_mb, start.peak_mb, start.writes, median(start.waits_ms),
            quantiles(start.waits_ms, n=100)[98],
        )  # fmt: skip
        rows.append((f"{start.models:,}", start.what, *map(report.number, figures)))
    print(f"\n{report.table(rows)}", flush=True)


def show_changes(changes: Sequence[Change]) -> None:
    rows: list[tuple[str, ...]] = [("models", "change", "CPU ms")]
    rows += [(f"{change.models:,}", change.what, report.number(change.cpu_ms)) for change in changes]
    print(f"\n{report.table(rows)}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
