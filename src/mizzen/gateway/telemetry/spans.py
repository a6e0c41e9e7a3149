"""What the spans of a request look like that was traced: names and attributes, as OpenTelemetry's conventions for HTTP
and RPC servers have them; what is ours begins with mizzen.
"""

from __future__ import annotations

from functools import lru_cache

from mizzen.gateway.grpc.wire.status import BY_HTTP, Status
from mizzen.gateway.request import url_paths
from mizzen.gateway.telemetry.metrics import GONE
from mizzen.gateway.telemetry.trace_recording import Ended, Run
from mizzen.telemetry.otlp import SERVER, Attributes, Span, Value


def spans(of: Ended, scheme: str) -> list[Span]:
    """Of one request, that of the request itself first."""
    recording, code = of.recording, of.code
    trace, state = recording.trace, of.options.trace.state if of.options.trace else ""

    def at(moment: float) -> int:
        return int((of.wall - (of.ended - moment)) * 1e9)

    fault = None if code < 500 and code != GONE else _FAULTS.get(code, str(code))
    made = [Span(
        trace, recording.id, recording.parent, _name(of), at(of.began), at(of.ended), SERVER, state,
        remote=bool(recording.parent), attributes=_described(of, scheme, fault), error=fault,
    )]  # fmt: skip
    for run in recording.runs:
        queue: dict[str, Value] = {"mizzen.server": run.server, "mizzen.batch.size": run.batch}
        made.append(Span(trace, run.wait_id, recording.id, "queue", at(run.waited_from), at(run.sent), state=state,
                         attributes=queue))  # fmt: skip
        start, end = _called(run, of.ended)
        error = run.fault or (None if code < 500 and run.ended else fault)
        made.append(Span(trace, run.id, recording.id, "predict", at(start), at(end), state=state, remote=False,
                         attributes=_measured(run), links=run.links, error=error))  # fmt: skip
    return made


_FAULTS = {GONE: "the client left before its answer", 502: "lost", 503: "unavailable", 504: "out of time"}


def _called(run: Run, request_ended: float) -> tuple[float, float]:
    """When the model began and ended. The way to its process and back is taken to be equally long; of what was not
    answered in time nobody knows, and it is shown until nobody waited any more."""
    if run.ended is None or run.fault is not None:
        return run.sent, run.ended or request_ended
    before, after = run.times.before / 1e6, run.times.after / 1e6
    way = max(0.0, run.ended - run.sent - before - run.seconds - after) / 2
    start = max(run.sent, run.ended - way - after - run.seconds)
    return start, max(start, min(run.ended, start + run.seconds))


def _measured(run: Run) -> Attributes:
    found: dict[str, Value] = {
        "mizzen.server": run.server, "mizzen.replica.pid": run.pid, "mizzen.batch.size": run.batch,
    }  # fmt: skip
    if run.times.merged:
        found |= {
            "mizzen.batch.merged": run.times.merged,
            "mizzen.read_us": run.times.before,
            "mizzen.write_us": run.times.after,
        }
    return found


def _name(of: Ended) -> str:
    if of.options.rpc:
        return of.options.path[1:].decode("latin-1")
    return f"{of.options.method or _OTHER} {_route(of.options.path)}".strip()


_OTHER = "_OTHER"


def _described(of: Ended, scheme: str, fault: str | None) -> Attributes:
    found: dict[str, Value] = {"mizzen.request_id": of.request_id.decode("latin-1")}
    found |= _of_rpc(of) if of.options.rpc else _of_http(of, scheme)
    if fault is not None:
        found["error.type"] = "cancelled" if of.code == GONE else str(of.code)
    if of.options.actor:
        found["user.name"] = of.options.actor
    if of.served is not None:
        found |= zip(("mizzen.namespace", "mizzen.model", "mizzen.version"), of.served, strict=True)
    return found


def _of_http(of: Ended, scheme: str) -> dict[str, Value]:
    found: dict[str, Value] = {
        "http.request.method": of.options.method or _OTHER,
        "url.path": of.options.path.decode("latin-1"),
        "url.scheme": scheme,
        "http.request.body.size": of.bytes_in,
        "http.response.body.size": of.bytes_out,
    }
    if route := _route(of.options.path):
        found["http.route"] = route
    if of.code != GONE:  # which is never sent
        found["http.response.status_code"] = of.code
    return found


def _of_rpc(of: Ended) -> dict[str, Value]:
    service, _, method = of.options.path[1:].decode("latin-1").rpartition("/")
    status = Status.OK if of.code == 200 else BY_HTTP.get(of.code, Status.UNKNOWN)
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
    """The pattern of the path; empty when there is nothing at it."""
    found = url_paths.find(path)
    if found is None:
        return ""
    return (url_paths.NAMESPACE if path.startswith(b"/ns/") else "") + found.path.pattern
