"""The check of Host and Origin, which rejects requests from foreign web pages.

A page can post to this machine, but it cannot hide that it does. A page that reaches the gateway by its own host name
(DNS rebinding) shows in Host; a page that posts across origins shows in Origin. On loopback both must name this
machine. A gateway that listens elsewhere cannot know its names, so there an Origin must match Host. Pages of origins
that the settings list (`cors`) are always accepted.
"""

from __future__ import annotations

import re

from mizzen.gateway.request.cors import Cors

_MAX_REMEMBERED = 1024
_HOST = re.compile(rb"(localhost|127\.0\.0\.1|\[::1\])(:[0-9]{1,5})?", re.IGNORECASE)
_ORIGIN = re.compile(rb"https?://(localhost|127\.0\.0\.1|\[::1\])(:[0-9]{1,5})?", re.IGNORECASE)


class OriginCheck:
    """Remembers accepted values, because clients send the same few values again and again."""

    __slots__ = ("_cors", "_hosts", "_loopback", "_origins", "reason")

    def __init__(self, loopback: bool, cors: Cors) -> None:
        self._loopback = loopback
        self._cors = cors
        self._hosts: set[bytes] = set()
        self._origins: set[bytes] = set()
        self.reason = (
            "Host and Origin must be loopback: only this machine, and pages that cors_origins lists, may send requests"
            if loopback
            else "exactly one Host is required, and pages of other origins must be listed in cors_origins"
        )

    def accepts(self, hosts: list[bytes], origins: list[bytes]) -> bool:
        """Whether to accept a request, by the values of all its Host and Origin headers."""
        if len(hosts) != 1:
            return False
        if origins and self._cors.lists(origins):
            origins = []
        if self._loopback:
            return self._is_local_host(hosts[0]) and (not origins or all(map(self._is_local_origin, origins)))
        host = hosts[0].lower()
        return bool(host) and all(origin.lower() in (b"http://" + host, b"https://" + host) for origin in origins)

    def _is_local_host(self, value: bytes) -> bool:
        return value in self._hosts or _matches(self._hosts, _HOST, value)

    def _is_local_origin(self, value: bytes) -> bool:
        return value in self._origins or _matches(self._origins, _ORIGIN, value)


def _matches(good: set[bytes], pattern: re.Pattern[bytes], value: bytes) -> bool:
    if pattern.fullmatch(value) is None:
        return False
    if len(good) < _MAX_REMEMBERED:
        good.add(value)
    return True
