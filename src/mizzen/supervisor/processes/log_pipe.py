"""The output of one process: read from its pipe in bounded pieces, and written to a log of bounded size.

Each process gets the same share of a turn and a maximum rate: a flood blocks its writer, and delays nothing else.
"""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import suppress
from pathlib import Path

from mizzen.confinement.output_pipe import SIZE, OutputPipe
from mizzen.supervisor.processes.log_rotation import LogRetention, aside, shift

_PIECE = 1 << 17
_RATE = 64 << 20
"""Bytes per second and process."""
_BURST = 1 << 20
_LAST = 4 * SIZE
"""Bytes to read at most after the end of a process: its killed descendants may still write."""

SALVAGED = ".rest"
"""Ends the name of the file with what was left in a pipe whose reader was killed."""

log = logging.getLogger(__name__)


class HeldPipe:
    """The pipe of a training command. Its runner reads it; the supervisor holds it open and saves what a killed runner
    left in it, for the next runner to read."""

    def __init__(self, pipe: OutputPipe, target: Path, retention: LogRetention) -> None:
        self.pipe = pipe
        self._target = target
        self._retention = retention

    def close(self) -> None:
        """Removes the pipe."""
        salvage(self.pipe.path, self._target, self._retention)
        self.pipe.close()
        self.pipe.path.unlink(missing_ok=True)


class LogPipe:
    def __init__(self, pipe: OutputPipe, path: Path, retention: LogRetention, loop: asyncio.AbstractEventLoop) -> None:
        self.pipe = pipe
        self._path = path
        self._retention = retention
        self._loop = loop
        self._pause: asyncio.TimerHandle | None = None
        self._since_pause = 0
        self._failed = False
        self._write(b"")  # the log exists from the start
        loop.add_reader(pipe.handle, self._take)

    def close(self) -> None:
        """Writes everything that is in the pipe to the log, and removes the pipe."""
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove_reader(self.pipe.handle)
        left = _LAST
        while left > 0 and (data := self.pipe.read(_PIECE)):
            left -= len(data)
            self._write(data)
        self.pipe.close()
        self.pipe.path.unlink(missing_ok=True)

    def _take(self) -> None:
        data = self.pipe.read(_PIECE)
        self._write(data)
        self._since_pause += len(data)
        if self._since_pause >= _BURST:
            self._since_pause = 0
            self._loop.remove_reader(self.pipe.handle)
            self._pause = self._loop.call_later(_BURST / _RATE, self._resume)

    def _resume(self) -> None:
        self._pause = None
        self._loop.add_reader(self.pipe.handle, self._take)

    def _write(self, data: bytes) -> None:
        """What cannot be written, such as to a full disk, is dropped: a model must not wait for room."""
        try:
            append(self._path, data, self._retention)
        except OSError as error:
            if not self._failed:
                log.error("cannot write %s: %s", self._path, error.strerror)  # noqa: TRY400 - the trace says nothing more
            self._failed = True
        else:
            self._failed = False


def append(path: Path, data: bytes, retention: LogRetention) -> None:
    """Appends to a log; no file of it exceeds `retention.bytes`. Rotates it between lines where possible.

    Raises OSError.
    """
    rest = memoryview(data)
    while True:
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            room = retention.bytes - os.fstat(handle).st_size
            if len(rest) > room:
                room = _cut(data, len(data) - len(rest), max(room, 0), retention.bytes)
            part = rest[:room]
            written = os.write(handle, part) if part else 0
        finally:
            os.close(handle)
        rest = rest[written:]
        if not rest:
            return
        if written == len(part):
            shift(path, retention.files)
            path.replace(aside(path, 1))


def _cut(data: bytes, start: int, room: int, most: int) -> int:
    """How many bytes from `start` on go into a file with so much room: whole lines, unless a line is too long."""
    end = data.rfind(b"\n", start, start + room) + 1
    if end > start:
        return end - start
    # The line that began in this file ends in it, if it can; a line that fits into no file is cut anywhere.
    return 0 if room < most and len(data) - start <= most else room


def salvage(path: Path, target: Path, retention: LogRetention) -> None:
    """Saves what is left in the pipe of a process that ended without a reader, if there is a pipe."""
    with suppress(OSError):
        pipe = OutputPipe(path)
        left = _LAST
        while left > 0 and (data := pipe.read(_PIECE)):
            left -= len(data)
            append(target, data, retention)
        pipe.close()
        path.unlink()


def salvage_held(pipes: Path, key: str) -> None:
    """Saves what is left in the pipe of a training command whose runner and supervisor are gone."""
    salvage(pipes / key, pipes / f"{key}{SALVAGED}", LogRetention())
