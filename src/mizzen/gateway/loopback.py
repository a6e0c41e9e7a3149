"""Who may speak to a server on loopback: no web page. A page can post to 127.0.0.1, but it cannot hide that it does.

A page that reaches us by its own host name (DNS rebinding) shows in Host; one that posts across origins, in Origin.
"""

from __future__ import annotations

import re

_REMEMBERED = 1024
_HOST = re.compile(rb"(localhost|127\.0\.0\.1|\[::1\])(:[0-9]{1,5})?", re.IGNORECASE)
_ORIGIN = re.compile(rb"https?://(localhost|127\.0\.0\.1|\[::1\])(:[0-9]{1,5})?", re.IGNORECASE)


class Verdicts:
    """Remembers what it has judged: clients send the same few values for ever."""

    __slots__ = ("_hosts", "_origins")

    def __init__(self) -> None:
        self._hosts: set[bytes] = set()
        self._origins: set[bytes] = set()

    def host(self, value: bytes) -> bool:
        return value in self._hosts or _judge(self._hosts, _HOST, value)

    def origin(self, value: bytes) -> bool:
        return value in self._origins or _judge(self._origins, _ORIGIN, value)


def _judge(good: set[bytes], pattern: re.Pattern[bytes], value: bytes) -> bool:
    if pattern.fullmatch(value) is None:
        return False
    if len(good) < _REMEMBERED:
        good.add(value)
    return True
