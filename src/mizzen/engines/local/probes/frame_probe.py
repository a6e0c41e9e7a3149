"""Readiness of a replica with a socket: it is ready while it sends HELLO. `protocol/frames/framing.py` defines the
frames."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from mizzen.kinds.parts.signatures import Signature
from mizzen.protocol.frames import authentication, msgpack
from mizzen.protocol.frames.framing import (
    AUTH,
    CHALLENGE,
    DRAIN,
    HELLO,
    OLDEST,
    RELOAD,
    REPLY,
    FrameError,
    FrameReader,
    UnsupportedVersion,
    encode,
    negotiate_version,
)

log = logging.getLogger(__name__)

RETRY = 0.1
_CHUNK = 1 << 16

Readiness = Literal["unknown", "starting", "ready", "draining", "foreign"]
"""`unknown`: it has not sent anything yet. A busy replica sends HELLO only after its current prediction. `foreign`: it
belongs to a release that shares no version of frames with this one."""


@dataclass(frozen=True, slots=True)
class ReplicaReport:
    """A replica's report about itself; fields that it does not report are empty."""

    files: str = ""
    """The files that it serves."""
    began: str = ""
    """The files that it was started with: it may still import from their folder."""
    reloads: bool = False
    protocol: str = ""
    """The protocol of an HTTP server."""


@dataclass(frozen=True, slots=True)
class ProbeState:
    """The observations of a probe about its process."""

    readiness: Readiness = "unknown"
    message: str = ""
    """Why it is not ready, once that takes long or if it was ready before."""
    signature: Signature | None = None
    """From its last HELLO."""
    report: ReplicaReport = ReplicaReport()


class Probe:
    """Watches one running process in a task. Create a new probe for another process."""

    def __init__(self, on_change: Callable[[], None], report: ReplicaReport) -> None:
        """Needs a running event loop. `on_change` is called after each change of `state`."""
        self.state = ProbeState(report=report)
        self._on_change = on_change
        self._task = asyncio.create_task(self._run())

    def stop(self) -> None:
        self._task.cancel()

    async def _run(self) -> None:
        raise NotImplementedError

    def _update(self, **changes: Any) -> None:
        before, self.state = self.state, replace(self.state, **changes)
        if self.state != before:
            self._on_change()


class FrameProbe(Probe):
    """Watches the socket of a process."""

    def __init__(self, path: Path, on_change: Callable[[], None]) -> None:
        self._writer: asyncio.StreamWriter | None = None
        self._reloaded: asyncio.Future[str] | None = None
        self._version = OLDEST
        self._path = path
        super().__init__(on_change, ReplicaReport())

    def reload(self, folder: Path, files: str) -> Awaitable[str]:
        """Have a ready replica load these files, whose digest is `files`. The result is the reason of a refusal, or
        empty."""
        assert self._writer is not None
        self._reloaded = asyncio.get_running_loop().create_future()
        body = msgpack.pack({"artifacts": str(folder), "files": files})
        self._writer.write(encode(RELOAD, 1, body, version=self._version))
        return self._reloaded

    async def _run(self) -> None:
        while not await self._watch_once():  # noqa: ASYNC110  there is no event for a socket that begins to listen
            await asyncio.sleep(RETRY)

    async def _watch_once(self) -> bool:
        """Hold one connection until its end. True: the replica accepts no more of them."""
        try:
            reader, writer = await asyncio.open_unix_connection(str(self._path))
        except OSError:  # it does not listen yet
            return False
        self._writer = writer
        try:
            return await self._listen(reader, writer)
        except UnsupportedVersion as error:
            log.warning("%s: %s", self._path, error)
            self._update(readiness="foreign")
            return True
        except (OSError, FrameError):
            self._update(readiness="starting")
            return False
        finally:
            self._finish_reload("it ended while loading them")
            self._writer = None
            writer.close()  # after DRAIN, too: a runtime ends only when its peers have closed

    async def _listen(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        frames = FrameReader()
        while data := await reader.read(_CHUNK):
            for frame in frames.feed(data):
                if frame.type == HELLO:
                    self._on_hello(frame.body, frames.version)
                    if frame.id:
                        self._finish_reload("")
                elif frame.type == REPLY:
                    self._finish_reload(_parse_refusal(frame.body))
                elif frame.type == CHALLENGE:
                    body = authentication.prove(str(self._path), frame.body)
                    writer.write(encode(AUTH, 0, body, version=frames.version))
                elif frame.type == DRAIN:
                    self._update(readiness="draining")
                    return True
        self._update(readiness="starting")
        return False

    def _on_hello(self, body: bytes | memoryview, version: int) -> None:
        """Raises UnsupportedVersion."""
        changes: dict[str, Any] = {}
        with suppress(ValueError, TypeError):  # a HELLO counts even if its body is invalid
            hello = msgpack.unpack(body)
            self._version = negotiate_version(hello.get("frames"), version)
            tensors = {name: hello.get(name, ()) for name in ("inputs", "outputs")}
            changes["signature"] = Signature.model_validate(tensors)
            files, began = (str(hello.get(name, "")) for name in ("files", "began"))
            changes["report"] = ReplicaReport(files, began, hello.get("reloads") is True)
        self._update(readiness="ready", **changes)

    def _finish_reload(self, why_not: str) -> None:
        if self._reloaded is not None and not self._reloaded.done():
            self._reloaded.set_result(why_not)


def _parse_refusal(body: bytes | memoryview) -> str:
    with suppress(ValueError, TypeError):
        [[_, message]] = msgpack.unpack(body)[1]
        return str(message, "utf-8", "replace") or "it does not say why"
    return "it does not say why"
