"""What a service's answer comes to for the call: outputs, or an error with the code that is ours for it."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, NamedTuple

import msgspec

from mizzen.gateway.inference.calls import BAD_REQUEST, EXPIRED, FAILED, LATE, LOST, NOBODY, OK, UNAVAILABLE
from mizzen.gateway.services import seldon, v1
from mizzen.gateway.services import v2 as services_v2
from mizzen.gateway.services.http_connection import Answer
from mizzen.gateway.services.requests import Asked, Said, Speech
from mizzen.gateway.services.tensor_values import chosen
from mizzen.graph import messages
from mizzen.protocol import v2

SPEECHES: dict[str, Speech] = {"v2": services_v2, "v1": v1, "seldon": seldon}

ROUTE = seldon.ROUTE
MOST_TEXT = 2000
"""Characters of a service's own words that are passed on."""
MOST_RETRY = 3600
_MOST_ERROR = 1 << 20
"""Bytes of an error that are looked into."""
_BUSY = {429, 503}
_LATE = {408, 504}
_PLAIN_FAULTS = {400, 422}
"""What they say is about what was sent, and said as it is."""


class Outcome(NamedTuple):
    """As `Call.settle` takes it."""

    code: int
    payload: bytes
    retry: int = 1
    lacking: bytes = b""
    route: str | None = None


def outcome(answer: Answer, asked: Asked, speech: Speech, who: str) -> Outcome:
    """`who` is what the service is called."""
    status = answer.status
    if 200 <= status < 300:
        try:
            return _good(answer, asked, speech)
        except ValueError as error:
            return Outcome(LOST, f"{who} answered {status}, but {error}{_kind(answer)}".encode(errors="replace"))
    if status < 400:
        place = v2.cited(answer.headers.get(b"location", b"").decode("latin-1"))
        to = f" to {place}, and redirects are not followed" if place else ""
        return Outcome(LOST, f"{who} answered {_named(status)}{to}".encode())
    return _refused(answer, who)


def _refused(answer: Answer, who: str) -> Outcome:
    status, words = answer.status, _words(answer)
    if status in _PLAIN_FAULTS and words:
        return Outcome(BAD_REQUEST, words.encode(errors="replace"))
    text = f"{who} answered {_named(status)}{': ' if words else ''}{words}".encode(errors="replace")
    if status in _BUSY:
        return Outcome(UNAVAILABLE, text, _retry(answer), NOBODY if status == 503 else b"")
    if status in _LATE:
        return Outcome(EXPIRED, text, lacking=LATE)
    return Outcome(BAD_REQUEST if status < 500 else FAILED, text)


def _good(answer: Answer, asked: Asked, speech: Speech) -> Outcome:
    coding = answer.headers.get(b"content-encoding", b"identity").lower()
    if coding != b"identity":
        raise ValueError(f"with a body packed as {v2.cited(coding.decode('latin-1'))}, which was not asked for")
    said = speech.read(asked, answer) if answer.body.strip() else Said([])
    header = answer.headers.get(ROUTE)
    told = None if header is None else _route(header.decode("latin-1"))
    route = None if said.route is None else _route(said.route)
    if told is not None and route is not None and told != route:
        raise ValueError(
            f"its header MLGraph-Route says '{v2.cited(told)}', and its parameter route says '{v2.cited(route)}'"
        )
    if not said.outputs and not asked.asks:  # a router leaves the message as it is, a merge waits for more
        raise ValueError("gave no outputs")
    outputs = messages.to_payload(chosen(said.outputs, asked.names), asked.raw)
    return Outcome(OK, outputs, route=told if told is not None else route)


def _route(text: str) -> str:
    return ",".join(name for part in text.split(",") if (name := part.strip()))


def _kind(answer: Answer) -> str:
    """Worth a word where it is no JSON: a page of HTML, say."""
    kind = answer.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if not kind or kind.endswith(b"json") or kind == b"application/octet-stream":
        return ""
    return f" (it is {v2.cited(kind.decode('latin-1'))})"


def _named(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def _retry(answer: Answer) -> int:
    """In whole seconds; a date is not read."""
    given = answer.headers.get(b"retry-after", b"").strip()
    return max(1, min(int(given), MOST_RETRY)) if given.isdigit() and len(given) < 10 else 1


def _words(answer: Answer) -> str:
    """The service's own, where they are where its protocol has them, or are all there is."""
    body = answer.body
    if not body or len(body) > _MOST_ERROR:
        return ""
    try:
        said = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        plain = answer.headers.get(b"content-type", b"").lower().startswith(b"text/plain")
        return _cut(body.decode(errors="replace")) if plain else ""
    return _cut(_error(said))


def _error(said: Any) -> str:
    if not isinstance(said, dict):
        return ""
    status = said.get("status")
    found = [said.get("error")]
    if isinstance(status, dict):
        found += [status.get("info"), status.get("reason")]
    return next((each for each in found if isinstance(each, str) and each), "")


def _cut(text: str) -> str:
    text = text.strip()
    return text if len(text) <= MOST_TEXT else text[:MOST_TEXT] + "..."
