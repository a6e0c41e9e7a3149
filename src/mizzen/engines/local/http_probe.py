"""Whether a replica that answers HTTP is ready: it is as long as it says so. And what it speaks, asked for once.

unknown ──200──> ready <──200── starting
   │               │               ^
   └── 404, 503, nobody listens; no answer, several times over
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import quote

from mizzen.engines.local.frame_probe import RETRY, Readiness, Said
from mizzen.kinds.parts.signatures import Signature
from mizzen.kinds.workload import Spoken

HOST = "127.0.0.1"
_UNAVAILABLE = 503
_CHUNK = 1 << 16
_CHUNKS = 16


@dataclass(frozen=True, slots=True)
class Target:
    """Where a replica answers, and what it is asked."""

    port: int
    model: str
    protocol: Spoken | None = None
    """None: to be found out."""
    found: tuple[int | None, str] = field(default=(None, ""), compare=False)
    """What was found out before, of the process with this pid."""
    path: str = ""
    """The only question, where it is given: it speaks nothing that we know."""

    def paths(self, protocol: str = "") -> Iterator[tuple[str, str]]:
        """Protocol and path of each question, in their order; those of one protocol only, where it is known."""
        if self.path:
            yield "", self.path
            return
        model = quote(self.model, safe="")
        only = self.protocol or protocol
        for name, path in (
            ("v2", "/v2/health/ready"),
            ("v2", f"/v2/models/{model}/ready"),
            ("v1", f"/v1/models/{model}"),
            ("seldon", "/health/status"),
            ("seldon", "/health/ping"),
        ):
            if only in ("", name):
                yield name, path


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds, but for `silences`."""

    answer: float = 2.0
    """Longest that one answer is waited for."""
    ready: float = 2.0
    """Between the questions to one that is ready."""
    starting: float = 0.5
    """To one that listens and is not: each question is a line in somebody's log."""
    patience: float = 10.0
    """That it may take before it is told what is missing."""
    silences: int = 3
    """Answers that fail to come in time before it counts as not ready: it may be busy with a prediction."""


PACE = Pace()


class HttpProbe:
    """Asks one running process over and over. Make a new one when the process, or the target, is another.

    One connection for each question, closed at once: a server with a single thread would have none left for others.
    """

    def __init__(self, target: Target, changed: Callable[[], None], *, known: str = "", pace: Pace = PACE) -> None:
        """Needs a running loop. `changed` is called after each change. `known`: what it speaks, from before."""
        self.readiness: Readiness = "unknown"
        self.signature: Signature | None = None
        self.said = Said(protocol=known)
        self.message = ""
        """Why it is not ready, once that takes long or when it was before."""
        self._target = target
        self._changed = changed
        self._pace = pace
        self._path = ""
        """Of the question that was answered with 200 first: the only one from then on."""
        self._listens: bool | None = None
        self._since = 0.0
        """Since when it is so that it listens and is not ready, or does not listen."""
        self._silences = 0
        self._task = asyncio.create_task(self._run())

    def stop(self) -> None:
        self._task.cancel()

    async def _run(self) -> None:
        while True:  # noqa: ASYNC110  nobody tells when it begins to answer, or ceases to
            await asyncio.sleep(await self._look())

    async def _look(self) -> float:
        """Asks once; seconds until the next time."""
        heard: list[str] = []
        for protocol, path in self._questions():
            try:
                status = await ask(self._target.port, path, self._pace.answer)
            except TimeoutError:
                return self._silent()
            except ConnectionRefusedError:
                return self._not_listening()
            except OSError:  # such as a connection that was reset
                status = 0
            if status == 200:
                return self._ready(protocol, path)
            heard.append(f"GET {path} {f'said {status}' if status else 'said nothing in HTTP'}")
            # Who says so knows the question, or takes none yet: what else it speaks matters only when that stays so.
            if status == _UNAVAILABLE and self._waited() < self._pace.patience:
                break
        return self._not_ready(", ".join(heard))

    def _questions(self) -> Iterator[tuple[str, str]]:
        questions = self._target.paths(self.said.protocol)
        return ((name, path) for name, path in questions if self._path in ("", path))

    def _ready(self, protocol: str, path: str) -> float:
        self._listens, self._silences, self._path = None, 0, path
        self._become("ready", "", Said(protocol=protocol))
        return self._pace.ready

    def _silent(self) -> float:
        self._silences += 1
        if self._silences < self._pace.silences:
            return self._pace.starting
        self._now_listens(True)
        self._lack(f"it takes connections on port {self._target.port} and does not answer in {self._pace.answer:g} s")
        return self._pace.starting

    def _not_listening(self) -> float:
        self._now_listens(False)
        self._lack(
            f"nothing listens on port {self._target.port} of {HOST}: the process is told it by the variable PORT, "
            "which $(PORT) in its command stands for"
        )
        return RETRY if self._waited() < self._pace.patience else self._pace.starting

    def _not_ready(self, heard: str) -> float:
        self._silences = 0
        self._now_listens(True)
        self._lack(f"it listens on port {self._target.port} and is not ready: {heard}")
        return self._pace.starting

    def _now_listens(self, listens: bool) -> None:
        if listens is not self._listens:
            self._listens, self._since = listens, asyncio.get_running_loop().time()

    def _waited(self) -> float:
        return asyncio.get_running_loop().time() - self._since if self._listens is not None else 0.0

    def _lack(self, message: str) -> None:
        told = self._path or self._waited() >= self._pace.patience
        self._become("starting", message if told else "", self.said)

    def _become(self, readiness: Readiness, message: str, said: Said) -> None:
        before = self.readiness, self.message, self.said
        self.readiness, self.message, self.said = readiness, message, said
        if (readiness, message, said) != before:
            self._changed()


async def ask(port: int, path: str, seconds: float) -> int:
    """The status of what is answered; 0 when that is no HTTP. OSError, and TimeoutError among them."""
    async with asyncio.timeout(seconds):
        reader, writer = await asyncio.open_connection(HOST, port)
    try:
        if writer.get_extra_info("sockname") == writer.get_extra_info("peername"):
            raise ConnectionRefusedError("connected to itself: nobody listens there")
        writer.write(
            f"GET {path} HTTP/1.1\r\nHost: {HOST}:{port}\r\nUser-Agent: mizzen-engine\r\nAccept: */*\r\n"
            "Connection: close\r\n\r\n".encode()
        )
        async with asyncio.timeout(seconds):
            status = await _status(reader)
        await _read_to_end(reader, seconds / 4)
    finally:
        writer.close()
    return status


async def _status(reader: asyncio.StreamReader) -> int:
    try:
        version, status, *_ = (await reader.readline()).split(maxsplit=2)
    except ValueError:  # fewer words, or a line beyond the limit
        return 0
    return int(status) if version.startswith(b"HTTP/1.") and status.isdigit() else 0


async def _read_to_end(reader: asyncio.StreamReader, seconds: float) -> None:
    """Or the program finds its connection broken while it writes, and says so in its log."""
    with suppress(OSError):
        async with asyncio.timeout(seconds):
            for _ in range(_CHUNKS):
                if not await reader.read(_CHUNK):
                    return
