"""The check of Host and Origin, which rejects requests from foreign web pages by the rule of `access/origins.py`.

On loopback, Host must name this machine. A gateway that listens elsewhere cannot know its names, so there any Host is
accepted. An Origin must always match Host. Pages of origins that the settings list (`cors`) are accepted, too.
"""

from __future__ import annotations

from mizzen.access import origins as rule
from mizzen.gateway.request.cors import Cors

_MAX_REMEMBERED = 1024


class OriginCheck:
    """Remembers accepted values, because clients send the same few values again and again."""

    __slots__ = ("_accepted", "_cors", "_loopback", "_schemes", "reason")

    def __init__(self, loopback: bool, cors: Cors, *, tls: bool = False) -> None:
        self._loopback = loopback
        self._cors = cors
        # Without TLS, a gateway that listens elsewhere may be behind a proxy that has it.
        self._schemes = ("https",) if tls else ("http",) if loopback else ("http", "https")
        self._accepted: set[tuple[bytes, ...]] = set()
        """Host, and Origin if there is one."""
        self.reason = (
            "Host must be loopback and Origin the same: only this machine, and pages that cors_origins lists, may send"
            " requests"
            if loopback
            else "exactly one Host is required, and pages of other origins must be listed in cors_origins"
        )

    def accepts(self, hosts: list[bytes], origins: list[bytes]) -> bool:
        """Whether to accept a request, by the values of all its Host and Origin headers."""
        if len(hosts) != 1:
            return False
        given = (hosts[0], *origins)
        if given in self._accepted:
            return True
        host = hosts[0].decode("latin-1")
        if not (rule.is_loopback(host) if self._loopback else host):
            return False
        is_listed = bool(origins) and self._cors.lists(origins)
        if not is_listed and not all(rule.is_own(one.decode("latin-1"), host, self._schemes) for one in origins):
            return False
        if len(self._accepted) < _MAX_REMEMBERED:
            self._accepted.add(given)
        return True
