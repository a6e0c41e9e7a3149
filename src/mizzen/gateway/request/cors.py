"""Which web pages may call the inference API: those whose origin the settings list, and no others.

A browser asks first (a preflight, which needs no token: browsers send none with it), and hands an answer to its page
only when the answer says that it may. Nothing here depends on cookies, so none are ever allowed for: a page sends a
token of its own. What a head's Origin comes to is found once per head, as all of it is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from mizzen.gateway.inference.protocols import TIMEOUT
from mizzen.gateway.request import request_ids
from mizzen.gateway.request.responses import Answer, Header
from mizzen.protocol import binary

ANY: Final = "*"
_WISH, _NETWORK = b"access-control-request-method", b"access-control-request-private-network"
_SENT: Final = b", ".join(
    sorted((b"authorization", b"content-type", b"content-encoding", TIMEOUT, binary.HEADER, *request_ids.NAMES))
)
"""What a page may send beside what every page may; `*` would not mean Authorization."""
_SHOWN: Final = (
    b"mizzen-request-id, inference-header-content-length, retry-after, ratelimit-limit, ratelimit-remaining,"
    b" ratelimit-reset, www-authenticate"
)
"""What a page may see of an answer beside what every page may."""
_ASKED_AGAIN: Final = b"600"
"""Seconds after which a browser asks first once more."""


class Cors:
    __slots__ = ("_any", "_listed")

    def __init__(self, origins: Collection[str] = ()) -> None:
        """As the settings have them: `https://app.example`, or `*` for all."""
        self._any = ANY in origins
        self._listed = frozenset(origin.lower().encode() for origin in origins)

    def lists(self, origins: Sequence[bytes]) -> bool:
        """The values of all Origin headers of a request: a browser sends one."""
        return len(origins) == 1 and (self._any or origins[0].lower() in self._listed)

    def headers(self, origins: Sequence[bytes]) -> tuple[Header, ...]:
        """For the answer; none for who is not listed."""
        if not self.lists(origins):
            return ()
        shown = (b"access-control-expose-headers", _SHOWN)
        if self._any:
            return (b"access-control-allow-origin", b"*"), shown
        return (b"access-control-allow-origin", origins[0]), (b"vary", b"origin"), shown

    def lines(self, origins: Sequence[bytes]) -> bytes:
        return b"".join(b"%b: %b\r\n" % header for header in self.headers(origins))

    def preflight(self, headers: Iterable[Header]) -> Answer | None:
        """The answer to a browser that asks first; None when this is something else, or nobody who is listed."""
        given = dict(headers)
        origins = [value for name, value in headers if name == b"origin"]
        if _WISH not in given or not self.lists(origins):
            return None
        network = ((b"access-control-allow-private-network", b"true"),) if given.get(_NETWORK) == b"true" else ()
        return Answer(
            204,
            b"",
            (
                (b"access-control-allow-methods", b"GET, HEAD, POST"),
                (b"access-control-allow-headers", _SENT),
                (b"access-control-max-age", _ASKED_AGAIN),
                *network,
            ),
        )
