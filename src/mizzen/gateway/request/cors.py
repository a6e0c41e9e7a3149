"""CORS: only web pages whose origin the settings list may call the inference API.

A browser sends a preflight first, without a token, and passes a response to its page only if the response allows it.
Credentials in cookies are never allowed, because nothing here depends on cookies: a page sends a token of its own. The
headers for an Origin are computed once per distinct head.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from mizzen.gateway.request import request_ids
from mizzen.gateway.request.head import TIMEOUT
from mizzen.gateway.request.responses import Answer, Header
from mizzen.protocol import binary

ANY: Final = "*"
_REQUEST_METHOD, _REQUEST_NETWORK = b"access-control-request-method", b"access-control-request-private-network"
_ALLOWED_HEADERS: Final = b", ".join(
    sorted((b"authorization", b"content-type", b"content-encoding", TIMEOUT, binary.HEADER, *request_ids.NAMES))
)
"""Headers that a page may send in addition to the safelisted ones; `*` would not include Authorization."""
_EXPOSED_HEADERS: Final = (
    b"mizzen-request-id, inference-header-content-length, retry-after, ratelimit-limit, ratelimit-remaining,"
    b" ratelimit-reset, www-authenticate"
)
"""Response headers that a page may read in addition to the safelisted ones."""
_MAX_AGE: Final = b"600"
"""Seconds for which a browser may cache a preflight."""


class Cors:
    __slots__ = ("_any", "_origins")

    def __init__(self, origins: Collection[str] = ()) -> None:
        """`origins` as in the settings: `https://app.example`, or `*` for all."""
        self._any = ANY in origins
        self._origins = frozenset(origin.lower().encode() for origin in origins)

    def lists(self, origins: Sequence[bytes]) -> bool:
        """Whether the settings list this origin. `origins`: the values of all Origin headers; a browser sends one."""
        return len(origins) == 1 and (self._any or origins[0].lower() in self._origins)

    def headers(self, origins: Sequence[bytes]) -> tuple[Header, ...]:
        """The response headers for this origin; none if it is not listed."""
        if not self.lists(origins):
            return ()
        shown = (b"access-control-expose-headers", _EXPOSED_HEADERS)
        if self._any:
            return (b"access-control-allow-origin", b"*"), shown
        return (b"access-control-allow-origin", origins[0]), (b"vary", b"origin"), shown

    def lines(self, origins: Sequence[bytes]) -> bytes:
        return b"".join(b"%b: %b\r\n" % header for header in self.headers(origins))

    def preflight(self, headers: Iterable[Header]) -> Answer | None:
        """The response to a preflight; None if this is not one, or its origin is not listed."""
        given = dict(headers)
        origins = [value for name, value in headers if name == b"origin"]
        if _REQUEST_METHOD not in given or not self.lists(origins):
            return None
        network = (
            ((b"access-control-allow-private-network", b"true"),) if given.get(_REQUEST_NETWORK) == b"true" else ()
        )
        return Answer(
            204,
            b"",
            (
                (b"access-control-allow-methods", b"GET, HEAD, POST"),
                (b"access-control-allow-headers", _ALLOWED_HEADERS),
                (b"access-control-max-age", _MAX_AGE),
                *network,
            ),
        )
