"""Responses of the ASGI app. Every error reads {"error": "<text>"}, as V2 requires."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mizzen.protocol import v2

Header = tuple[bytes, bytes]

JSON: Header = (b"content-type", b"application/json")
PROMETHEUS: Header = (b"content-type", b"text/plain; version=0.0.4; charset=utf-8")
RETRY: Header = (b"retry-after", b"1")
CLOSE: Header = (b"connection", b"close")
CHALLENGE: Header = (b"www-authenticate", b'Bearer realm="mizzen"')


@dataclass(frozen=True, slots=True)
class Answer:
    code: int
    body: bytes
    headers: tuple[Header, ...] = (JSON,)
    request_id: bytes = b""
    """The id of the request; empty: not known here."""
    served: tuple[str, str, str] | None = None
    """Namespace, name and version of the model that answered."""


class RequestRefused(Exception):
    """The request was refused; `answer` is the response."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer


def json_answer(value: Any) -> Answer:
    return Answer(200, v2.to_json(value))


def error_answer(code: int, text: str, *headers: Header) -> Answer:
    return Answer(code, v2.render_error(text), (JSON, *headers))
