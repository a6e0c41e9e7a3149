"""What a gateway cannot do itself it asks the plane for, with the credentials of whoever asked: loading and unloading.

One request, one connection: it is rare, and may take as long as a model takes to start.
"""

from __future__ import annotations

import asyncio
import re
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import quote, urlsplit

import msgspec

from mizzen.errors import Unavailable

_STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")
_AWAY = "the plane does not answer; what is served goes on"


class Told(NamedTuple):
    code: int
    message: str
    """For people; empty when it went well."""


class Control:
    """The control API, as a gateway reaches it."""

    def __init__(self, url: str) -> None:
        """Empty: there is none."""
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "", parts.port or 80
        self._named = parts.netloc

    async def change(self, namespace: str, model: str, verb: str, credentials: tuple[bytes, ...]) -> Told:
        """POST to the same path there. Unavailable when nobody answers."""
        if not self._host:
            raise Unavailable("this gateway has no plane to ask")
        path = f"/v2/repository/models/{quote(model, safe='')}/{verb}?namespace={quote(namespace, safe='')}"
        lines = [
            f"POST {path} HTTP/1.1".encode(),
            f"Host: {self._named}".encode(),
            b"Content-Length: 0",
            b"Connection: close",
            *(b"Authorization: " + value for value in credentials),
        ]
        try:
            reader, writer = await asyncio.open_connection(self._host, self._port)
            try:
                writer.write(b"\r\n".join([*lines, b"", b""]))
                answer = await reader.read(-1)
            finally:
                writer.close()
        except OSError as error:
            raise Unavailable(_AWAY) from error
        return _told(answer)


def _told(answer: bytes) -> Told:
    head, _, body = answer.partition(b"\r\n\r\n")
    status = _STATUS.match(head)
    if status is None:
        raise Unavailable(_AWAY)
    code = int(status[1])
    if code < 300:
        return Told(200, "")
    try:
        said = msgspec.json.decode(body)
        hint = (said.get("details") or {}).get("hint")
        message = said["message"] + (f"; {hint}" if hint else "")
    except (msgspec.DecodeError, AttributeError, KeyError, TypeError):
        message = f"the plane answered {code}"
    # A name that cannot be one is a bad request, as this API says it.
    return Told(400 if code == HTTPStatus.UNPROCESSABLE_ENTITY else code, message)
