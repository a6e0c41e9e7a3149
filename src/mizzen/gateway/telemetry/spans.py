"""Spans of traced requests: names and attributes as in OpenTelemetry's conventions for HTTP and RPC servers.

Attributes of our own begin with `mizzen.`.
"""

from __future__ import annotations

from functools import lru_cache

from mizzen.gateway.request import url_paths
from mizzen.gateway.request.grpc_status import BY_HTTP, GrpcStatus
from mizzen.gateway.request.trace_context import Attempt
from mizzen.gateway.telemetry.counters import GONE
from mizzen.gateway.telemetry.trace_recording import TracedRequest
from mizzen.telemetry.otlp import SERVER, Attributes, Span, Value


def build_spans(of: TracedRequest, scheme: str) -> list[Span]:
    """Returns the spans of one request; the span of the request itself comes first."""
    recording, code = of.recording, of.code
    trace, state = recording.trace, of.head.trace.state if of.head.trace else ""

    def at(moment: float) -> int:
        return int((of.wall - (of.ended - moment)) * 1e9)

    fault = None if code < 500 and code != GONE else _FAULTS.get(code, str(code))
    result = [Span(
        trace, recording.id, recording.parent, _name(of), at(of.began), at(of.ended), SERVER, state,
        remote=bool(recording.parent), attributes=_request_attributes(of, scheme, fault), error=fault,
    )]  # fmt: skip
    for attempt in recording.attempts:
        queue: dict[str, Value] = {"mizzen.server": attempt.server, "mizzen.batch.size": attempt.batch}
        result.append(Span(trace, attempt.wait_id, recording.id, "queue", at(attempt.waited_from), at(attempt.sent),
                           state=state, attributes=queue))  # fmt: skip
        start, end = _model_interval(attempt, of.ended)
        error = attempt.fault or (None if code < 500 and attempt.ended else fault)
        result.append(Span(trace, attempt.id, recording.id, "predict", at(start), at(end), state=state, remote=False,
                           attributes=_attempt_attributes(attempt), links=attempt.links, error=error))  # fmt: skip
    return result


_FAULTS = {GONE: "the client left before its answer", 502: "lost", 503: "unavailable", 504: "out of time"}


def _model_interval(attempt: Attempt, request_ended: float) -> tuple[float, float]:
    """Returns when the model began and ended, assuming that both ways to its process take equally long. A call that was
    not answered in time is shown until the request ended."""
    if attempt.ended is None or attempt.fault is not None:
        return attempt.sent, attempt.ended or request_ended
    before, after = attempt.times.before / 1e6, attempt.times.after / 1e6
    way = max(0.0, attempt.ended - attempt.sent - before - attempt.seconds - after) / 2
    start = max(attempt.sent, attempt.ended - way - after - attempt.seconds)
    return start, max(start, min(attempt.ended, start + attempt.seconds))


def _attempt_attributes(attempt: Attempt) -> Attributes:
    found: dict[str, Value] = {
        "mizzen.server": attempt.server, "mizzen.replica.pid": attempt.pid, "mizzen.batch.size": attempt.batch,
    }  # fmt: skip
    if attempt.times.merged:
        found |= {
            "mizzen.batch.merged": attempt.times.merged,
            "mizzen.read_us": attempt.times.before,
            "mizzen.write_us": attempt.times.after,
        }
    return found


def _name(of: TracedRequest) -> str:
    if of.head.rpc:
        return of.head.path[1:].decode("latin-1")
    return f"{of.head.method or _OTHER} {_route(of.head.path)}".strip()


_OTHER = "_OTHER"


def _request_attributes(of: TracedRequest, scheme: str, fault: str | None) -> Attributes:
    found: dict[str, Value] = {"mizzen.request_id": of.request_id.decode("latin-1")}
    found |= _rpc_attributes(of) if of.head.rpc else _http_attributes(of, scheme)
    if fault is not None:
        found["error.type"] = "cancelled" if of.code == GONE else str(of.code)
    if of.head.actor:
        found["user.name"] = of.head.actor
    if of.served is not None:
        found |= zip(("mizzen.namespace", "mizzen.model", "mizzen.version"), of.served, strict=True)
    return found


def _http_attributes(of: TracedRequest, scheme: str) -> dict[str, Value]:
    found: dict[str, Value] = {
        "http.request.method": of.head.method or _OTHER,
        "url.path": of.head.path.decode("latin-1"),
        "url.scheme": scheme,
        "http.request.body.size": of.bytes_in,
        "http.response.body.size": of.bytes_out,
    }
    if route := _route(of.head.path):
        found["http.route"] = route
    if of.code != GONE:  # 499 is never sent
        found["http.response.status_code"] = of.code
    return found


def _rpc_attributes(of: TracedRequest) -> dict[str, Value]:
    service, _, method = of.head.path[1:].decode("latin-1").rpartition("/")
    status = GrpcStatus.OK if of.code == 200 else BY_HTTP.get(of.code, GrpcStatus.UNKNOWN)
    return {
        "rpc.system": "grpc",
        "rpc.service": service,
        "rpc.method": method,
        "rpc.grpc.status_code": int(status),
        "rpc.server.request.size": of.bytes_in,
        "rpc.server.response.size": of.bytes_out,
    }


@lru_cache(1024)
def _route(path: bytes) -> str:
    """Returns the pattern of the path; empty if no route matches it."""
    found = url_paths.find(path)
    if found is None:
        return ""
    return (url_paths.NAMESPACE if path.startswith(b"/ns/") else "") + found.path.pattern
