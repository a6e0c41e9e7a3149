"""The access log: a line of JSON per request, or per request that failed by our fault.

Lines are gathered and written ten times a second, or sooner when there are many; a gateway that is killed loses those
of its last tenth of a second. A disk that takes none holds up nobody: the lines are lost, and the process log says so.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec

from mizzen.access.refusal_lines import LONGEST
from mizzen.access.safe_text import plain
from mizzen.gateway.inference.protocols import Options
from mizzen.gateway.request import url_paths
from mizzen.supervisor.processes.log_rotation import aside, shift

Logged = Literal["off", "errors", "all"]

LEAST: dict[str, int] = {"off": 1000, "errors": 500, "all": 0}
"""The lowest code that is written."""
FLUSH_SECONDS, FLUSH_BYTES = 0.1, 64 << 10
FILE_BYTES = 32 << 20
"""Then the file is put aside as <file>.1."""
MOST_ERRORS = 100
"""Lines a second where only errors are written: whatever fails may fail very often."""

log = logging.getLogger(__name__)


class Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`time` first: so lines of several files can be put in order as texts."""

    time: str
    """When it was answered."""
    request_id: str
    trace_id: str = ""
    actor: str = ""
    method: str
    path: str
    namespace: str = ""
    model: str = ""
    version: str = ""
    """The one that answered; the one in the URL where none did."""
    code: int
    seconds: float
    bytes_in: int
    """Of the body, and likewise those of the answer."""
    bytes_out: int
    gateway: str


class LeftOut(msgspec.Struct, frozen=True):
    """In place of the lines of one second beyond the first MOST_ERRORS."""

    time: str
    left_out: int
    gateway: str


class AccessLog:
    def __init__(
        self,
        path: Path,
        gateway: str,
        logged: Logged,
        *,
        wall: Callable[[], float],
        call_later: Callable[[float, Callable[[], None]], object],
        file_bytes: int = FILE_BYTES,
        files: int = 1,
    ) -> None:
        """`gateway` is the name of this process."""
        self.least = LEAST[logged]
        """The lowest code of an answer that has to be noted; whoever answers compares it first."""
        self._path = path
        self._gateway = gateway
        self._most = MOST_ERRORS if logged == "errors" else None
        self._wall = wall
        self._call_later = call_later
        self._file_bytes = file_bytes
        self._files = files
        self._file: int | None = None
        self._size = 0
        self._lines: list[bytes] = []
        self._bytes = 0
        self._second, self._text = 0, ""
        """The second that was written last, and its text."""
        self._noted = self._left_out = 0
        """Of that second."""
        self._complained = False
        if logged != "off":
            try:
                self._open()  # so that it can be followed before anything is in it
            except OSError as error:
                self._lose(error)

    def note(
        self, options: Options, request_id: bytes, code: int, *, seconds: float, bytes_in: int, bytes_out: int,
        served: tuple[str, str, str] | None = None,
    ) -> None:  # fmt: skip
        """`served`: namespace, name and version of what answered; None: nothing did."""
        time = self._time()
        self._noted += 1
        if self._most is not None and self._noted > self._most:
            if not self._left_out:
                self._call_later(1.0, self._tell_left_out)
            self._left_out += 1
            return
        path = plain(options.path.decode("latin-1"), LONGEST)
        namespace, model, version = served or _named(options.path)
        self._add(Line(
            time=time, request_id=request_id.decode("latin-1"), trace_id=options.trace.id if options.trace else "",
            actor=options.actor, method=plain(options.method, LONGEST), path=path, namespace=namespace, model=model,
            version=version, code=code, seconds=round(seconds, 6), bytes_in=bytes_in, bytes_out=bytes_out,
            gateway=self._gateway,
        ))  # fmt: skip

    def flush(self) -> None:
        lines, self._lines, self._bytes = self._lines, [], 0
        if not lines:
            return
        data = b"".join(lines)
        try:
            if self._file is None or self._size + len(data) > self._file_bytes:
                self._rotate()
            assert self._file is not None
            written = os.write(self._file, data)
        except OSError as error:
            self._lose(error)
            return
        self._size += written
        self._complained = False  # of a line that a full disk cuts short, the next attempt tells

    def close(self) -> None:
        self._tell_left_out()
        self.flush()
        self._end_file()

    def _add(self, line: Line | LeftOut) -> None:
        if not self._lines:
            self._call_later(FLUSH_SECONDS, self.flush)
        data = _encode(line) + b"\n"
        self._lines.append(data)
        self._bytes += len(data)
        if self._bytes >= FLUSH_BYTES:
            self.flush()

    def _time(self) -> str:
        """RFC 3339, in UTC. The text of a second is made once."""
        now = self._wall()
        second = int(now)
        if second != self._second:
            self._tell_left_out()
            self._second, self._text = second, datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
            self._noted = 0
        return f"{self._text}.{int((now - second) * 1000):03d}Z"

    def _tell_left_out(self) -> None:
        if self._left_out:
            count, self._left_out = self._left_out, 0
            self._add(LeftOut(f"{self._text}.999Z", count, self._gateway))

    def _rotate(self) -> None:
        if self._file is not None:
            self._end_file()
            shift(self._path, self._files)
            self._path.replace(aside(self._path, 1))
        self._open()

    def _open(self) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._size = os.fstat(self._file).st_size

    def _lose(self, error: OSError) -> None:
        self._end_file()
        if not self._complained:
            log.warning("the access log %s cannot be written, and lines are lost: %s", self._path, error)
            self._complained = True

    def _end_file(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _named(path: bytes) -> tuple[str, str, str]:
    """What the URL asks for, also where there is no such thing."""
    found = url_paths.find(path)
    if found is None or not found.model:
        return "", "", ""
    return plain(found.namespace, LONGEST), plain(found.model, LONGEST), plain(found.version or "", LONGEST)


_encode = msgspec.json.Encoder().encode
