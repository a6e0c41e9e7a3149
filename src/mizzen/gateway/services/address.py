"""Addresses of services: what they say, what their names stand for, and how one is reached. Nothing here blocks."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Callable
from typing import NamedTuple, TypeVar
from urllib.parse import urlsplit

CONNECT_SECONDS = 5.0
"""For each of the addresses that a name stands for."""
KEPT_SECONDS = 5.0
"""For how long what a name stands for is not asked again."""

_PORTS = {"http": 80, "https": 443}
_Spoken = TypeVar("_Spoken", bound=asyncio.Protocol)


class Host(NamedTuple):
    name: str
    """Of a host, or an IP address without brackets."""
    port: int
    tls: bool

    @property
    def header(self) -> str:
        """As the header Host has it."""
        name = f"[{self.name.partition('%')[0]}]" if ":" in self.name else self.name
        return name if self.port == _PORTS["https" if self.tls else "http"] else f"{name}:{self.port}"


def host_of(address: str) -> Host:
    """Of `http://host:port`. Who it would have us be (`user@`) is left out. ValueError when it is none."""
    parts = urlsplit(address)
    name, port = parts.hostname, parts.port
    if parts.scheme not in _PORTS or not name or not name.isascii() or not name.isprintable() or " " in name:
        raise ValueError(f"{address!r} is no address: expected http://host:port")
    return Host(name, port or _PORTS[parts.scheme], parts.scheme == "https")


class Reach:
    """Connects to hosts. What it has found out about names and TLS is kept."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], float],
        tls: Callable[[], ssl.SSLContext] = ssl.create_default_context,
    ) -> None:
        """`tls` is called once, in a thread: it reads files."""
        self._loop = loop
        self._clock = clock
        self._new_tls = tls
        self._tls: ssl.SSLContext | None = None
        self._found: dict[str, tuple[float, list[str]]] = {}
        self._looking: dict[str, asyncio.Task[list[str]]] = {}

    async def connect(self, host: Host, protocol: Callable[[], _Spoken]) -> _Spoken:
        """OSError when nobody is there, UnicodeError when there is no such name."""
        context = await self._context() if host.tls else None
        numbers = await self._numbers(host.name)
        for at, number in enumerate(numbers):
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    _, made = await self._loop.create_connection(
                        protocol, number, host.port, ssl=context, server_hostname=host.name if host.tls else None
                    )
            except OSError:
                if at + 1 < len(numbers):
                    continue
                self._found.pop(host.name, None)  # it may stand for others by now
                raise
            if at:  # those before it are asked last from now on
                numbers[:] = numbers[at:] + numbers[:at]
            return made
        raise OSError(f"no address is known of {host.name}")

    async def close(self) -> None:
        """Look nothing up any more."""
        looking = list(self._looking.values())
        for task in looking:
            task.cancel()
        if looking:
            await asyncio.wait(looking)

    async def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            made = await self._loop.run_in_executor(None, self._new_tls)
            made.set_alpn_protocols(["http/1.1"])
            self._tls = made
        return self._tls

    async def _numbers(self, name: str) -> list[str]:
        """The IP addresses of a name, those first that are to be tried first."""
        if _is_number(name):
            return [name]
        until, found = self._found.get(name, (0.0, []))
        if found and self._clock() < until:
            return found
        looking = self._looking.get(name)
        if looking is None:
            looking = self._looking[name] = self._loop.create_task(self._look_up(name))
            looking.add_done_callback(lambda ended: self._ended(name, ended))
        return await asyncio.shield(looking)  # others may wait for the same

    async def _look_up(self, name: str) -> list[str]:
        infos = await self._loop.getaddrinfo(name, None, type=socket.SOCK_STREAM)
        found = list(dict.fromkeys(str(info[4][0]) for info in infos))
        self._found[name] = self._clock() + KEPT_SECONDS, found
        return found

    def _ended(self, name: str, looking: asyncio.Task[list[str]]) -> None:
        self._looking.pop(name, None)
        if not looking.cancelled():
            looking.exception()  # whoever still waits is told; if nobody does, nobody has to be


def _is_number(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
