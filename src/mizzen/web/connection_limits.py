"""Who may come in, and for how long they are waited for: what the connections of one process share."""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass

from uvicorn.server import ServerState

_HANDSHAKE = b"\x16"
"""The first byte of TLS."""
_NOT_TLS = (
    b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n"
    b"content-type: text/plain\r\ncontent-length: 45\r\n\r\nthis port speaks TLS: ask for it with https:\n"
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Patience:
    """How long clients are waited for, in seconds. Answers may take, and last, as long as somebody takes them."""

    handshake: float = 10.0
    """For all of it, over TLS."""
    idle: float = 75.0
    """Until a connection is used, at first or again."""
    stalled: float = 60.0
    """For a whole head, and between two pieces of a body."""
    request: float = 300.0
    """For a whole request, and one second more for each `slowest` bytes of it: a long upload may go on."""
    slowest: int = 16 << 10
    untaken: float = 60.0
    """For one who takes nothing more of what was written to them, and is held in memory meanwhile."""


CROWD, HASTE = 1 << 15, 2.0
"""How many requests may have begun and not ended, where one connection may have hundreds of them: beyond it nobody is
waited for longer than so many seconds, or who opens them in masses fills the memory."""

UNTAKEN_BYTES = 256 << 20
"""Of answers to such requests that clients do not take: beyond it one that would have to wait is given up, and from
half of it on nobody who takes nothing is waited for longer than `HASTE`."""


def most_connections() -> int:
    """Three quarters of the files this process may have open; the others are for all that is no connection."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return (1 << 20 if files == resource.RLIM_INFINITY else files) * 3 // 4


class Guest(asyncio.Protocol):
    """A connection, as far as the door has to do with it."""

    handshake: Handshake | None = None
    """What it came out of, over TLS."""

    def close_if_over_time(self) -> None:
        raise NotImplementedError


class Door:
    """What the connections of one process share: what time it is, how long they may take, how many there may be."""

    __slots__ = ("_clock", "_told", "coming", "handshakes", "most", "now", "open", "patience", "unsent")

    def __init__(self, patience: Patience, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.patience = patience
        self.most = most
        self.now = clock()
        """Renewed ten times a second by the server."""
        self.open = 0
        """From accept on, those in their handshake among them."""
        self.handshakes: dict[Handshake, None] = {}
        """In the order in which they came."""
        self.coming = 0
        """Requests that have begun and not ended, of connections with several at a time, when somebody last looked."""
        self.unsent = 0
        """Bytes of answers on such connections that wait until they are taken."""
        self._clock = clock
        self._told = False

    def tick(self) -> None:
        self.now = self._clock()

    @property
    def stalled(self) -> float:
        """How long is waited now for another piece of a request."""
        return self.patience.stalled if self.coming <= CROWD else min(self.patience.stalled, HASTE)

    @property
    def untaken(self) -> float:
        """How long is waited now for who takes nothing of an answer."""
        return self.patience.untaken if self.unsent <= UNTAKEN_BYTES // 2 else min(self.patience.untaken, HASTE)

    def enter(self) -> bool:
        """Whether there is a place for one more, which is theirs until they `leave`.

        Whoever is longest in the handshake gives way, so those who only connect keep nobody out.
        """
        if self.open >= self.most:
            self._tell_full()
            if not self.handshakes:
                return False
            next(iter(self.handshakes)).give_up()
        self.open += 1
        return True

    def leave(self) -> None:
        self.open -= 1

    def _tell_full(self) -> None:
        """One line, however many are turned away."""
        if not self._told:
            self._told = True
            log.warning("%d connections are open, as many as may be; what is more is closed at once", self.most)

    def look(self, state: ServerState) -> None:
        """Close the connections that are over their time. Called once a second."""
        for connection in list(state.connections):
            assert isinstance(connection, Guest)
            connection.close_if_over_time()
        if self.open < self.most:
            self._told = False


class Handshake:
    """An accepted connection until it is secured.

    A server of asyncio or uvloop that is told of TLS tells nobody of a connection before, so it would not be counted.
    """

    def __init__(self, connection: socket.socket, door: Door) -> None:
        self._connection = connection
        self._door = door
        self._begun = False

    def begin(self, protocol: Callable[[], Guest], tls: ssl.SSLContext) -> None:
        if not self._door.enter():
            self._connection.close()
            return
        self._door.handshakes[self] = None
        self._task = asyncio.create_task(self._secure(protocol, tls))
        self._task.add_done_callback(self._close_if_ours)

    def leave(self) -> None:
        """Nothing for who has left before."""
        if self in self._door.handshakes:
            del self._door.handshakes[self]
            self._door.leave()

    def give_up(self) -> None:
        self.leave()
        self._task.cancel()

    def _close_if_ours(self, _task: object) -> None:
        """Nobody else has it, also when the task ended before it began."""
        if not self._begun:
            self._connection.close()

    async def _secure(self, protocol: Callable[[], Guest], tls: ssl.SSLContext) -> None:
        loop, limit = asyncio.get_running_loop(), self._door.patience.handshake

        def secured() -> Guest:
            made = protocol()
            made.handshake = self
            return made

        try:
            async with asyncio.timeout(limit):
                await self._heard()
            if self._is_plain():
                return
            self._begun = True
            await loop.connect_accepted_socket(secured, self._connection, ssl=tls, ssl_handshake_timeout=limit)
        except OSError as error:  # it was no TLS, none that we take, or did not come to its end
            log.debug("no handshake: %s", error)
        finally:
            self.leave()

    async def _heard(self) -> None:
        """Something has come."""
        loop = asyncio.get_running_loop()
        readable = asyncio.Event()
        loop.add_reader(self._connection, readable.set)
        try:
            await readable.wait()
        finally:
            loop.remove_reader(self._connection)

    def _is_plain(self) -> bool:
        """Whether this is no TLS. Who asks in plain HTTP is told, as far as one write goes: they may be a person."""
        first = self._connection.recv(1, socket.MSG_PEEK)
        if first == _HANDSHAKE:
            return False
        if first.isalpha():
            self._connection.recv(1 << 16)  # else closing would reset the connection, and void the answer
            self._connection.send(_NOT_TLS)
        return True
