"""Readiness of an HTTP replica: it is ready while it reports so. Its protocol is detected once.

unknown ──200──> ready <──200── starting
   │               │               ^
   └── 404, 503, connection refused; several timeouts in a row
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import quote

from mizzen.engines.local.probes.frame_probe import RETRY, Probe, ReplicaReport
from mizzen.kinds.workload import WireProtocol

HOST = "127.0.0.1"
_UNAVAILABLE = 503
_CHUNK = 1 << 16
_CHUNKS = 16


@dataclass(frozen=True, slots=True)
class HttpTarget:
    """The port of a replica, and the requests of its probe."""

    port: int
    model: str
    protocol: WireProtocol | None = None
    """None: to be detected."""
    found: tuple[int | None, str] = field(default=(None, ""), compare=False)
    """The pid of the process that was probed before, and its detected protocol."""
    path: str = ""
    """If set, the only path to request: the replica speaks none of our protocols."""

    def paths(self, protocol: str = "") -> Iterator[tuple[str, str]]:
        """Protocol and path of each request, in order; only those of one protocol, if it is known."""
        if self.path:
            yield "", self.path
            return
        model = quote(self.model, safe="")
        only = self.protocol or protocol
        for name, path in (
            ("v2", "/v2/health/ready"),
            ("v2", f"/v2/models/{model}/ready"),
            ("v1", f"/v1/models/{model}"),
            ("seldon", "/health/status"),
            ("seldon", "/health/ping"),
        ):
            if only in ("", name):
                yield name, path


@dataclass(frozen=True, slots=True)
class ProbeIntervals:
    """Intervals and limits of HTTP probes, in seconds apart from `max_timeouts`."""

    timeout: float = 2.0
    """The timeout of one request."""
    ready: float = 2.0
    """Between two requests to a ready replica."""
    starting: float = 0.5
    """Between two requests to one that listens and is not ready: each request may be a line in its log."""
    grace: float = 10.0
    """How long a replica may take to become ready before its message says what is missing."""
    max_timeouts: int = 3
    """Timeouts in a row until it counts as not ready: it may be busy with a prediction."""


DEFAULT_INTERVALS = ProbeIntervals()


class HttpProbe(Probe):
    """Polls a process. Create a new probe for another target.

    Each request uses its own connection, closed at once: a server with a single thread could serve no others meanwhile.
    """

    def __init__(
        self,
        target: HttpTarget,
        on_change: Callable[[], None],
        *,
        known: str = "",
        intervals: ProbeIntervals = DEFAULT_INTERVALS,
    ) -> None:
        """`known`: the protocol found before."""
        self._target = target
        self._intervals = intervals
        self._path = ""
        """The path that first returned 200: the only one requested from then on."""
        self._listens: bool | None = None
        self._since = 0.0
        """Since when it has been listening without being ready, or not listening."""
        self._timeouts = 0
        super().__init__(on_change, ReplicaReport(protocol=known))

    async def _run(self) -> None:
        while True:  # noqa: ASYNC110  there is no event for a server that starts or stops to respond
            await asyncio.sleep(await self._poll())

    async def _poll(self) -> float:
        """Poll once. Returns the seconds until the next poll."""
        responses: list[str] = []
        for protocol, path in self._list_requests():
            try:
                status = await get_status(self._target.port, path, self._intervals.timeout)
            except TimeoutError:
                return self._on_timeout()
            except ConnectionRefusedError:
                return self._on_refused()
            except OSError:  # such as a connection that was reset
                status = 0
            if status == 200:
                return self._on_ready(protocol, path)
            responses.append(f"GET {path} returned {status or 'no HTTP response'}")
            # A 503 means that it knows the path, or accepts no requests yet: try other protocols only if that persists.
            if status == _UNAVAILABLE and self._seconds_waited() < self._intervals.grace:
                break
        return self._on_not_ready(", ".join(responses))

    def _list_requests(self) -> Iterator[tuple[str, str]]:
        questions = self._target.paths(self.state.report.protocol)
        return ((name, path) for name, path in questions if self._path in ("", path))

    def _on_ready(self, protocol: str, path: str) -> float:
        self._listens, self._timeouts, self._path = None, 0, path
        self._update(readiness="ready", message="", report=ReplicaReport(protocol=protocol))
        return self._intervals.ready

    def _on_timeout(self) -> float:
        self._timeouts += 1
        if self._timeouts < self._intervals.max_timeouts:
            return self._intervals.starting
        self._set_listening(True)
        port, seconds = self._target.port, self._intervals.timeout
        self._report_not_ready(f"it accepts connections on port {port} but does not respond within {seconds:g} s")
        return self._intervals.starting

    def _on_refused(self) -> float:
        self._set_listening(False)
        self._report_not_ready(
            f"nothing listens on port {self._target.port} of {HOST}: the process gets the port in the variable PORT; "
            "its command can use $(PORT)"
        )
        return RETRY if self._seconds_waited() < self._intervals.grace else self._intervals.starting

    def _on_not_ready(self, responses: str) -> float:
        self._timeouts = 0
        self._set_listening(True)
        self._report_not_ready(f"it listens on port {self._target.port} but is not ready: {responses}")
        return self._intervals.starting

    def _set_listening(self, listens: bool) -> None:
        if listens is not self._listens:
            self._listens, self._since = listens, asyncio.get_running_loop().time()

    def _seconds_waited(self) -> float:
        return asyncio.get_running_loop().time() - self._since if self._listens is not None else 0.0

    def _report_not_ready(self, message: str) -> None:
        is_late = self._path or self._seconds_waited() >= self._intervals.grace
        self._update(readiness="starting", message=message if is_late else "")


async def get_status(port: int, path: str, seconds: float) -> int:
    """The status of the response; 0 when it is not HTTP. Raises OSError, including TimeoutError."""
    async with asyncio.timeout(seconds):
        reader, writer = await asyncio.open_connection(HOST, port)
    try:
        if writer.get_extra_info("sockname") == writer.get_extra_info("peername"):
            raise ConnectionRefusedError("connected to itself: no process listens there")
        writer.write(
            f"GET {path} HTTP/1.1\r\nHost: {HOST}:{port}\r\nUser-Agent: mizzen-engine\r\nAccept: */*\r\n"
            "Connection: close\r\n\r\n".encode()
        )
        async with asyncio.timeout(seconds):
            status = await _read_status(reader)
        await _read_to_end(reader, seconds / 4)
    finally:
        writer.close()
    return status


async def _read_status(reader: asyncio.StreamReader) -> int:
    try:
        version, status, *_ = (await reader.readline()).split(maxsplit=2)
    except ValueError:  # fewer words, or a line beyond the limit
        return 0
    return int(status) if version.startswith(b"HTTP/1.") and status.isdigit() else 0


async def _read_to_end(reader: asyncio.StreamReader, seconds: float) -> None:
    """Read the rest: otherwise the program's write fails on a closed connection, which it may log."""
    with suppress(OSError):
        async with asyncio.timeout(seconds):
            for _ in range(_CHUNKS):
                if not await reader.read(_CHUNK):
                    return
