"""Browsers at a monitor: they hold no token, but a cookie that leads to somebody who does.

It is good for one monitor and for nothing else of this API, for some hours, and as long as the token that it was given
for holds. What is in the cookie is random and means nothing elsewhere; what it stands for is kept in memory only.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime

from starlette.datastructures import Headers
from starlette.types import Scope

from mizzen.kinds.schema.resource import DEFAULT_NAMESPACE, Ref
from mizzen.server.auth.authentication import Known

COOKIE = "mizzen-monitor"
SECONDS = 12 * 3600
TICKET_SECONDS = 60
MOST_OF_ONE = 50
"""Visits, and tickets, of one person: one more ends their oldest."""

_BELOW = re.compile(r"(?:/ns/([^/]+))?/model/([^/]+)/monitor/(tool(?:/.*)?|page|scalars|logout)", re.DOTALL)
"""Where a cookie counts. It makes no tickets, and starts and ends nothing."""


@dataclass(frozen=True, slots=True)
class Visit:
    model: Ref
    known: Known
    until: float


class Visits:
    def __init__(
        self, now: Callable[[], datetime], new_id: Callable[[], str] = lambda: secrets.token_urlsafe(32)
    ) -> None:
        self._now = now
        self._new_id = new_id
        self._visits: dict[str, Visit] = {}
        self._tickets: dict[str, Visit] = {}

    def begin(self, model: Ref, known: Known) -> str:
        """What to put into the cookie."""
        return self._add(self._visits, Visit(model, known, self._now().timestamp() + SECONDS))

    def end(self, scope: Scope) -> None:
        for value in _cookies(Headers(scope=scope)):
            self._visits.pop(value, None)

    def ticket(self, model: Ref, known: Known) -> str:
        """Good for one visit, if that begins soon."""
        return self._add(self._tickets, Visit(model, known, self._now().timestamp() + TICKET_SECONDS))

    def redeemed(self, ticket: str, model: Ref) -> Known | None:
        """Who the ticket was given to. Whatever comes of it, it is used up."""
        visit = self._tickets.pop(ticket, None)
        return visit.known if visit is not None and self._good(visit, model) else None

    def visitor(self, scope: Scope) -> Known | None:
        """Who a request without a token comes from, by its cookie."""
        match = _BELOW.fullmatch(scope["path"])
        headers = Headers(scope=scope)
        if match is None or not own_page(headers, changing=scope["method"] not in ("GET", "HEAD")):
            return None
        if not match[3].startswith("tool") and b"namespace" in scope["query_string"]:
            return None  # of another model, then: for browsers, paths say the namespace
        model = Ref("Model", match[2], match[1] or DEFAULT_NAMESPACE)
        for value in _cookies(headers):
            visit = self._visits.get(value)
            if visit is not None and self._good(visit, model):
                return visit.known
        return None

    def _good(self, visit: Visit, model: Ref) -> bool:
        return visit.model == model and self._now().timestamp() < visit.until and visit.known.holds()

    def _add(self, among: dict[str, Visit], visit: Visit) -> str:
        now, actor = self._now().timestamp(), visit.known.actor
        for past in [key for key, each in among.items() if each.until <= now]:
            del among[past]
        own = [key for key, each in among.items() if each.known.actor == actor]
        for oldest in own[: max(len(own) + 1 - MOST_OF_ONE, 0)]:
            del among[oldest]
        key = self._new_id()
        among[key] = visit
        return key


def own_page(headers: Headers, *, changing: bool) -> bool:
    """Whether a page of ours sent it, or a person did, as far as browsers tell: pages at other ports of this machine
    are of the same site as ours, so that cookies are sent with what they ask for, too.

    What may change something has to say where it comes from. A foreign Origin never came so far (`origins`).
    """
    site = headers.get("sec-fetch-site")
    if changing:
        return site == "same-origin" or (site is None and "origin" in headers)
    return site in (None, "none", "same-origin")


def _cookies(headers: Headers) -> Iterator[str]:
    """All of that name: another program on this machine may have set one as well."""
    for header in headers.getlist("cookie"):
        for part in header.split(";"):
            name, _, value = part.strip().partition("=")
            if name == COOKIE:
                yield value
