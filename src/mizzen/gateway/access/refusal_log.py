"""The log of requests that this gateway refused, for the audit. `access/refusal_lines.py` has its format and place.

The first of equal refusals within a second is written at once, so that it survives a crash. The others become one line
with a count at the end of the second; for anonymous callers, that line leaves out what they named. The number of
distinct refusals and the bytes that wait for the audit are limited: beyond that only a count is kept. A failed write
never delays or changes a refusal.
"""

from __future__ import annotations

import fcntl
import logging
import os
import time
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path

import msgspec

from mizzen.access import refusal_lines
from mizzen.access.refusal_lines import LONGEST, LONGEST_REASON, Refusal
from mizzen.access.safe_text import sanitize

WINDOW = 1.0
MAX_DISTINCT = 256
"""Distinct refusals within one window."""
FILE_BYTES = 1 << 20
MAX_FILES = 16
"""Files of this gateway that may wait to be audited by the plane."""

CallLater = Callable[[float, Callable[[], None]], object]

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class RefusalLog:
    folder: Path
    gateway: str
    """The name of this process, without a dot."""
    _: KW_ONLY
    wall: Callable[[], float]
    call_later: CallLater
    file_bytes: int = FILE_BYTES
    prefix: str = ""
    """Letters that tell the files of this log from other logs of the process; each prefix may have MAX_FILES."""
    _file: int | None = None
    _size: int = 0
    _window: dict[object, Refusal | None] = field(default_factory=dict)
    """By key, for this window: the entry to write at its end, or None."""
    _lost: int = 0
    """Refusals that could not be written."""
    _warned: bool = False

    def note(
        self, code: int, reason: str, *, actor: str, verb: str, kind: str, namespace: str = "", name: str = "",
        method: str = "", path: str = "",
    ) -> None:  # fmt: skip
        refusal = Refusal(
            time=self.wall(), actor=actor, verb=verb, kind=kind, code=code,
            namespace=sanitize(namespace, LONGEST), name=sanitize(name, LONGEST),
            reason=sanitize(reason, LONGEST_REASON), method=sanitize(method, LONGEST), path=sanitize(path, LONGEST),
        )  # fmt: skip
        if not self._window:
            self.call_later(WINDOW, self.flush)
        key: object = refusal.merge_key()
        if key not in self._window and len(self._window) >= MAX_DISTINCT:
            key = None
            refusal = Refusal(
                time=refusal.time, actor="", verb="", kind="Plane", code=code,
                reason=f"more than {MAX_DISTINCT} different refusals within a second",
            )  # fmt: skip
        if key not in self._window:
            self._window[key] = None
            self._write(refusal)
            return
        before = self._window[key]
        self._window[key] = (
            refusal.without_details() if before is None else msgspec.structs.replace(before, count=before.count + 1)
        )

    def add(self, entry: Refusal) -> None:
        """Writes an entry as it is, without counting equal ones."""
        self._write(entry)

    def flush(self) -> None:
        """Writes the counted entries, at the end of a window or of this process."""
        repeated, self._window = [refusal for refusal in self._window.values() if refusal is not None], {}
        for refusal in repeated:
            self._write(refusal)

    def close(self) -> None:
        self.flush()
        self._end_file()

    def _write(self, refusal: Refusal) -> None:
        data = refusal_lines.encode_line(refusal)
        try:
            if self._file is None or self._size + len(data) > self.file_bytes:
                self._begin_file()
            if self._lost:
                data = refusal_lines.encode_line(self._loss_entry(refusal)) + data
            assert self._file is not None
            written = os.write(self._file, data)
        except OSError as error:
            self._count_lost(refusal, error)
            return
        self._size += written
        if written < len(data):  # the disk is full; readers skip a truncated line
            self._count_lost(refusal, "the write was incomplete")
            return
        self._lost = 0
        self._warned = False

    def _loss_entry(self, next_: Refusal) -> Refusal:
        return Refusal(
            time=next_.time, actor="", verb="", kind="Plane", code=0, count=self._lost,
            reason="entries that could not be written individually",
        )  # fmt: skip

    def _count_lost(self, refusal: Refusal, why: object) -> None:
        self._end_file()
        self._lost += refusal.count
        if not self._warned:
            log.warning("refusals cannot be written to %s and are only counted: %s", self.folder, why)
            self._warned = True

    def _begin_file(self) -> None:
        self._end_file()
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        waiting = sum(1 for _ in self.folder.glob(f"{self.gateway}.{self.prefix}[0-9]*{refusal_lines.SUFFIX}"))
        if waiting >= MAX_FILES:
            raise OSError(f"{waiting} files are already waiting to be audited")
        while self._file is None:
            self._file = _create_locked(
                self.folder / f"{self.gateway}.{self.prefix}{time.time_ns():020d}{refusal_lines.SUFFIX}"
            )
        self._size = 0

    def _end_file(self) -> None:
        if self._file is not None:
            os.close(self._file)  # also releases the lock
            self._file = None


def _create_locked(path: Path) -> int | None:
    """Creates and locks a file. None: the plane was faster, took the file for a finished one and removed it."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return None
    if os.fstat(file).st_nlink:
        return file
    os.close(file)
    return None
