"""Protection against requests to private addresses (SSRF).

A plane runs inside a network. Users choose URLs that it fetches. They must not reach hosts that only the plane can
reach: this machine, its neighbors, the metadata service of a cloud.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from mizzen.errors import Fault, Invalid

_NAT64 = IPv6Network("64:ff9b::/96")
_GLOBAL_V6 = IPv6Network("2000::/3")
"""Globally allocated ranges. All other addresses, now or later, count as private."""
_SPECIAL_V6 = tuple(map(IPv6Network, ("2001::/23", "2001:db8::/32", "3fff::/20")))
_SPECIAL_V4 = tuple(map(IPv4Network, (
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
    "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
    "224.0.0.0/4", "240.0.0.0/4",
)))  # fmt: skip
"""From the registry of special-purpose addresses. Python's own list differs between releases."""


async def resolve_host(host: str, port: int, *, private: bool, field: str) -> tuple[str, ...]:
    """Resolves a host; connect only to these addresses. Raises Invalid, for `field`, if none is allowed."""
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
    """Whether it is an address, not a name that may resolve differently the next time."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_public(address: str) -> bool:
    """Whether the address is public; also checks IPv4 addresses embedded in IPv6."""
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
    """Returns the embedded IPv4 addresses that packets to this one are routed to."""
    if ip in _NAT64:
        return (IPv4Address(int(ip) & 0xFFFFFFFF),)
    found = ip.ipv4_mapped or ip.sixtofour
    return (found,) if found else ip.teredo or ()
