"""Addresses of services: parsing, name resolution and connecting. Nothing here blocks."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Callable
from typing import NamedTuple, TypeVar
from urllib.parse import urlsplit

CONNECT_SECONDS = 5.0
"""For each IP address of a name."""
LOOKUP_SECONDS = 5.0
"""How long a resolved name is cached."""

_PORTS = {"http": 80, "https": 443}
_ProtocolT = TypeVar("_ProtocolT", bound=asyncio.Protocol)


class ServiceHost(NamedTuple):
    name: str
    """A host name, or an IP address without brackets."""
    port: int
    tls: bool

    @property
    def header(self) -> str:
        """The value of the Host header."""
        name = f"[{self.name.partition('%')[0]}]" if ":" in self.name else self.name
        return name if self.port == _PORTS["https" if self.tls else "http"] else f"{name}:{self.port}"


def host_of(address: str) -> ServiceHost:
    """Parses `http://host:port`; credentials (`user@`) are dropped. Raises ValueError."""
    parts = urlsplit(address)
    name, port = parts.hostname, parts.port
    if parts.scheme not in _PORTS or not name or not name.isascii() or not name.isprintable() or " " in name:
        raise ValueError(f"{address!r} is not an address; expected http://host:port")
    return ServiceHost(name, port or _PORTS[parts.scheme], parts.scheme == "https")


class Connector:
    """Connects to hosts. Caches resolved names and the TLS context."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], float],
        tls: Callable[[], ssl.SSLContext] = ssl.create_default_context,
    ) -> None:
        """`tls` is called once, in a thread, because it reads files."""
        self._loop = loop
        self._clock = clock
        self._new_tls = tls
        self._tls: ssl.SSLContext | None = None
        self._resolved: dict[str, tuple[float, list[str]]] = {}
        self._lookups: dict[str, asyncio.Task[list[str]]] = {}

    async def connect(self, host: ServiceHost, protocol: Callable[[], _ProtocolT]) -> _ProtocolT:
        """Raises OSError if the host cannot be reached, UnicodeError if its name is invalid."""
        context = await self._tls_context() if host.tls else None
        numbers = await self._resolve(host.name)
        for at, number in enumerate(numbers):
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    _, connected = await self._loop.create_connection(
                        protocol, number, host.port, ssl=context, server_hostname=host.name if host.tls else None
                    )
            except OSError:
                if at + 1 < len(numbers):
                    continue
                self._resolved.pop(host.name, None)  # its addresses may have changed
                raise
            if at:  # try the failed ones last from now on
                numbers[:] = numbers[at:] + numbers[:at]
            return connected
        raise OSError(f"no address is known for {host.name}")

    async def close(self) -> None:
        """Cancels all lookups."""
        lookups = list(self._lookups.values())
        for task in lookups:
            task.cancel()
        if lookups:
            await asyncio.wait(lookups)

    async def _tls_context(self) -> ssl.SSLContext:
        if self._tls is None:
            context = await self._loop.run_in_executor(None, self._new_tls)
            context.set_alpn_protocols(["http/1.1"])
            self._tls = context
        return self._tls

    async def _resolve(self, name: str) -> list[str]:
        """Returns the IP addresses of a name, in the order to try them."""
        if _is_ip_address(name):
            return [name]
        until, found = self._resolved.get(name, (0.0, []))
        if found and self._clock() < until:
            return found
        lookup = self._lookups.get(name)
        if lookup is None:
            lookup = self._lookups[name] = self._loop.create_task(self._look_up(name))
            lookup.add_done_callback(lambda ended: self._on_lookup_end(name, ended))
        return await asyncio.shield(lookup)  # others may wait for the same lookup

    async def _look_up(self, name: str) -> list[str]:
        infos = await self._loop.getaddrinfo(name, None, type=socket.SOCK_STREAM)
        found = list(dict.fromkeys(str(info[4][0]) for info in infos))
        self._resolved[name] = self._clock() + LOOKUP_SECONDS, found
        return found

    def _on_lookup_end(self, name: str, lookup: asyncio.Task[list[str]]) -> None:
        self._lookups.pop(name, None)
        if not lookup.cancelled():
            lookup.exception()  # marks it as retrieved; callers that still wait get it from the task


def _is_ip_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
