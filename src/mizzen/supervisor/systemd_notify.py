"""Service state notifications to systemd: a datagram to the socket that it names. Does nothing without systemd."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Mapping, MutableMapping
from typing import Final

VARIABLE: Final = "NOTIFY_SOCKET"
OURS_ALONE: Final = frozenset({VARIABLE, "WATCHDOG_USEC", "WATCHDOG_PID"})
"""Variables for the service process only: no other process may notify on its behalf."""

log = logging.getLogger(__name__)


def is_expected(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether systemd waits for a readiness notification."""
    return bool(environ.get(VARIABLE))


def tell(*lines: str, environ: MutableMapping[str, str] | Mapping[str, str] = os.environ) -> None:
    """Sends `READY=1`, `STATUS=…` and the like. Ignores a missing socket: the work is already done."""
    address = environ.get(VARIABLE, "")
    if not address.startswith(("/", "@")):
        return
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as out:
            out.connect("\0" + address[1:] if address.startswith("@") else address)
            out.sendall("\n".join(lines).encode())
    except OSError:
        log.warning("cannot notify systemd at %s", address, exc_info=True)
