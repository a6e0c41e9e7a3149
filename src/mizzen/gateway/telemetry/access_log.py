"""The access log: one line of JSON per request, or only for requests that failed with a 5xx code.

Lines are buffered and written ten times a second, or sooner if there are many. A gateway that is killed loses the lines
of its last tenth of a second. A full disk delays no request: the lines are lost, and the process log says so.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec

from mizzen.access.refusal_lines import LONGEST
from mizzen.access.safe_text import sanitize
from mizzen.gateway.request import url_paths
from mizzen.gateway.request.head import RequestHead
from mizzen.supervisor.processes.log_rotation import aside, shift

AccessLogMode = Literal["off", "errors", "all"]

MIN_CODES: dict[str, int] = {"off": 1000, "errors": 500, "all": 0}
"""By mode: the lowest code that is logged."""
FLUSH_SECONDS, FLUSH_BYTES = 0.1, 64 << 10
FILE_BYTES = 32 << 20
"""A larger file is rotated to <file>.1."""
MAX_ERRORS = 100
"""Lines per second in mode `errors`, since failures may be very frequent."""

log = logging.getLogger(__name__)


class AccessLogLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`time` comes first, so that lines of several files can be sorted as text."""

    time: str
    """When the request was answered."""
    request_id: str
    trace_id: str = ""
    actor: str = ""
    method: str
    path: str
    namespace: str = ""
    model: str = ""
    version: str = ""
    """The version that answered; if none did, the version in the URL."""
    code: int
    seconds: float
    bytes_in: int
    """Bytes of the request's body; `bytes_out`: of the answer's body."""
    bytes_out: int
    gateway: str


class OmittedLines(msgspec.Struct, frozen=True):
    """Replaces the lines of one second beyond the first MAX_ERRORS."""

    time: str
    left_out: int
    gateway: str


@dataclass(slots=True, eq=False)
class AccessLog:
    path: Path
    gateway: str
    """The name of this process."""
    mode: AccessLogMode
    _: KW_ONLY
    wall: Callable[[], float]
    call_later: Callable[[float, Callable[[], None]], object]
    file_bytes: int = FILE_BYTES
    files: int = 1
    min_code: int = field(init=False)
    """The lowest code to log. Callers compare it before they call `note`."""
    _file: int | None = None
    _size: int = 0
    _lines: list[bytes] = field(default_factory=list)
    _bytes: int = 0
    _last_second: int = 0
    """The last second that was formatted, and its text."""
    _last_second_text: str = ""
    _noted: int = 0
    """Lines logged and omitted in that second."""
    _omitted: int = 0
    _warned: bool = False

    def __post_init__(self) -> None:
        self.min_code = MIN_CODES[self.mode]
        if self.mode != "off":
            try:
                self._open()  # so that readers can follow it before the first line
            except OSError as error:
                self._on_write_error(error)

    def note(
        self, head: RequestHead, request_id: bytes, code: int, *, seconds: float, bytes_in: int, bytes_out: int,
        served: tuple[str, str, str] | None = None,
    ) -> None:  # fmt: skip
        """`served`: namespace, name and version of the model or graph that answered; None if none did."""
        time = self._format_time()
        self._noted += 1
        if self.mode == "errors" and self._noted > MAX_ERRORS:
            if not self._omitted:
                self.call_later(1.0, self._report_omitted)
            self._omitted += 1
            return
        path = sanitize(head.path.decode("latin-1"), LONGEST)
        namespace, model, version = served or _names_in(head.path)
        self._add(AccessLogLine(
            time=time, request_id=request_id.decode("latin-1"), trace_id=head.trace.id if head.trace else "",
            actor=head.actor, method=sanitize(head.method, LONGEST), path=path, namespace=namespace, model=model,
            version=version, code=code, seconds=round(seconds, 6), bytes_in=bytes_in, bytes_out=bytes_out,
            gateway=self.gateway,
        ))  # fmt: skip

    def flush(self) -> None:
        lines, self._lines, self._bytes = self._lines, [], 0
        if not lines:
            return
        data = b"".join(lines)
        try:
            if self._file is None or self._size + len(data) > self.file_bytes:
                self._rotate()
            assert self._file is not None
            written = os.write(self._file, data)
        except OSError as error:
            self._on_write_error(error)
            return
        self._size += written
        self._warned = False  # if a full disk truncated the data, the next write reports it

    def close(self) -> None:
        self._report_omitted()
        self.flush()
        self._end_file()

    def _add(self, line: AccessLogLine | OmittedLines) -> None:
        if not self._lines:
            self.call_later(FLUSH_SECONDS, self.flush)
        data = _encode(line) + b"\n"
        self._lines.append(data)
        self._bytes += len(data)
        if self._bytes >= FLUSH_BYTES:
            self.flush()

    def _format_time(self) -> str:
        """RFC 3339, in UTC. Each second is formatted once."""
        now = self.wall()
        second = int(now)
        if second != self._last_second:
            self._report_omitted()
            self._last_second, self._last_second_text = (
                second,
                datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S"),
            )
            self._noted = 0
        return f"{self._last_second_text}.{int((now - second) * 1000):03d}Z"

    def _report_omitted(self) -> None:
        if self._omitted:
            count, self._omitted = self._omitted, 0
            self._add(OmittedLines(f"{self._last_second_text}.999Z", count, self.gateway))

    def _rotate(self) -> None:
        if self._file is not None:
            self._end_file()
            shift(self.path, self.files)
            self.path.replace(aside(self.path, 1))
        self._open()

    def _open(self) -> None:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._size = os.fstat(self._file).st_size

    def _on_write_error(self, error: OSError) -> None:
        self._end_file()
        if not self._warned:
            log.warning("the access log %s cannot be written; lines are lost: %s", self.path, error)
            self._warned = True

    def _end_file(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _names_in(path: bytes) -> tuple[str, str, str]:
    """Returns namespace, model and version in the URL, even if they do not exist."""
    found = url_paths.find(path)
    if found is None or not found.model:
        return "", "", ""
    return sanitize(found.namespace, LONGEST), sanitize(found.model, LONGEST), sanitize(found.version or "", LONGEST)


_encode = msgspec.json.Encoder().encode
