"""What this gateway refused, written down for the audit; `access/refusal_lines.py` says where and how.

The first of equal refusals within a second is written at once, so that it outlives whatever ends this process; the
others of that second become one line with a count when it is over, for strangers without what they named. Differing
ones are bounded in number, and what waits to be audited in bytes: beyond that only the count is kept. A refusal is
never held up, and never becomes anything else, because it cannot be written.
"""

from __future__ import annotations

import fcntl
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from mizzen.access import refusal_lines
from mizzen.access.refusal_lines import LONGEST, LONGEST_REASON, Refusal
from mizzen.access.safe_text import plain

WINDOW = 1.0
MOST_DIFFERENT = 256
"""Refusals that are told apart within one window."""
FILE_BYTES = 1 << 20
MOST_FILES = 16
"""Files of this gateway that may wait for the plane."""

CallLater = Callable[[float, Callable[[], None]], object]

log = logging.getLogger(__name__)


class Refusals:
    def __init__(
        self,
        folder: Path,
        gateway: str,
        *,
        wall: Callable[[], float],
        call_later: CallLater,
        file_bytes: int = FILE_BYTES,
        sort: str = "",
    ) -> None:
        """`gateway` is the name of this process, without a dot. `sort`: letters by which files of its entries are told
        from others of the same process; each sort may have MOST_FILES."""
        self._sort = sort
        self._folder = folder
        self._gateway = gateway
        self._wall = wall
        self._call_later = call_later
        self._file_bytes = file_bytes
        self._file: int | None = None
        self._size = 0
        self._seen: dict[object, Refusal | None] = {}
        """Of this window: what is to be written at its end, None when that is nothing."""
        self._lost = 0
        """Refusals that found no place."""
        self._complained = False

    def note(
        self, code: int, reason: str, *, actor: str, verb: str, kind: str, namespace: str = "", name: str = "",
        method: str = "", path: str = "",
    ) -> None:  # fmt: skip
        refusal = Refusal(
            time=self._wall(), actor=actor, verb=verb, kind=kind, code=code,
            namespace=plain(namespace, LONGEST), name=plain(name, LONGEST), reason=plain(reason, LONGEST_REASON),
            method=plain(method, LONGEST), path=plain(path, LONGEST),
        )  # fmt: skip
        if not self._seen:
            self._call_later(WINDOW, self.flush)
        key: object = refusal.like()
        if key not in self._seen and len(self._seen) >= MOST_DIFFERENT:
            key = None
            refusal = Refusal(
                time=refusal.time, actor="", verb="", kind="Plane", code=code,
                reason=f"more than {MOST_DIFFERENT} different refusals within a second",
            )  # fmt: skip
        if key not in self._seen:
            self._seen[key] = None
            self._write(refusal)
            return
        before = self._seen[key]
        self._seen[key] = (
            refusal.counted() if before is None else msgspec.structs.replace(before, count=before.count + 1)
        )

    def add(self, entry: Refusal) -> None:
        """One that stands for itself, whatever else there is."""
        self._write(entry)

    def flush(self) -> None:
        """The window is over, or this process ends: write what was only counted."""
        repeated, self._seen = [refusal for refusal in self._seen.values() if refusal is not None], {}
        for refusal in repeated:
            self._write(refusal)

    def close(self) -> None:
        self.flush()
        self._end_file()

    def _write(self, refusal: Refusal) -> None:
        data = refusal_lines.line(refusal)
        try:
            if self._file is None or self._size + len(data) > self._file_bytes:
                self._begin_file()
            if self._lost:
                data = refusal_lines.line(self._of_lost(refusal)) + data
            assert self._file is not None
            written = os.write(self._file, data)
        except OSError as error:
            self._lose(refusal, error)
            return
        self._size += written
        if written < len(data):  # the disk is full; who reads it leaves a cut line out
            self._lose(refusal, "cut short")
            return
        self._lost = 0
        self._complained = False

    def _of_lost(self, next_: Refusal) -> Refusal:
        return Refusal(
            time=next_.time, actor="", verb="", kind="Plane", code=0, count=self._lost,
            reason="entries that could not be written down one by one",
        )  # fmt: skip

    def _lose(self, refusal: Refusal, why: object) -> None:
        self._end_file()
        self._lost += refusal.count
        if not self._complained:
            log.warning("refusals cannot be written to %s, and are only counted: %s", self._folder, why)
            self._complained = True

    def _begin_file(self) -> None:
        self._end_file()
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        waiting = sum(1 for _ in self._folder.glob(f"{self._gateway}.{self._sort}[0-9]*{refusal_lines.SUFFIX}"))
        if waiting >= MOST_FILES:
            raise OSError(f"{waiting} files wait to be audited already")
        while self._file is None:
            self._file = _locked(
                self._folder / f"{self._gateway}.{self._sort}{time.time_ns():020d}{refusal_lines.SUFFIX}"
            )
        self._size = 0

    def _end_file(self) -> None:
        if self._file is not None:
            os.close(self._file)  # which lets go of the lock
            self._file = None


def _locked(path: Path) -> int | None:
    """A new file with the lock on it. None: the plane was quicker, took it for a finished one and removed it."""
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
