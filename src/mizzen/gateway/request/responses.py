"""Answers of the ASGI app. Every error reads {"error": "<text>"}, as V2 wants it."""

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
    """What the request is called; empty: it does not say itself."""
    served: tuple[str, str, str] | None = None
    """Namespace, name and version of the model that answered."""


class Refused(Exception):
    """In place of whatever was to come."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer


def told(value: Any) -> Answer:
    return Answer(200, v2.to_json(value))


def error(code: int, text: str, *headers: Header) -> Answer:
    return Answer(code, v2.error(text), (JSON, *headers))
