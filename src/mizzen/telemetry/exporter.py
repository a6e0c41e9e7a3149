"""Sends records to a collector in batches, from its own thread: `put` never waits.

Records that do not fit into the queue are lost, as are those that the collector rejects. If the collector is down or
busy, requests are retried with growing delays while the queue fills. Lost records are counted, and each failure is
logged once.
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

MAX_QUEUED = 4096
"""Maximum number of queued records; more are lost."""
BATCH_SIZE = 256
"""Records per request."""
INTERVAL_SECONDS = 1.0
FIRST_RETRY, LAST_RETRY = 1.0, 30.0

_RETRIABLE = frozenset({429, 502, 503, 504})
"""Status codes that a request is retried for."""

T = TypeVar("T")

log = logging.getLogger(__name__)


@dataclass(slots=True)
class ExportCounts:
    """Counts of records."""

    sent: int = 0
    lost: int = 0


class Exporter(Generic[T]):
    def __init__(
        self, destination: Destination, encode: Callable[[Sequence[T]], bytes], *, limit: int = MAX_QUEUED
    ) -> None:
        """`encode` builds the body of a request; it is called in the thread."""
        self.counts = ExportCounts()
        self._destination = destination
        self._encode = encode
        self._limit = limit
        self._queue: deque[T] = deque()
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._warned = False
        self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def put(self, record: T) -> None:
        """Queue a record. Never waits."""
        waiting = len(self._queue)
        if waiting >= self._limit:
            self.counts.lost += 1
            return
        self._queue.append(record)
        if waiting + 1 == BATCH_SIZE:
            self._wake.set()

    def close(self, seconds: float) -> None:
        """Send the remaining records, waiting at most this long."""
        self._stopping.set()
        self._wake.set()
        self._thread.join(seconds)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._wake.wait(INTERVAL_SECONDS)
            self._wake.clear()
            while self._queue and self._send_batch():
                pass

    def _send_batch(self) -> bool:
        """Send one batch. False: stop sending for now."""
        batch = [self._queue.popleft() for _ in range(min(BATCH_SIZE, len(self._queue)))]
        body = self._encode(batch)
        delay = FIRST_RETRY
        while True:
            fault, retriable = self._post(body)
            if not fault:
                self.counts.sent += len(batch)
                self._warned = False
                return True
            self._warn_once(fault)
            if not retriable or self._stopping.wait(delay):
                self.counts.lost += len(batch)
                return not self._stopping.is_set()
            delay = min(delay * 2, LAST_RETRY)

    def _post(self, body: bytes) -> tuple[str, bool]:
        """Return the error, empty on success, and whether a retry is worthwhile."""
        to = self._destination
        headers = {"content-type": "application/x-protobuf", **to.headers}
        if to.gzip:
            headers["content-encoding"] = "gzip"
            body = gzip.compress(body)
        parts = urlsplit(to.url)
        try:
            connection = _open_connection(to)
            # A new connection each time: the collector may have closed one that was idle for a second.
            with closing(connection):
                connection.request("POST", parts.path + (f"?{parts.query}" if parts.query else ""), body, headers)
                answer = connection.getresponse()
                content = answer.read(500)
        except (OSError, http.client.HTTPException) as error:
            return f"{type(error).__name__}: {error}", True
        except ValueError as error:  # an invalid header
            return f"{type(error).__name__}: {error}", False
        if answer.status < 300:
            return "", False
        text = content.decode(errors="replace").strip() if content.isascii() else ""
        return f"{answer.status} {answer.reason} {text}".strip(), answer.status in _RETRIABLE

    def _warn_once(self, fault: str) -> None:
        if not self._warned:
            log.warning("traces cannot be sent to %s: %s", self._destination.url, fault)
            self._warned = True


def _open_connection(to: Destination) -> http.client.HTTPConnection:
    parts = urlsplit(to.url)
    assert parts.hostname is not None
    if parts.scheme == "http":
        return http.client.HTTPConnection(parts.hostname, parts.port, timeout=to.timeout)
    trusted = ssl.create_default_context(cafile=to.certificate or None)
    return http.client.HTTPSConnection(parts.hostname, parts.port, timeout=to.timeout, context=trusted)
