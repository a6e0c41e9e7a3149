"""Clients of a supervisor: `Client` for async code, `ask` and `Tether` for blocking code. `protocol` has the messages.

Connecting may raise UnusableHome: clients do not connect through a run folder that another user may have created.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import closing
from itertools import count
from typing import Any, Literal, Self

from mizzen.supervisor.data_dir import Home, load_key
from mizzen.supervisor.protocol import MAX_LINE, ProcessSpec, ProcessView


class SupervisorGone(Exception):
    """There is no supervisor, or the connection to it ended."""


class Refused(Exception):
    """The supervisor understood the request and rejected it; the message says why."""


class Client:
    """One connection for calls. Overlapping calls wait for each other. After SupervisorGone, connect again."""

    def __init__(self, home: Home, wire: Wire) -> None:
        self._home = home
        self._wire = wire

    @classmethod
    async def connect(cls, home: Home) -> Self:
        """Raises SupervisorGone."""
        return cls(home, await Wire.connect(home))

    def close(self) -> None:
        self._wire.close()

    async def info(self) -> dict[str, Any]:
        return await self._wire.call("info")

    async def apply(self, spec: ProcessSpec) -> ProcessView:
        return ProcessView.from_json((await self._wire.call("apply", process=spec.to_wire()))["process"])

    async def remove(self, key: str, grace: float | None = None) -> ProcessView | None:
        """Stops a process and returns its view, or None if it is already gone.

        The process has `grace` seconds to exit by itself; None means the grace period of its spec.
        """
        fields = {} if grace is None else {"grace": grace}
        view = (await self._wire.call("remove", key=key, **fields))["process"]
        return ProcessView.from_json(view) if view else None

    async def list(self, prefix: str = "") -> list[ProcessView]:
        answer = await self._wire.call("list", prefix=prefix)
        return [ProcessView.from_json(view) for view in answer["processes"]]

    async def watch(self) -> AsyncIterator[ProcessView]:
        """Yields all current processes, then each change, over a separate connection. Ends only with SupervisorGone."""
        wire = await Wire.connect(self._home)
        try:
            for view in (await wire.call("watch"))["processes"]:
                yield ProcessView.from_json(view)
            while True:
                message = await wire.receive()
                if message.get("event") == "process":
                    yield ProcessView.from_json(message["process"])
        finally:
            wire.close()

    async def wait_until_ended(self) -> Literal["stopping", "gone"]:
        """Waits until the supervisor stops on purpose or disappears. Uses up the connection."""
        try:
            while (await self._wire.receive()).get("event") != "stopping":
                pass
        except SupervisorGone:
            return "gone"
        return "stopping"


class Wire:
    """Lines of JSON over one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._turn = asyncio.Lock()
        self._ids = count(1)

    @classmethod
    async def connect(cls, home: Home) -> Self:
        home.check()
        try:
            wire = cls(*await asyncio.open_unix_connection(str(home.socket), limit=MAX_LINE))
        except OSError as error:
            raise SupervisorGone(f"no supervisor answers for {home.data_dir}") from error
        wire.introduce(home)
        return wire

    def close(self) -> None:
        self._writer.close()

    def introduce(self, home: Home) -> None:
        """Sends the key. The response is read with that of the first call."""
        self._writer.write(_introduction(home))

    async def call(self, op: str, **fields: Any) -> dict[str, Any]:
        async with self._turn:
            identity = next(self._ids)
            self._writer.write(_encode({"op": op, "id": identity, **fields}))
            while True:
                message = await self.receive()
                # Events arrive at any time, and a canceled call leaves its response for the next call to read.
                if not _is_welcome(message) and "event" not in message and message["id"] in (identity, None):
                    return _check(message)

    async def receive(self) -> dict[str, Any]:
        try:
            line = await self._reader.readline()
        except (ConnectionError, ValueError) as error:
            raise SupervisorGone(str(error)) from error
        return _parse(line)


def ask(home: Home, op: str, *, timeout: float = 30.0, **fields: Any) -> dict[str, Any]:
    """Sends one request over a new connection and returns the response. Raises SupervisorGone or Refused."""
    with closing(_connect(home, timeout)) as connection:
        return _ask(connection, op, fields)


class Tether:
    """A connection that the foreground viewer holds open. When the viewer exits, for any reason, everything stops."""

    def __init__(self, home: Home) -> None:
        """Raises SupervisorGone."""
        self._connection = _connect(home, timeout=30.0)
        try:
            _ask(self._connection, "tether", {})
        except BaseException:
            self._connection.close()
            raise

    def fileno(self) -> int:
        """Returns the descriptor for select; it is readable when `wait` has a result."""
        return self._connection.fileno()

    def wait(self, timeout: float | None = None) -> Literal["stopping", "gone"] | None:
        """`stopping`: deliberate stop. `gone`: the supervisor died; open a Tether to its successor. None: timeout."""
        self._connection.settimeout(timeout)
        try:
            return "stopping" if b"stopping" in self._connection.recv(1 << 16) else "gone"
        except (TimeoutError, BlockingIOError):
            return None
        except OSError:
            return "gone"

    def untether(self) -> None:
        """Releases the tether: `close` no longer stops anything."""
        self._connection.settimeout(30.0)
        _ask(self._connection, "untether", {})

    def close(self) -> None:
        self._connection.close()


def _connect(home: Home, timeout: float) -> socket.socket:
    home.check()
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(timeout)
    try:
        connection.connect(str(home.socket))
        connection.sendall(_introduction(home))
    except OSError as error:
        connection.close()
        raise SupervisorGone(f"no supervisor answers for {home.data_dir}") from error
    return connection


def _ask(connection: socket.socket, op: str, fields: dict[str, Any]) -> dict[str, Any]:
    try:
        connection.sendall(_encode({"op": op, "id": 0, **fields}))
        with connection.makefile("rb") as lines:
            while "event" in (message := _parse(lines.readline())) or _is_welcome(message):
                pass
    except OSError as error:
        raise SupervisorGone(f"the supervisor did not answer {op}: {error}") from error
    return _check(message)


def _introduction(home: Home) -> bytes:
    return _encode({"op": "key", "id": None, "key": load_key(home.key)})


def _is_welcome(message: dict[str, Any]) -> bool:
    """Whether it is the response to the key. A supervisor of an earlier release does not know it, and needs none."""
    known = "id" in message and message["id"] is None
    return known and message.get("error", "unknown op").startswith("unknown op")


def _encode(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"


def _parse(line: bytes) -> dict[str, Any]:
    if not line.endswith(b"\n"):
        raise SupervisorGone("the supervisor ended the connection")
    message: dict[str, Any] = json.loads(line)
    return message


def _check(message: dict[str, Any]) -> dict[str, Any]:
    if "error" in message:
        raise Refused(message["error"])
    return {name: value for name, value in message.items() if name != "id"}
