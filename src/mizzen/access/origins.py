"""The one rule about Host and Origin, which control API, inference API and gRPC share.

A page of a browser can send requests to this machine, but it cannot hide its origin: scheme, host and port. It may send
requests only to its own origin. `localhost` and `127.0.0.1`, or two ports of one host, are different origins, as they
are to a browser. A page that reaches the plane by a host name of its own (DNS rebinding) shows in Host.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_NAME = r"[a-z0-9._~-]+|\[[0-9a-f:.]+\]"
_HOST: Final = re.compile(rf"({_NAME})(?::([0-9]{{0,5}}))?", re.IGNORECASE | re.ASCII)
_ORIGIN: Final = re.compile(rf"(https?)://({_NAME})(?::([0-9]{{1,5}}))?", re.IGNORECASE | re.ASCII)
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "[::1]"})


def is_loopback(host: str) -> bool:
    """Whether this Host header names this machine, with any port: a client may have reached it through a tunnel."""
    match = _HOST.fullmatch(host)
    return match is not None and match[1].lower() in _LOOPBACK


def is_own(origin: str, host: str, schemes: Collection[str]) -> bool:
    """Whether a page of this Origin and a request to this Host have the same scheme, host and port.

    `schemes`: those that the client may have used. A missing port is the default of the scheme.
    """
    page, asked = _ORIGIN.fullmatch(origin), _HOST.fullmatch(host)
    if page is None or asked is None or page[1].lower() not in schemes:
        return False
    default = _DEFAULT_PORTS[page[1].lower()]
    same_port = int(page[3] or default) == int(asked[2] or default)
    return same_port and page[2].lower() == asked[1].lower()
