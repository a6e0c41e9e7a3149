"""Maps a service's response to the result of the call: outputs, or an error with our own code."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, NamedTuple

import msgspec

from mizzen.gateway.queueing.call import BAD_REQUEST, EXPIRED, FAILED, LATE, LOST, NOT_READY, OK, UNAVAILABLE
from mizzen.gateway.services import seldon, v1
from mizzen.gateway.services import v2 as services_v2
from mizzen.gateway.services.http_connection import HttpResponse
from mizzen.gateway.services.requests import DecodedResponse, ServiceProtocol, TensorRequest
from mizzen.gateway.services.tensor_values import select_outputs
from mizzen.graph import messages
from mizzen.protocol import v2

PROTOCOLS: dict[str, ServiceProtocol] = {"v2": services_v2, "v1": v1, "seldon": seldon}

ROUTE = seldon.ROUTE
MAX_TEXT = 2000
"""Maximum characters of a service's error text that are passed on."""
MAX_RETRY = 3600
_MAX_ERROR_BYTES = 1 << 20
"""Larger error bodies are not parsed."""
_BUSY = {429, 503}
_LATE = {408, 504}
_INPUT_ERRORS = {400, 422}
"""Their text is about the input, and passed on unchanged."""


class CallOutcome(NamedTuple):
    """The arguments of `Call.finish`, and the route."""

    code: int
    payload: bytes
    retry: int = 1
    lacking: bytes = b""
    route: str | None = None


def outcome_of(answer: HttpResponse, request: TensorRequest, protocol: ServiceProtocol, who: str) -> CallOutcome:
    """`who`: the name of the service for error texts."""
    status = answer.status
    if 200 <= status < 300:
        try:
            return _success_outcome(answer, request, protocol)
        except ValueError as error:
            return CallOutcome(
                LOST, f"{who} answered {status}, but {error}{_content_type_note(answer)}".encode(errors="replace")
            )
    if status < 400:
        place = v2.shorten(answer.headers.get(b"location", b"").decode("latin-1"))
        to = f" to {place}, and redirects are not followed" if place else ""
        return CallOutcome(LOST, f"{who} answered {_status_text(status)}{to}".encode())
    return _error_outcome(answer, who)


def _error_outcome(answer: HttpResponse, who: str) -> CallOutcome:
    status, words = answer.status, _error_text(answer)
    if status in _INPUT_ERRORS and words:
        return CallOutcome(BAD_REQUEST, words.encode(errors="replace"))
    text = f"{who} answered {_status_text(status)}{': ' if words else ''}{words}".encode(errors="replace")
    if status in _BUSY:
        return CallOutcome(UNAVAILABLE, text, _retry_after(answer), NOT_READY if status == 503 else b"")
    if status in _LATE:
        return CallOutcome(EXPIRED, text, lacking=LATE)
    return CallOutcome(BAD_REQUEST if status < 500 else FAILED, text)


def _success_outcome(answer: HttpResponse, request: TensorRequest, protocol: ServiceProtocol) -> CallOutcome:
    coding = answer.headers.get(b"content-encoding", b"identity").lower()
    if coding != b"identity":
        raise ValueError(f"with the encoding {v2.shorten(coding.decode('latin-1'))}, which was not requested")
    decoded = protocol.read(request, answer) if answer.body.strip() else DecodedResponse([])
    header = answer.headers.get(ROUTE)
    from_header = None if header is None else _route(header.decode("latin-1"))
    route = None if decoded.route is None else _route(decoded.route)
    if from_header is not None and route is not None and from_header != route:
        raise ValueError(
            f"its header MLGraph-Route says '{v2.shorten(from_header)}', "
            f"and its parameter route says '{v2.shorten(route)}'"
        )
    # A router may leave the message unchanged, and a merge may wait for more.
    if not decoded.outputs and not request.asks:
        raise ValueError("gave no outputs")
    outputs = messages.to_payload(select_outputs(decoded.outputs, request.names), request.raw)
    return CallOutcome(OK, outputs, route=from_header if from_header is not None else route)


def _route(text: str) -> str:
    return ",".join(name for part in text.split(",") if (name := part.strip()))


def _content_type_note(answer: HttpResponse) -> str:
    """Names the content type if it is not JSON, such as an HTML page."""
    kind = answer.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if not kind or kind.endswith(b"json") or kind == b"application/octet-stream":
        return ""
    return f" (it is {v2.shorten(kind.decode('latin-1'))})"


def _status_text(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def _retry_after(answer: HttpResponse) -> int:
    """Returns whole seconds; dates are ignored."""
    seconds = answer.headers.get(b"retry-after", b"").strip()
    return max(1, min(int(seconds), MAX_RETRY)) if seconds.isdigit() and len(seconds) < 10 else 1


def _error_text(answer: HttpResponse) -> str:
    """Returns the service's own error text: from the field of its protocol, or the whole plain-text body."""
    body = answer.body
    if not body or len(body) > _MAX_ERROR_BYTES:
        return ""
    try:
        document = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        plain = answer.headers.get(b"content-type", b"").lower().startswith(b"text/plain")
        return _truncate(body.decode(errors="replace")) if plain else ""
    return _truncate(_find_error(document))


def _find_error(document: Any) -> str:
    if not isinstance(document, dict):
        return ""
    status = document.get("status")
    found = [document.get("error")]
    if isinstance(status, dict):
        found += [status.get("info"), status.get("reason")]
    return next((each for each in found if isinstance(each, str) and each), "")


def _truncate(text: str) -> str:
    text = text.strip()
    return text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + "..."
