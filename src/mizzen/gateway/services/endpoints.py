"""All addresses of a service: which one is asked next, connections as they are made, and as they grow old."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from mizzen.gateway.services.address import Reach, host_of
from mizzen.gateway.services.call import Exchange
from mizzen.gateway.services.endpoint import Peer
from mizzen.gateway.services.http_connection import Connection, Owner

IDLE_SECONDS = 20.0
"""After which a connection that was not used is closed."""

log = logging.getLogger(__name__)


class Keeper(Owner, Protocol):
    """Who is told of connections."""

    def opened(self, connection: Connection, exchange: Exchange | None) -> None: ...

    def unreachable(self, peer: Peer, exchange: Exchange | None) -> None: ...


class Peers:
    def __init__(
        self,
        keeper: Keeper,
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], float],
        tls: Callable[[], ssl.SSLContext],
        connections: int,
        body_limit: int,
    ) -> None:
        self.openings = 0
        """Connections that are being made for whoever waits."""
        self._keeper = keeper
        self._loop = loop
        self._clock = clock
        self._reach = Reach(loop, clock, tls)
        self._connections = connections
        self._body_limit = body_limit
        self._peers: dict[str, Peer] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._reaper: asyncio.TimerHandle | None = None

    def __bool__(self) -> bool:
        return bool(self._peers)

    def __iter__(self) -> Iterator[Peer]:
        return iter(self._peers.values())

    def replace(self, addresses: Iterable[str]) -> None:
        """Those that stay keep their connections; those that go answer what they owe."""
        before, self._peers = self._peers, {}
        for address in addresses:
            if address in before:
                self._peers[address] = before.pop(address)
            elif address not in self._peers:
                try:
                    self._peers[address] = Peer(address, host_of(address))
                except ValueError as error:
                    log.warning("a service cannot be called there: %s", error)
        for peer in before.values():
            peer.retired = True
            peer.close_idle()

    def choose(self, exchange: Exchange, now: float) -> Peer | None:
        """The least busy that may be asked. One that failed comes after all others, and not at all while it rests if
        it could not be reached since the call came."""
        best, rank = None, (True, 0, False, 0)
        for peer in self._peers.values():
            rests = peer.resting_until > now
            if peer.load >= self._connections or (rests and peer.unreached >= exchange.since):
                continue
            its = (rests, peer.load, not peer.idle, peer.used)
            if best is None or its < rank:
                best, rank = peer, its
        return best

    def open(self, peer: Peer, exchange: Exchange | None) -> None:
        """One more connection: for whoever waits, or for one call alone."""
        peer.opening += 1
        self.openings += exchange is None
        task = self._loop.create_task(self._connect(peer, exchange))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def keep(self, connection: Connection, now: float) -> None:
        """For the next call, if it is fit for one."""
        connection.exchange = None
        peer: Peer = connection.peer
        if peer.retired or not connection.reusable:
            connection.close()
            return
        connection.idle_since = now
        peer.idle.append(connection)
        if self._reaper is None:
            self._reaper = self._loop.call_later(IDLE_SECONDS / 2, self._reap)

    def close_idle(self) -> None:
        for peer in self._peers.values():
            peer.close_idle()
        if self._reaper is not None:
            self._reaper.cancel()
            self._reaper = None

    async def abort(self) -> None:
        """Stop making connections."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._reach.close()

    async def _connect(self, peer: Peer, exchange: Exchange | None) -> None:
        connection: Connection | None = None
        why = "its connection was closed at once"
        try:
            connection = await self._reach.connect(peer.host, lambda: Connection(self._keeper, peer, self._body_limit))
        except (OSError, UnicodeError) as error:
            why = _words(error)
        finally:
            peer.opening -= 1
            self.openings -= exchange is None
        if connection is not None and connection.open:
            self._keeper.opened(connection, exchange)
            return
        peer.why = why
        self._keeper.unreachable(peer, exchange)

    def _reap(self) -> None:
        before = self._clock() - IDLE_SECONDS
        for peer in self._peers.values():
            peer.close_idle(before)
        kept = any(peer.idle for peer in self._peers.values())
        self._reaper = self._loop.call_later(IDLE_SECONDS / 2, self._reap) if kept else None


def _words(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, TimeoutError):
        return "it does not take connections in time"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
