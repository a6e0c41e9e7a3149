"""The output of a command: taken from its pipe by a thread, and kept in a log of bounded size.

The log is only ever appended to, so that positions in it stay valid. It has the beginning of the output, then samples
of it, ever rarer, and its end. What was left out is counted in the log itself.
"""

from __future__ import annotations

import os
import select
from contextlib import suppress
from threading import Thread

from mizzen.confinement.output_pipe import SIZE, OutputPipe

DEFAULT_BYTES = 32 << 20
_PIECE = 1 << 17
_LAST = 4 * SIZE
"""Bytes to read at most after the end of the command."""
_MARK_LENGTH = 200


class BoundedLog:
    """Appends output to a file that never exceeds `most` bytes. Drops what a full disk does not take."""

    def __init__(self, handle: int, most: int) -> None:
        self._handle = handle
        self._most = most
        self._size = os.fstat(handle).st_size
        self._whole = most * 3 // 4
        """All output is kept up to this size."""
        self._sample = max(most // 256, 1)
        self._end = max(most // 8, 1)
        """The size of a sample, and of the part that is kept for the end."""
        self._recent = bytearray()
        self._pending = 0
        """Bytes since the last one that was written; the last of them are in `_recent`."""
        self._beyond = 0
        self._next_sample = 0

    def write(self, data: bytes) -> None:
        if not self._pending and (part := self._fitting(data)):
            self._append(part)
            data = data[len(part) :]
        if not data:
            return
        self._recent += data[-self._end :]
        del self._recent[: -self._end]
        self._pending += len(data)
        self._beyond += len(data)
        if self._beyond >= self._next_sample:
            self._next_sample = self._beyond + max(self._beyond // 4, self._end)
            self._flush(self._sample, self._most - self._end - 2 * _MARK_LENGTH)

    def finish(self) -> None:
        """Appends the last output."""
        self._flush(self._end, self._most)

    def _fitting(self, data: bytes) -> bytes:
        """As many whole lines as are kept in any case."""
        room = max(self._whole - self._size, 0)
        return data if len(data) <= room else data[: data.rfind(b"\n", 0, room) + 1]

    def _flush(self, most: int, limit: int) -> None:
        """Appends at most so many bytes of the pending output, after a line about the rest."""
        room = min(most, limit - self._size - _MARK_LENGTH)
        if not self._pending or room <= 0:
            return
        kept = bytes(self._recent[-room:])
        if len(kept) < self._pending:
            kept = kept[kept.find(b"\n") + 1 :]
        left_out = self._pending - len(kept)
        mark = f"[mizzen: {left_out:,} bytes are left out here; a log keeps {self._most:,}]\n" if left_out else ""
        self._append(mark.encode() + kept)
        self._recent.clear()
        self._pending = 0

    def _append(self, data: bytes) -> None:
        rest = memoryview(data)
        with suppress(OSError):  # a full disk; the command ends soon for that
            while rest:
                written = os.write(self._handle, rest)
                self._size += written
                rest = rest[written:]


class CommandOutput:
    def __init__(self, pipe: OutputPipe, log: BoundedLog) -> None:
        self._pipe = pipe
        self._log = log
        self._ended, self._ending = os.pipe2(os.O_CLOEXEC)
        self._thread = Thread(target=self._run, name="output", daemon=True)
        self._thread.start()

    def open_to_write(self) -> int:
        """Returns a descriptor for the command; the caller closes it. Raises OSError."""
        return self._pipe.open_to_write()

    def finish(self) -> None:
        """Takes the rest, after the end of the command and of its descendants."""
        os.close(self._ending)
        self._thread.join()
        os.close(self._ended)
        left = _LAST
        while left > 0 and (data := self._pipe.read(_PIECE)):
            left -= len(data)
            self._log.write(data)
        self._log.finish()
        self._pipe.close()
        self._pipe.path.unlink(missing_ok=True)

    def _run(self) -> None:
        while True:
            ready, _, _ = select.select([self._pipe.handle, self._ended], [], [])
            if self._ended in ready:
                return
            self._log.write(self._pipe.read(_PIECE))
