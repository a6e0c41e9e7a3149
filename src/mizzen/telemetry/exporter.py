"""Sends what is put into it, some at once, from a thread of its own: whoever puts in waits for nothing.

What does not fit into the queue is lost, and so is what a collector refuses. One that is away or busy is asked again,
ever more rarely, while the queue fills. All that is lost is counted, and told once per failure in the log.
"""

from __future__ import annotations

import gzip
import http.client
import logging
import ssl
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Generic, TypeVar
from urllib.parse import urlsplit

from mizzen.telemetry.destination import Destination

LIMIT = 4096
"""Records that wait; further ones are lost."""
AT_ONCE = 256
"""Records of one request."""
EVERY_SECONDS = 1.0
FIRST_RETRY, LAST_RETRY = 1.0, 30.0

_BUSY = frozenset({429, 502, 503, 504})
"""Codes by which a collector asks to be asked again."""

T = TypeVar("T")

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Sent:
    """Counted of records."""

    sent: int = 0
    lost: int = 0


class Exporter(Generic[T]):
    def __init__(self, destination: Destination, encode: Callable[[Sequence[T]], bytes], *, limit: int = LIMIT) -> None:
        """`encode` makes the body of a request; called in the thread."""
        self.counts = Sent()
        self._destination = destination
        self._encode = encode
        self._limit = limit
        self._waiting: deque[T] = deque()
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._complained = False
        self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def put(self, record: T) -> None:
        """Never waits."""
        waiting = len(self._waiting)
        if waiting >= self._limit:
            self.counts.lost += 1
            return
        self._waiting.append(record)
        if waiting + 1 == AT_ONCE:
            self._wake.set()

    def close(self, seconds: float) -> None:
        """Sends what is left, if that takes no longer."""
        self._stopping.set()
        self._wake.set()
        self._thread.join(seconds)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._wake.wait(EVERY_SECONDS)
            self._wake.clear()
            while self._waiting and self._send_some():
                pass

    def _send_some(self) -> bool:
        """False: it is of no use to go on just now."""
        some = [self._waiting.popleft() for _ in range(min(AT_ONCE, len(self._waiting)))]
        body = self._encode(some)
        delay = FIRST_RETRY
        while True:
            fault, again = self._tried(body)
            if not fault:
                self.counts.sent += len(some)
                self._complained = False
                return True
            self._complain(fault)
            if not again or self._stopping.wait(delay):
                self.counts.lost += len(some)
                return not self._stopping.is_set()
            delay = min(delay * 2, LAST_RETRY)

    def _tried(self, body: bytes) -> tuple[str, bool]:
        """What went wrong, empty when nothing did, and whether it is worth another attempt."""
        to = self._destination
        headers = {"content-type": "application/x-protobuf", **to.headers}
        if to.packed:
            headers["content-encoding"] = "gzip"
            body = gzip.compress(body)
        parts = urlsplit(to.url)
        try:
            connection = _connection(to)
            # A new one each time: one that was left open for a second may be closed on the other side.
            with closing(connection):
                connection.request("POST", parts.path + (f"?{parts.query}" if parts.query else ""), body, headers)
                answer = connection.getresponse()
                said = answer.read(500)
        except (OSError, http.client.HTTPException) as error:
            return f"{type(error).__name__}: {error}", True
        except ValueError as error:  # of a header that is none
            return f"{type(error).__name__}: {error}", False
        if answer.status < 300:
            return "", False
        text = said.decode(errors="replace").strip() if said.isascii() else ""
        return f"{answer.status} {answer.reason} {text}".strip(), answer.status in _BUSY

    def _complain(self, fault: str) -> None:
        if not self._complained:
            log.warning("traces cannot be sent to %s: %s", self._destination.url, fault)
            self._complained = True


def _connection(to: Destination) -> http.client.HTTPConnection:
    parts = urlsplit(to.url)
    assert parts.hostname is not None
    if parts.scheme == "http":
        return http.client.HTTPConnection(parts.hostname, parts.port, timeout=to.timeout)
    trusted = ssl.create_default_context(cafile=to.certificate or None)
    return http.client.HTTPSConnection(parts.hostname, parts.port, timeout=to.timeout, context=trusted)
