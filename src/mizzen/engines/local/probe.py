"""Whether a replica is ready: it is as long as it says hello on its socket. `protocol/frames.py` has the words."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal

from mizzen.kinds.parts.signatures import Signature
from mizzen.protocol import msgpack
from mizzen.protocol.frames import DRAIN, HELLO, FrameError, Reader

RETRY = 0.1
_CHUNK = 1 << 16

Readiness = Literal["unknown", "starting", "ready", "draining"]
"""`unknown`: it has not said anything yet. A busy replica says hello only after the prediction it is at."""


class Probe:
    """Watches the socket of one running process. Make a new one when the process is another."""

    def __init__(self, path: Path, changed: Callable[[], None]) -> None:
        """Needs a running loop. `changed` is called after each change of `readiness`."""
        self.readiness: Readiness = "unknown"
        self.signature: Signature | None = None
        """As its last hello said."""
        self._path = path
        self._changed = changed
        self._task = asyncio.create_task(self._run())

    def stop(self) -> None:
        self._task.cancel()

    async def _run(self) -> None:
        while not await self._drained():  # noqa: ASYNC110  nobody tells when a socket begins to listen
            await asyncio.sleep(RETRY)

    async def _drained(self) -> bool:
        """Holds one connection until its end. True: the replica wants no more of them."""
        try:
            reader, writer = await asyncio.open_unix_connection(str(self._path))
        except OSError:  # it does not listen yet
            return False
        try:
            return await self._listen(reader)
        except (OSError, FrameError):
            self._become("starting")
            return False
        finally:
            writer.close()  # after DRAIN, too: a runtime waits with its end until its peers have closed

    async def _listen(self, reader: asyncio.StreamReader) -> bool:
        frames = Reader()
        while data := await reader.read(_CHUNK):
            for frame in frames.feed(data):
                if frame.type == HELLO:
                    self._heard(frame.body)
                elif frame.type == DRAIN:
                    self._become("draining")
                    return True
        self._become("starting")
        return False

    def _heard(self, body: bytes | memoryview) -> None:
        before = self.readiness, self.signature
        with suppress(ValueError):  # that it said hello is what counts
            hello = msgpack.unpack(body)
            self.signature = Signature.model_validate({name: hello.get(name, ()) for name in ("inputs", "outputs")})
        self.readiness = "ready"
        if (self.readiness, self.signature) != before:
            self._changed()

    def _become(self, readiness: Readiness) -> None:
        if readiness != self.readiness:
            self.readiness = readiness
            self._changed()
