"""Telling systemd how far a service is: a datagram to the socket it names. Elsewhere, nothing is told."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Mapping, MutableMapping
from typing import Final

VARIABLE: Final = "NOTIFY_SOCKET"
OURS_ALONE: Final = frozenset({VARIABLE, "WATCHDOG_USEC", "WATCHDOG_PID"})
"""Variables of who is the service: nobody else may speak for it."""

log = logging.getLogger(__name__)


def expected(environ: Mapping[str, str] = os.environ) -> bool:
    """Does somebody wait to be told that the service is ready?"""
    return bool(environ.get(VARIABLE))


def tell(*lines: str, environ: MutableMapping[str, str] | Mapping[str, str] = os.environ) -> None:
    """`READY=1`, `STATUS=…` and the like. A socket that is gone is no reason to fail: what was done is done."""
    address = environ.get(VARIABLE, "")
    if not address.startswith(("/", "@")):
        return
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as out:
            out.connect("\0" + address[1:] if address.startswith("@") else address)
            out.sendall("\n".join(lines).encode())
    except OSError:
        log.warning("cannot tell %s", address, exc_info=True)
