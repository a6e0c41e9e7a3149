"""A steady load on the inference API that checks every answer and remembers every failure. See `caller`."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Failure:
    what: str
    started: float
    connected: float
    """When its connection was opened, by the monotonic clock: a request can only be in flight in a process that had
    accepted it."""


@dataclass(slots=True)
class Report:
    sent: int = 0
    right: int = 0
    wrong: list[str] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    seconds: float = 0.0
    """In which they were sent; 0: not over yet."""
    latest: float = 0.0
    """Most seconds that one was sent after its time."""

    def __str__(self) -> str:
        kinds = Counter(failure.what.partition(" ")[0] for failure in self.failures)
        failed = ", ".join(f"{count} x {kind}" for kind, count in kinds.items()) or "none"
        rate = self.sent / self.seconds if self.seconds else 0.0
        return (
            f"{self.sent} sent in {self.seconds:.1f} s ({rate:.0f}/s, at most {self.latest:.2f} s late), "
            f"{self.right} right, {len(self.wrong)} wrong, failed: {failed}"
        )


class Load:
    """`rate` requests a second to `url` until stopped."""

    def __init__(self, url: str, rate: int) -> None:
        self.rate = rate
        self.report = Report()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.caller", url, str(rate)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def stop(self) -> None:
        """Returns when all that was sent is answered."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._reader.join()
        assert self._process.wait() == 0, "the process that makes the load failed"

    def _read(self) -> None:
        assert self._process.stdout is not None
        report = self.report
        with self._process.stdout as lines:
            for line in lines:
                told = json.loads(line)
                report.failures += [Failure(*each) for each in told["failures"]]
                report.wrong += told["wrong"]
                report.sent, report.right = told["sent"], told["right"]
                report.seconds, report.latest = told.get("seconds", 0.0), told.get("latest", 0.0)


@contextmanager
def steady_load(url: str, rate: int = 500) -> Iterator[Load]:
    """Runs the load in a process of its own while the body does its mischief; afterwards `report` is complete."""
    load = Load(url, rate)
    try:
        yield load
    finally:
        load.stop()
        sys.stderr.write(f"load: {load.report}\n")
