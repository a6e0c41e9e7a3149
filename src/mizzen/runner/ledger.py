"""What all runners of a job set know of its checkpoints together, in a file behind a lock.

An entry that was renamed into place is complete, and stays known as such until it is published: whoever is killed in
between. One that was found when an attempt began, and nobody knows to be complete, is doubtful: it may be half of
something that an attempt before was killed over.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from mizzen.runs import records
from mizzen.runs.places import JobPlace


@dataclass(frozen=True, slots=True)
class Complete:
    signature: str
    at: float
    """When it was complete."""
    id: str = ""
    """Of the checkpoint; empty until it is one."""


@dataclass(slots=True)
class Ledger:
    complete: dict[str, Complete] = field(default_factory=dict)
    doubtful: dict[str, str] = field(default_factory=dict)
    """Signatures, by name."""


class Ledgers:
    def __init__(self, job: JobPlace) -> None:
        self._file = job.folder / ".checkpoints.json"
        self._lock = job.folder / ".checkpoints.lock"

    @contextmanager
    def open(self) -> Iterator[Ledger]:
        """Alone with it. What is changed is written at the end, if that is reached. OSError."""
        with locked(self._lock):
            ledger = self._read()
            before = asdict(ledger)
            yield ledger
            after = asdict(ledger)
            if after != before:
                records.write(self._file, after)

    def _read(self) -> Ledger:
        data: Any = records.read(self._file) or {}
        try:
            complete = {name: Complete(**entry) for name, entry in data.get("complete", {}).items()}
            return Ledger(complete, dict(data.get("doubtful", {})))
        except (TypeError, AttributeError, ValueError):
            return Ledger()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Alone with what this file stands for; until the process ends, at the latest. OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
