"""A check whether a program could listen on a port of this machine."""

from __future__ import annotations

import errno
import socket


def is_free(port: int) -> bool:
    """Could a program listen on this port, on loopback or on all addresses, over IPv4 and IPv6?"""
    return all(_can_bind(family, port) for family in (socket.AF_INET, socket.AF_INET6))


def _can_bind(family: socket.AddressFamily, port: int) -> bool:
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            # As most programs do: leftovers of closed connections (TIME_WAIT) do not count.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("", port))
    except OSError as error:
        return error.errno not in (errno.EADDRINUSE, errno.EACCES)  # other errors: this machine has no such addresses
    return True
