"""Every implementation of `Engine`, what they are given to run, and how a contract test waits for it."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from mizzen.blobs.file_store import FileBlobs
from mizzen.engines.engine import Engine, Observation
from mizzen.engines.local.confinements import ConfinementPolicy
from mizzen.engines.local.engine import LocalEngine
from mizzen.kinds.schema.resource import Meta, Resource
from mizzen.kinds.workload import WorkloadStatus
from mizzen.protocol.frames import framing
from tests.support.supervised import Supervised

T = TypeVar("T")

SERVES = """
import os, signal, socket, sys, threading
from mizzen.protocol.frames.framing import DRAIN, HELLO, encode
path, peers = os.environ["MIZZEN_SOCKET"], []
if os.path.exists(path):
    os.unlink(path)
def drain(*_):
    for peer in peers:
        peer.sendall(encode(DRAIN, 0))
        while peer.recv(100):
            pass
    sys.exit(0)
signal.signal(signal.SIGTERM, drain)
server = socket.socket(socket.AF_UNIX)
server.bind(path)
server.listen()
print("serving", os.environ.get("WORD", ""), flush=True)
while True:
    peer, _ = server.accept()
    peer.sendall(encode(HELLO, 0, b"\\x81\\xa5state\\xa5ready"))
    peers.append(peer)
"""

GIVES_UP = """
import os, sys
with open(os.environ["MIZZEN_TERMINATION_LOG"], "w") as file:
    file.write("the file is no model")
sys.exit(78)
"""


class World(Protocol):
    """A place for engines to act in. Two engines of one world see the same: the second is a plane restarted."""

    def engine(self) -> Engine: ...

    async def close(self) -> None:
        """Ends the engines, not what they run."""

    def artifact(self, path: str, content: bytes) -> dict[str, Any]: ...


class LocalWorld:
    def __init__(self, plane: Supervised) -> None:
        self._plane = plane
        self._blobs = FileBlobs(plane.home.data_dir / "blobs")
        self._engines: list[LocalEngine] = []
        plane.start()

    def engine(self) -> Engine:
        # Processes of these tests leave notes next to the data dir.
        confining = ConfinementPolicy(write=(str(self._plane.home.data_dir.parent),))
        self._engines.append(LocalEngine(self._plane.home, self._blobs, python=sys.executable, confining=confining))
        return self._engines[-1]

    async def close(self) -> None:
        for engine in self._engines:
            await engine.close()

    def artifact(self, path: str, content: bytes) -> dict[str, Any]:
        blob = self._blobs.put_bytes(content)
        return {"path": path, "digest": blob.digest, "size": blob.size}


def workload(code: str, **spec: Any) -> Resource:
    meta = Meta("iris-1", uid="0a1b2c3d-4e5f-4a6b-8c7d-9e0f1a2b3c4d")
    return Resource("Workload", meta, {"purpose": "serve", "command": ["python", "-c", code], **spec})


def reported(resource: Resource, seen: Observation) -> Resource:
    """As it is stored once a controller has written down what was seen."""
    return resource.with_status(WorkloadStatus(replicas=seen.replicas, signature=seen.signature))


def changed(resource: Resource, **spec: Any) -> Resource:
    return replace(resource, spec={**resource.spec, **spec})


def run(world: World, body: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        try:
            async with asyncio.timeout(60):
                await body()
        finally:
            await world.close()

    asyncio.run(main())


async def ready(engine: Engine, given: Resource) -> Observation:
    return await observed(engine, given, lambda seen: states(seen) == {"ready"})


async def observed(engine: Engine, given: Resource, enough: Callable[[Observation], bool]) -> Observation:
    async def look() -> Observation | None:
        seen = await engine.apply(given)
        return seen if enough(seen) else None

    return await until(look)


async def until(look: Callable[[], Awaitable[T | None]]) -> T:
    async with asyncio.timeout(60):
        while True:
            found = await look()
            if found:
                return found
            await asyncio.sleep(0.02)


async def printed(engine: Engine, given: Resource, expected: bytes, **options: Any) -> bool:
    return await collect(engine, given, **options) == expected


async def collect(engine: Engine, given: Resource, **options: Any) -> bytes:
    return b"".join([chunk async for chunk in engine.logs(given, **options)])


def states(seen: Observation) -> set[str]:
    return {replica.state for replica in seen.replicas}


def ready_anew(seen: Observation, before: Observation) -> bool:
    return states(seen) == {"ready"} and seen.replicas[0].pid != before.replicas[0].pid


def hello(address: str) -> int:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(10)
        connection.connect(address.removeprefix("unix:"))
        (frame,) = framing.FrameReader().feed(connection.recv(1 << 16))
        return frame.type
