"""Which addresses a plane may be sent to by people who could not reach them themselves.

A plane stands inside a network. Who may name a URL for it to fetch must not thereby reach what only the plane can:
this machine, its neighbours, the metadata service of a cloud.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from mizzen.errors import Fault, Invalid

_NAT64 = IPv6Network("64:ff9b::/96")
_GLOBAL_V6 = IPv6Network("2000::/3")
"""All that has been given out to the world. What lies elsewhere, now or later, is somebody's own."""
_SPECIAL_V6 = tuple(map(IPv6Network, ("2001::/23", "2001:db8::/32", "3fff::/20")))
_SPECIAL_V4 = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
            "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24",
            "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
        ),
    )
)  # fmt: skip
"""As the registry of special-purpose addresses has them. Python's own list differs from release to release."""


async def resolve_host(host: str, port: int, *, private: bool, field: str) -> tuple[str, ...]:
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


def is_address(host: str) -> bool:
    """Is it an address itself, and no name that may lead elsewhere the next time?"""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_public(address: str) -> bool:
    """Does it belong to the world at large, also when it is an IPv4 address in the dress of an IPv6 one?"""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(ip, IPv4Address):
        return not any(ip in network for network in _SPECIAL_V4)
    within = _within(ip)
    if within:
        return all(is_public(str(inner)) for inner in within)
    return ip in _GLOBAL_V6 and not any(ip in network for network in _SPECIAL_V6)


def _within(ip: IPv6Address) -> tuple[IPv4Address, ...]:
    """The IPv4 addresses that packets to this one are led to."""
    if ip in _NAT64:
        return (IPv4Address(int(ip) & 0xFFFFFFFF),)
    found = ip.ipv4_mapped or ip.sixtofour
    return (found,) if found else ip.teredo or ()
