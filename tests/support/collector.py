"""A collector for traces: takes OTLP over HTTP on a free port, and reads it with OpenTelemetry's own messages."""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

SERVER, INTERNAL = 2, 1
ERROR = 2


@dataclass(frozen=True, slots=True)
class Seen:
    """A span, in plain values; ids in hex."""

    name: str
    trace: str
    id: str
    parent: str
    kind: int
    start: int
    end: int
    state: str
    flags: int
    attributes: dict[str, Any]
    links: frozenset[tuple[str, str]]
    error: str | None
    resource: dict[str, Any]


@dataclass
class Collector:
    url: str = ""
    codes: list[int] = field(default_factory=list)
    """What the next requests are answered; then 200."""
    heads: list[dict[str, str]] = field(default_factory=list)
    """Of all requests, names in small letters."""
    paths: list[str] = field(default_factory=list)
    spans: list[Seen] = field(default_factory=list)

    def of(self, trace: str) -> list[Seen]:
        return [span for span in list(self.spans) if span.trace == trace]

    def wait(self, found: Callable[[], Any], what: str) -> Any:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            if value := found():
                return value
            time.sleep(0.02)
        raise AssertionError(f"never seen: {what}; there are {[(span.name, span.trace) for span in self.spans]}")

    def trace(self, trace: str, *names: str) -> tuple[Seen, ...]:
        """Its spans by these names, when it has so many."""

        def found() -> list[Seen]:
            there = self.of(trace)
            return there if sorted(span.name for span in there) == sorted(names) else []

        by_start = sorted(self.wait(found, f"{trace}: {names}"), key=lambda span: (names.index(span.name), span.start))
        return tuple(by_start)

    def take(self, body: bytes) -> None:
        for of in ExportTraceServiceRequest.FromString(body).resource_spans:
            resource = plain(of.resource.attributes)
            for scope in of.scope_spans:
                assert scope.scope.name == "mizzen"
                self.spans += [_seen(span, resource) for span in scope.spans]


@contextmanager
def collecting() -> Iterator[Collector]:
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            head = {name.lower(): value for name, value in self.headers.items()}
            code = collector.codes.pop(0) if collector.codes else 200
            if code == 200:
                collector.take(gzip.decompress(body) if head.get("content-encoding") == "gzip" else body)
            collector.heads.append(head)
            collector.paths.append(self.path)
            self.send_response(code)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as it is called there
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        collector.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield collector
        finally:
            server.shutdown()
            thread.join()


def _seen(span: Any, resource: dict[str, Any]) -> Seen:
    return Seen(
        name=span.name, trace=span.trace_id.hex(), id=span.span_id.hex(), parent=span.parent_span_id.hex(),
        kind=span.kind, start=span.start_time_unix_nano, end=span.end_time_unix_nano, state=span.trace_state,
        flags=span.flags, attributes=plain(span.attributes),
        links=frozenset((link.trace_id.hex(), link.span_id.hex()) for link in span.links),
        error=span.status.message if span.status.code == ERROR else None, resource=resource,
    )  # fmt: skip


def plain(attributes: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}
