"""Client of the control API, for what a gateway cannot do itself: loading and unloading models.

It passes on the credentials of the caller. Each request has its own connection: requests are rare, and may take as long
as a model takes to start.
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
_NO_ANSWER = "the plane does not answer; models that are served keep running"


class PlaneReply(NamedTuple):
    code: int
    message: str
    """For people; empty on success."""


class PlaneClient:
    """The control API of the plane."""

    def __init__(self, url: str) -> None:
        """`url`: empty if there is no plane."""
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "", parts.port or 80
        self._host_header = parts.netloc

    async def change(self, namespace: str, model: str, verb: str, credentials: tuple[bytes, ...]) -> PlaneReply:
        """POST to the same path of the plane. Raises Unavailable if it does not answer."""
        if not self._host:
            raise Unavailable("this gateway has no control plane")
        path = f"/v2/repository/models/{quote(model, safe='')}/{verb}?namespace={quote(namespace, safe='')}"
        lines = [
            f"POST {path} HTTP/1.1".encode(),
            f"Host: {self._host_header}".encode(),
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
            raise Unavailable(_NO_ANSWER) from error
        return _parse_reply(answer)


def _parse_reply(answer: bytes) -> PlaneReply:
    head, _, body = answer.partition(b"\r\n\r\n")
    status = _STATUS.match(head)
    if status is None:
        raise Unavailable(_NO_ANSWER)
    code = int(status[1])
    if code < 300:
        return PlaneReply(200, "")
    try:
        problem = msgspec.json.decode(body)
        hint = (problem.get("details") or {}).get("hint")
        message = problem["message"] + (f"; {hint}" if hint else "")
    except (msgspec.DecodeError, AttributeError, KeyError, TypeError):
        message = f"the plane answered {code}"
    # The plane answers 422 to an invalid name; in this API that is a 400.
    return PlaneReply(400 if code == HTTPStatus.UNPROCESSABLE_ENTITY else code, message)
