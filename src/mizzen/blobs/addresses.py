"""Which addresses a plane may be sent to by people who could not reach them themselves.

A plane stands inside a network. Who may name a URL for it to fetch must not thereby reach what only the plane can:
this machine, its neighbours, the metadata service of a cloud.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from ipaddress import IPv4Address, IPv6Address

from mizzen.errors import Fault, Invalid

_NAT64 = ipaddress.ip_network("64:ff9b::/96")


async def resolved(host: str, port: int, *, private: bool, field: str) -> tuple[str, ...]:
    """The addresses of a host, to connect to exactly these. Invalid, for `field`, when there is none that may be."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise Invalid.of("the source", (Fault(field, f"the host '{host[:100]}' has no address"),)) from error
    addresses = tuple(dict.fromkeys(str(item[4][0]).partition("%")[0] for item in found))
    allowed = tuple(address for address in addresses if private or is_public(address))
    if not allowed:
        raise Invalid.of(
            "the source",
            (Fault(field, f"'{host[:100]}' is inside the plane's own network; only an admin may fetch from there"),),
        )
    return allowed


def is_public(address: str) -> bool:
    """Does it belong to the world at large, also when it is an IPv4 address in the dress of an IPv6 one?"""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return False
    inner = _within(ip)
    return ip.is_global and not ip.is_multicast if inner is None else is_public(str(inner))


def _within(ip: IPv4Address | IPv6Address) -> IPv4Address | None:
    if isinstance(ip, IPv4Address):
        return None
    if ip in _NAT64:
        return IPv4Address(int(ip) & 0xFFFFFFFF)
    teredo = ip.teredo
    return ip.ipv4_mapped or ip.sixtofour or (teredo[1] if teredo else None)
