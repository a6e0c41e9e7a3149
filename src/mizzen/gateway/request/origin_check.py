"""Where a request may come from: from no web page of somebody else.

A page can post to this machine, but it cannot hide that it does. One that reaches us by its own host name (DNS
rebinding) shows in Host; one that posts across origins, in Origin. On loopback both must be this machine's. A gateway
that listens elsewhere cannot know its names; there an Origin must be the one that Host says. Pages of origins that the
settings list (`cors`) may ask wherever it listens.
"""

from __future__ import annotations

import re

from mizzen.gateway.request.cors import Cors

_REMEMBERED = 1024
_HOST = re.compile(rb"(localhost|127\.0\.0\.1|\[::1\])(:[0-9]{1,5})?", re.IGNORECASE)
_ORIGIN = re.compile(rb"https?://(localhost|127\.0\.0\.1|\[::1\])(:[0-9]{1,5})?", re.IGNORECASE)


class Verdicts:
    """Remembers what it has judged: clients send the same few values for ever."""

    __slots__ = ("_cors", "_hosts", "_loopback", "_origins", "reason")

    def __init__(self, loopback: bool, cors: Cors) -> None:
        self._loopback = loopback
        self._cors = cors
        self._hosts: set[bytes] = set()
        self._origins: set[bytes] = set()
        self.reason = (
            "Host and Origin must be loopback: only this machine may ask, and pages that cors_origins lists"
            if loopback
            else "there must be one Host, and pages of another origin may not ask, unless cors_origins lists it"
        )

    def good(self, hosts: list[bytes], origins: list[bytes]) -> bool:
        """The values of all headers of these names."""
        if len(hosts) != 1:
            return False
        if origins and self._cors.lists(origins):
            origins = []
        if self._loopback:
            return self._host(hosts[0]) and (not origins or all(map(self._origin, origins)))
        host = hosts[0].lower()
        return bool(host) and all(origin.lower() in (b"http://" + host, b"https://" + host) for origin in origins)

    def _host(self, value: bytes) -> bool:
        return value in self._hosts or _judge(self._hosts, _HOST, value)

    def _origin(self, value: bytes) -> bool:
        return value in self._origins or _judge(self._origins, _ORIGIN, value)


def _judge(good: set[bytes], pattern: re.Pattern[bytes], value: bytes) -> bool:
    if pattern.fullmatch(value) is None:
        return False
    if len(good) < _REMEMBERED:
        good.add(value)
    return True
