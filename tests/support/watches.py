"""Watches over plain sockets: the test itself says when something is read, and what is not."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import urlencode, urlsplit

from tests.support import planes

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
ROOT = "/apis/mizzen.dev/v1alpha1"


class CutOff(Exception):
    """The connection ended before the answer did."""


@dataclass(slots=True)
class Watch:
    """One connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    _left: bytearray = field(default_factory=bytearray)

    async def line(self) -> bytes | None:
        """None: the answer has ended. CutOff when it was not whole."""
        while (end := self._left.find(b"\n")) < 0:
            try:
                size = int(await self.reader.readuntil(b"\r\n"), 16)
                chunk = await self.reader.readexactly(size + 2)
            except (OSError, asyncio.IncompleteReadError) as error:
                raise CutOff from error
            if not size:
                return None
            self._left += chunk[:-2]
        line = bytes(self._left[: end + 1])
        del self._left[: end + 1]
        return line

    async def rest(self) -> tuple[list[bytes], bool]:
        """All lines that still come; True: the answer was whole."""
        lines = []
        try:
            while (line := await self.line()) is not None:
                lines.append(line)
        except CutOff:
            return lines, False
        return lines, True

    def close(self) -> None:
        self.writer.transport.abort()


@dataclass(frozen=True, slots=True)
class Watching:
    """Opens watches on a plane, as its admin; `with` closes those that are left."""

    plane: planes.TestPlane
    _opened: list[Watch] = field(default_factory=list)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for watch in self._opened:
            watch.close()

    async def open(
        self, params: Mapping[str, str], namespace: str = "", *, table: bool = False, tls: bool = False, buffer: int = 0
    ) -> Watch:
        """`buffer`: all that the reader's side holds of what nobody asks for; 0: as much as is common."""
        parts = urlsplit(self.plane.tls_url if tls else self.plane.control_url)
        assert parts.hostname is not None
        connection = socket.socket()
        if buffer:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        connection.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connection, (parts.hostname, parts.port))
        context = ssl.create_default_context(cafile=self.plane.data_dir / "tls" / "ca.pem") if tls else None
        reader, writer = await asyncio.open_connection(
            sock=connection, ssl=context, server_hostname=parts.hostname if tls else None, limit=buffer or 1 << 16
        )
        watch = Watch(reader, writer)
        self._opened.append(watch)
        within = f"{ROOT}/namespaces/{namespace}/models" if namespace else f"{ROOT}/models"
        head = (
            f"GET {within}?{urlencode({'watch': 'true', **params})} HTTP/1.1\r\nhost: {parts.netloc}\r\n"
            f"authorization: Bearer {self.plane.token()}\r\naccept: {TABLE if table else 'application/json'}\r\n\r\n"
        )
        writer.write(head.encode())
        status = await reader.readuntil(b"\r\n\r\n")
        assert status.startswith(b"HTTP/1.1 200 "), status
        return watch


@dataclass(frozen=True, slots=True)
class Told:
    """What one line says."""

    type: str
    version: int
    place: tuple[str, str]
    """Namespace and name."""
    object: Any = field(compare=False, default=None)
    columns: int = field(compare=False, default=0)
    """That a table names."""


def told(line: bytes) -> Told:
    said = json.loads(line)
    item, columns = said["object"], 0
    if item["kind"] == "Table":
        columns = len(item["columnDefinitions"])
        [row] = item["rows"]
        item = row["object"]
    meta = item["metadata"]
    place = meta.get("namespace", ""), meta.get("name", "")
    return Told(said["type"], int(meta.get("resourceVersion") or 0), place, item, columns)
