"""All addresses of a service: load balancing, opening connections, and closing idle ones."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Iterable, Iterator
from dataclasses import KW_ONLY, dataclass, field
from typing import Protocol

from mizzen.gateway.services.address import Connector, host_of
from mizzen.gateway.services.call import ServiceCall
from mizzen.gateway.services.endpoint import ServiceEndpoint
from mizzen.gateway.services.http_connection import ConnectionListener, HttpConnection

IDLE_SECONDS = 20.0
"""An unused connection is closed after this time."""

log = logging.getLogger(__name__)


class EndpointListener(ConnectionListener, Protocol):
    """Receives the events of connections and of attempts to connect."""

    def on_open(self, connection: HttpConnection, service_call: ServiceCall | None) -> None: ...

    def on_unreachable(self, endpoint: ServiceEndpoint, service_call: ServiceCall | None) -> None: ...


@dataclass(slots=True, eq=False)
class ServiceEndpoints:
    listener: EndpointListener
    _: KW_ONLY
    loop: asyncio.AbstractEventLoop
    clock: Callable[[], float]
    tls: Callable[[], ssl.SSLContext]
    connections: int
    """Maximum connections to one address."""
    body_limit: int
    openings: int = 0
    """Connections that are being opened for any waiting call."""
    _connector: Connector = field(init=False)
    _by_address: dict[str, ServiceEndpoint] = field(default_factory=dict)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _reaper: asyncio.TimerHandle | None = None

    def __post_init__(self) -> None:
        self._connector = Connector(self.loop, self.clock, self.tls)

    def __bool__(self) -> bool:
        return bool(self._by_address)

    def __iter__(self) -> Iterator[ServiceEndpoint]:
        return iter(self._by_address.values())

    def replace(self, addresses: Iterable[str]) -> None:
        """Addresses that stay keep their connections; removed ones finish their requests in flight."""
        before, self._by_address = self._by_address, {}
        for address in addresses:
            if address in before:
                self._by_address[address] = before.pop(address)
            elif address not in self._by_address:
                try:
                    self._by_address[address] = ServiceEndpoint(address, host_of(address))
                except ValueError as error:
                    log.warning("a service address is ignored: %s", error)
        for endpoint in before.values():
            endpoint.retired = True
            endpoint.close_idle()

    def choose(self, service_call: ServiceCall, now: float) -> ServiceEndpoint | None:
        """Returns the least busy endpoint below its limit. One in backoff comes after all others, and is skipped if it
        could not be reached since the call was submitted."""
        best, rank = None, (True, 0, False, 0)
        for endpoint in self._by_address.values():
            rests = endpoint.backoff_until > now
            if endpoint.load >= self.connections or (rests and endpoint.unreachable_at >= service_call.since):
                continue
            its = (rests, endpoint.load, not endpoint.idle, endpoint.last_used)
            if best is None or its < rank:
                best, rank = endpoint, its
        return best

    def open(self, endpoint: ServiceEndpoint, service_call: ServiceCall | None) -> None:
        """Opens a connection, for any waiting call or for one call alone."""
        endpoint.opening += 1
        self.openings += service_call is None
        task = self.loop.create_task(self._connect(endpoint, service_call))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def keep(self, connection: HttpConnection, now: float) -> None:
        """Keeps the connection for the next call if it is reusable."""
        connection.call = None
        endpoint: ServiceEndpoint = connection.endpoint
        if endpoint.retired or not connection.reusable:
            connection.close()
            return
        connection.idle_since = now
        endpoint.idle.append(connection)
        if self._reaper is None:
            self._reaper = self.loop.call_later(IDLE_SECONDS / 2, self._reap)

    def close_idle(self) -> None:
        for endpoint in self._by_address.values():
            endpoint.close_idle()
        if self._reaper is not None:
            self._reaper.cancel()
            self._reaper = None

    async def abort(self) -> None:
        """Cancels all attempts to connect."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._connector.close()

    async def _connect(self, endpoint: ServiceEndpoint, service_call: ServiceCall | None) -> None:
        connection: HttpConnection | None = None
        why = "its connection was closed at once"
        try:
            connection = await self._connector.connect(
                endpoint.host, lambda: HttpConnection(self.listener, endpoint, self.body_limit)
            )
        except (OSError, UnicodeError) as error:
            why = _describe_error(error)
        finally:
            endpoint.opening -= 1
            self.openings -= service_call is None
        if connection is not None and connection.open:
            self.listener.on_open(connection, service_call)
            return
        endpoint.failure = why
        self.listener.on_unreachable(endpoint, service_call)

    def _reap(self) -> None:
        before = self.clock() - IDLE_SECONDS
        for endpoint in self._by_address.values():
            endpoint.close_idle(before)
        has_idle = any(endpoint.idle for endpoint in self._by_address.values())
        self._reaper = self.loop.call_later(IDLE_SECONDS / 2, self._reap) if has_idle else None


def _describe_error(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, TimeoutError):
        return "it did not accept a connection in time"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
