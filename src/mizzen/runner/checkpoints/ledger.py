"""The ledger: the shared state of a job set's checkpoints, in a file behind a lock.

An entry that was renamed into place is complete, and stays recorded as such until it is published, also if a runner is
killed in between. An entry that exists when an attempt begins, and is not recorded as complete, is doubtful: an earlier
attempt may have been killed while writing it.

The file has one line for each change. A runner reads the lines that others added since its last read, and adds its own:
the cost of a change does not grow with their number. A runner that begins an attempt compacts the file.
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
    """When it became complete."""
    id: str = ""
    """The id of the checkpoint; empty until it is published."""
    left_out: bool = False
    """It cannot become a checkpoint, for a reason in the entry itself."""

    @property
    def pending(self) -> bool:
        return not self.id and not self.left_out


@dataclass(slots=True)
class CheckpointLedger:
    """Read its fields freely; change it only through its methods, which record each change."""

    complete: dict[str, Complete] = field(default_factory=dict)
    doubtful: dict[str, str] = field(default_factory=dict)
    """Signatures of doubtful entries, by name."""
    noted: dict[str, str] = field(default_factory=dict)
    """Notes about entries, by name."""
    lines: list[list[Any]] = field(default_factory=list)
    """Changes not yet written."""

    def pending(self) -> list[str]:
        return [name for name, entry in self.complete.items() if entry.pending]

    def record_complete(self, name: str, entry: Complete) -> None:
        self._record("complete", name, asdict(entry))

    def forget(self, name: str) -> None:
        self._record("forget", name)

    def doubt(self, signatures: Mapping[str, str]) -> None:
        """Replace the doubtful entries by these."""
        if dict(signatures) != self.doubtful:
            self._record("doubt", dict(signatures))

    def trust(self, name: str) -> None:
        """Mark an entry as no longer doubtful."""
        if name in self.doubtful:
            self._record("trust", name)

    def note(self, name: str, text: str) -> bool:
        """Add a note; False if it was already there."""
        if self.noted.get(name) == text:
            return False
        self._record("note", name, text)
        return True

    def _record(self, *line: Any) -> None:
        self.apply(list(line))
        self.lines.append(list(line))

    def apply(self, line: Any) -> None:
        """Apply a line from the file. An invalid line changes nothing."""
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
        """Return lines that describe the whole state."""
        complete = [["complete", name, asdict(entry)] for name, entry in self.complete.items()]
        return [*complete, ["doubt", self.doubtful], *(["note", *each] for each in self.noted.items())]


class LedgerFile:
    """Access to the ledger file, for one thread at a time."""

    def __init__(self, job: JobPlace) -> None:
        self._file = job.folder / ".checkpoints.jsonl"
        self._lock = job.folder / ".checkpoints.lock"
        self._ledger = CheckpointLedger()
        self._handle = -1
        """The file is held open, so that its inode distinguishes it from a replacement."""
        self._read_to = 0
        self._unsynced = False

    @contextmanager
    def open(self, *, sync: bool = False) -> Iterator[CheckpointLedger]:
        """Yield the ledger under an exclusive lock. Changes are written at the end, unless an error occurs. With `sync`
        they are then on disk, with everything written before. Raises OSError."""
        with locked(self._lock):
            self._catch_up()
            try:
                yield self._ledger
                self._append(sync)
            except BaseException:
                self.close()  # memory may hold more than was written
                raise

    def compact(self) -> None:
        """Rewrite the file without outdated lines. Raises OSError."""
        with locked(self._lock):
            self._catch_up()
            new = self._file.with_name(f"{self._file.name}.tmp")
            with new.open("wb") as file:
                file.write(_encode_lines(self._ledger.whole()))
                file.flush()
                os.fsync(file.fileno())
            new.replace(self._file)
            self.close()

    def _catch_up(self) -> None:
        if self._handle >= 0 and not self._is_current():
            self.close()
        if self._handle < 0:
            self._handle = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        size = os.fstat(self._handle).st_size
        if size == self._read_to:
            return
        data = b""
        while more := os.pread(self._handle, 1 << 20, self._read_to + len(data)):
            data += more
        whole = data.rfind(b"\n") + 1
        if whole < len(data):  # the writer was killed, or had no disk space, in the middle of a line
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

    def close(self) -> None:
        """Forget everything read so far. The next `open` reads the file again."""
        if self._handle >= 0:
            os.close(self._handle)
        self._handle, self._read_to, self._ledger = -1, 0, CheckpointLedger()


def _encode_lines(lines: list[list[Any]]) -> bytes:
    return "".join(f"{json.dumps(line)}\n" for line in lines).encode()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on this file, until the process ends at the latest. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
