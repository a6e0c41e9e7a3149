"""Whether a replica is ready: it is as long as it says hello on its socket. `protocol/frames/framing.py` has the
words."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mizzen.kinds.parts.signatures import Signature
from mizzen.protocol.frames import msgpack
from mizzen.protocol.frames.framing import (
    DRAIN,
    HELLO,
    OLDEST,
    RELOAD,
    REPLY,
    Foreign,
    FrameError,
    Reader,
    common,
    encode,
)

log = logging.getLogger(__name__)

RETRY = 0.1
_CHUNK = 1 << 16

Readiness = Literal["unknown", "starting", "ready", "draining", "foreign"]
"""`unknown`: it has not said anything yet. A busy replica says hello only after the prediction it is at. `foreign`: it
is of a release with which this one has no version of frames in common."""


@dataclass(frozen=True, slots=True)
class Said:
    """What a hello says of the files behind it; nothing, where it says nothing."""

    files: str = ""
    """Those that answer."""
    began: str = ""
    """Those that it was started with: it may still import from their folder."""
    reloads: bool = False
    protocol: str = ""
    """What it speaks, of one that answers HTTP."""


class Probe:
    """Watches the socket of one running process. Make a new one when the process is another."""

    def __init__(self, path: Path, changed: Callable[[], None]) -> None:
        """Needs a running loop. `changed` is called after each change of `readiness`."""
        self.readiness: Readiness = "unknown"
        self.signature: Signature | None = None
        """As its last hello said."""
        self.said = Said()
        self.message = ""
        self._writer: asyncio.StreamWriter | None = None
        self._reloaded: asyncio.Future[str] | None = None
        self._version = OLDEST
        self._path = path
        self._changed = changed
        self._task = asyncio.create_task(self._run())

    def stop(self) -> None:
        self._task.cancel()

    def reload(self, folder: Path, files: str) -> Awaitable[str]:
        """Have it take these files, called so, while it is ready. Why it does not; empty when it has them."""
        assert self._writer is not None
        self._reloaded = asyncio.get_running_loop().create_future()
        wish = msgpack.pack({"artifacts": str(folder), "files": files})
        self._writer.write(encode(RELOAD, 1, wish, version=self._version))
        return self._reloaded

    async def _run(self) -> None:
        while not await self._drained():  # noqa: ASYNC110  nobody tells when a socket begins to listen
            await asyncio.sleep(RETRY)

    async def _drained(self) -> bool:
        """Holds one connection until its end. True: the replica wants no more of them."""
        try:
            reader, writer = await asyncio.open_unix_connection(str(self._path))
        except OSError:  # it does not listen yet
            return False
        self._writer = writer
        try:
            return await self._listen(reader)
        except Foreign as error:
            log.warning("%s: %s", self._path, error)
            self._become("foreign")
            return True
        except (OSError, FrameError):
            self._become("starting")
            return False
        finally:
            self._tell_reloaded("it ended while it loaded them")
            self._writer = None
            writer.close()  # after DRAIN, too: a runtime waits with its end until its peers have closed

    async def _listen(self, reader: asyncio.StreamReader) -> bool:
        frames = Reader()
        while data := await reader.read(_CHUNK):
            for frame in frames.feed(data):
                if frame.type == HELLO:
                    self._heard(frame.body, frames.version)
                    if frame.id:
                        self._tell_reloaded("")
                elif frame.type == REPLY:
                    self._tell_reloaded(_refusal(frame.body))
                elif frame.type == DRAIN:
                    self._become("draining")
                    return True
        self._become("starting")
        return False

    def _heard(self, body: bytes | memoryview, version: int) -> None:
        """Foreign."""
        before = self.readiness, self.signature, self.said
        with suppress(ValueError, TypeError):  # that it said hello is what counts
            hello = msgpack.unpack(body)
            self._version = common(hello.get("frames"), version)
            self.signature = Signature.model_validate({name: hello.get(name, ()) for name in ("inputs", "outputs")})
            files, began = (str(hello.get(name, "")) for name in ("files", "began"))
            self.said = Said(files, began, hello.get("reloads") is True)
        self.readiness = "ready"
        if (self.readiness, self.signature, self.said) != before:
            self._changed()

    def _tell_reloaded(self, why_not: str) -> None:
        if self._reloaded is not None and not self._reloaded.done():
            self._reloaded.set_result(why_not)

    def _become(self, readiness: Readiness) -> None:
        if readiness != self.readiness:
            self.readiness = readiness
            self._changed()


def _refusal(body: bytes | memoryview) -> str:
    with suppress(ValueError, TypeError):
        [[_, message]] = msgpack.unpack(body)[1]
        return str(message, "utf-8", "replace") or "it does not say why"
    return "it does not say why"
