"""One connection to the supervisor: reads requests, responds in order, forwards events. See `protocol`."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from mizzen.supervisor.processes.process import Process
from mizzen.supervisor.protocol import ProcessSpec, ProcessView

_UNREAD_LIMIT = 4 << 20
"""Bytes that may be buffered for a peer that does not read; beyond this it is disconnected."""

_KEY_WAIT = 10.0
_KEY_LINE = 1024
"""Maximum bytes of the first line, which has the key."""
_STRANGER = "only the plane's own processes may call the supervisor; its key is in the run folder of the data dir"

log = logging.getLogger(__name__)


class RequestHandler(Protocol):
    """The operations that a connection needs from its supervisor."""

    @property
    def processes(self) -> Mapping[str, Process]: ...

    @property
    def key(self) -> str: ...

    def info(self) -> dict[str, Any]: ...

    def apply(self, spec: ProcessSpec) -> Process: ...

    def remove(self, key: str, grace: float | None = None) -> Process | None: ...

    async def stop(self, *, graceful: bool, leave: bool) -> list[str]: ...

    def note_tethers(self) -> None: ...

    async def on_tether_end(self) -> None: ...


class ClientConnection:
    def __init__(self, supervisor: RequestHandler, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._supervisor = supervisor
        self._reader = reader
        self._writer = writer
        self.known = False
        """Whether the peer has proved that it belongs to the plane."""
        self.tethered = False
        self._watching = False
        self._operations: Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
            "info": lambda _: supervisor.info(),
            "apply": self._apply,
            "remove": self._remove,
            "list": self._list,
            "watch": self._watch,
            "tether": lambda _: self._set_tethered(True),
            "untether": lambda _: self._set_tethered(False),
        }

    async def serve(self) -> None:
        """Serves requests until the peer closes. If the peer held a tether, everything stops."""
        try:
            while line := await self._read_line():
                await self._answer(line)
        except (ConnectionError, ValueError) as error:  # ValueError: a line over the limit
            log.warning("closing a connection: %s", error)
        finally:
            self._writer.close()
            if self.tethered:
                log.info("the tether was closed; stopping")
                await self._supervisor.on_tether_end()

    async def _read_line(self) -> bytes:
        """Returns b"" at the end. A stranger sends little, soon, or is disconnected."""
        if self.known:
            return await self._reader.readline()
        try:
            async with asyncio.timeout(_KEY_WAIT):
                line = await self._read_key_line()
        except TimeoutError:
            return b""
        if not self._has_key(line):
            self.send({"id": None, "error": _STRANGER})
            log.warning("closing a connection: the peer did not send the key")
            return b""
        self.known = True
        self.send({"id": None})
        return await self._reader.readline()

    async def _read_key_line(self) -> bytes:
        """Return the first line, or its start if it is too long: `readline` would buffer megabytes of it."""
        line = bytearray()
        while not line.endswith(b"\n") and len(line) < _KEY_LINE and (byte := await self._reader.read(1)):
            line += byte
        return bytes(line)

    def abort(self) -> None:
        """Disconnect the peer at once."""
        self._writer.transport.abort()

    def _has_key(self, line: bytes) -> bool:
        try:
            request = json.loads(line)
            return request["op"] == "key" and hmac.compare_digest(str(request["key"]), self._supervisor.key)
        except (ValueError, TypeError, KeyError):
            return False

    def send(self, message: Mapping[str, Any]) -> None:
        if self._writer.is_closing():
            return
        self._writer.write(json.dumps(message).encode() + b"\n")
        if self._writer.transport.get_write_buffer_size() > _UNREAD_LIMIT:
            self._writer.transport.abort()

    def notify(self, view: ProcessView) -> None:
        if self._watching:
            self.send({"event": "process", "process": view.to_json()})

    def finish(self) -> None:
        """Closes the connection once the current request is answered."""
        self._reader.feed_eof()

    async def _answer(self, line: bytes) -> None:
        identity = None
        try:
            request = json.loads(line)
            identity = request.get("id")
            if request.get("op") == "stop":
                graceful, leave = bool(request.get("graceful", True)), bool(request.get("leave"))
                answer: dict[str, Any] = {"left": await self._supervisor.stop(graceful=graceful, leave=leave)}
            elif request.get("op") in self._operations:
                answer = self._operations[request["op"]](request)
            else:
                answer = {"error": f"unknown op {request.get('op')!r}"}
        except KeyError as error:
            answer = {"error": f"the request needs {error}"}
        except (AttributeError, TypeError, ValueError) as error:
            answer = {"error": str(error)}
        self.send({"id": identity, **answer})
        await self._writer.drain()

    def _apply(self, request: Mapping[str, Any]) -> dict[str, Any]:
        process = self._supervisor.apply(ProcessSpec.from_json(request["process"]))
        return {"process": process.view.to_json()}

    def _remove(self, request: Mapping[str, Any]) -> dict[str, Any]:
        process = self._supervisor.remove(request["key"], request.get("grace"))
        return {"process": process and process.view.to_json()}

    def _list(self, request: Mapping[str, Any]) -> dict[str, Any]:
        prefix = request.get("prefix", "")
        present = self._supervisor.processes.values()
        return {"processes": [each.view.to_json() for each in present if each.spec.key.startswith(prefix)]}

    def _watch(self, request: Mapping[str, Any]) -> dict[str, Any]:
        self._watching = True
        return self._list(request)

    def _set_tethered(self, tethered: bool) -> dict[str, Any]:
        self.tethered = tethered
        self._supervisor.note_tethers()
        return {}
