"""What all runners of a job set know of its checkpoints together, in a file behind a lock.

An entry that was renamed into place is complete, and stays known as such until it is published: whoever is killed in
between. One that was found when an attempt began, and nobody knows to be complete, is doubtful: it may be half of
something that an attempt before was killed over.

The file has a line for each change. A runner reads what others added since it looked last, and adds its own; so what a
change costs does not grow with how many there were. Whoever begins an attempt writes it anew, without what is past.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from mizzen.runs.paths import JobPlace


@dataclass(frozen=True, slots=True)
class Complete:
    signature: str
    at: float
    """When it was complete."""
    id: str = ""
    """Of the checkpoint; empty until it is one."""
    left_out: bool = False
    """It cannot become one, for a reason of its own."""

    @property
    def pending(self) -> bool:
        return not self.id and not self.left_out


@dataclass(slots=True)
class Ledger:
    """Read what it holds; change it by its verbs only, which are what is written down."""

    complete: dict[str, Complete] = field(default_factory=dict)
    doubtful: dict[str, str] = field(default_factory=dict)
    """Signatures, by name."""
    noted: dict[str, str] = field(default_factory=dict)
    """What was told of entries, by name."""
    lines: list[list[Any]] = field(default_factory=list)
    """Changes that are not written yet."""

    def pending(self) -> list[str]:
        return [name for name, entry in self.complete.items() if entry.pending]

    def record_complete(self, name: str, entry: Complete) -> None:
        self._change("complete", name, asdict(entry))

    def forget(self, name: str) -> None:
        self._change("forget", name)

    def doubt(self, signatures: Mapping[str, str]) -> None:
        """These, and no others."""
        if dict(signatures) != self.doubtful:
            self._change("doubt", dict(signatures))

    def trust(self, name: str) -> None:
        """It is not doubtful any more."""
        if name in self.doubtful:
            self._change("trust", name)

    def note(self, name: str, text: str) -> bool:
        """False when that was told already."""
        if self.noted.get(name) == text:
            return False
        self._change("note", name, text)
        return True

    def _change(self, *line: Any) -> None:
        self.apply(list(line))
        self.lines.append(list(line))

    def apply(self, line: Any) -> None:
        """A line that somebody wrote. One that makes no sense changes nothing."""
        match line:
            case ["complete", str(name), dict(entry)]:
                self.complete[name] = Complete(**entry)
            case ["forget", str(name)]:
                self.complete.pop(name, None)
            case ["doubt", dict(signatures)]:
                self.doubtful = dict(signatures)
            case ["trust", str(name)]:
                self.doubtful.pop(name, None)
            case ["note", str(name), str(text)]:
                self.noted[name] = text

    def whole(self) -> list[list[Any]]:
        """Lines that tell all of it."""
        complete = [["complete", name, asdict(entry)] for name, entry in self.complete.items()]
        return [*complete, ["doubt", self.doubtful], *(["note", *each] for each in self.noted.items())]


class Ledgers:
    """For one thread at a time."""

    def __init__(self, job: JobPlace) -> None:
        self._file = job.folder / ".checkpoints.jsonl"
        self._lock = job.folder / ".checkpoints.lock"
        self._ledger = Ledger()
        self._handle = -1
        """Held open, so that another file can be told from this one by its inode."""
        self._read_to = 0
        self._unsynced = False

    @contextmanager
    def open(self, *, sync: bool = False) -> Iterator[Ledger]:
        """Alone with it. What is changed is written at the end, if that is reached, and with `sync` it is on disk
        then, with all that was written before. OSError."""
        with locked(self._lock):
            self._catch_up()
            try:
                yield self._ledger
                self._append(sync)
            except BaseException:
                self._drop()  # what is in memory may be more than what is written
                raise

    def compact(self) -> None:
        """Without what is past. OSError."""
        with locked(self._lock):
            self._catch_up()
            new = self._file.with_name(f"{self._file.name}.tmp")
            with new.open("wb") as file:
                file.write(_encode_lines(self._ledger.whole()))
                file.flush()
                os.fsync(file.fileno())
            new.replace(self._file)
            self._drop()

    def close(self) -> None:
        self._drop()

    def _catch_up(self) -> None:
        if self._handle >= 0 and not self._is_current():
            self._drop()
        if self._handle < 0:
            self._handle = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        size = os.fstat(self._handle).st_size
        if size == self._read_to:
            return
        data = b""
        while more := os.pread(self._handle, 1 << 20, self._read_to + len(data)):
            data += more
        whole = data.rfind(b"\n") + 1
        if whole < len(data):  # whoever wrote it was killed, or had no room, in the middle of a line
            os.ftruncate(self._handle, self._read_to + whole)
        for line in data[:whole].splitlines():
            try:
                self._ledger.apply(json.loads(line))
            except (ValueError, TypeError, RecursionError):
                continue
        self._read_to += whole

    def _append(self, sync: bool) -> None:
        lines, self._ledger.lines = self._ledger.lines, []
        data = memoryview(_encode_lines(lines))
        self._unsynced = self._unsynced or bool(lines)
        while data:
            written = os.write(self._handle, data)
            data = data[written:]
            self._read_to += written
        if sync and self._unsynced:
            os.fsync(self._handle)
            self._unsynced = False

    def _is_current(self) -> bool:
        try:
            at, mine = self._file.stat(), os.fstat(self._handle)
        except FileNotFoundError:
            return False
        return (at.st_dev, at.st_ino) == (mine.st_dev, mine.st_ino) and at.st_size >= self._read_to

    def _drop(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
        self._handle, self._read_to, self._ledger = -1, 0, Ledger()


def _encode_lines(lines: list[list[Any]]) -> bytes:
    return "".join(f"{json.dumps(line)}\n" for line in lines).encode()


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
