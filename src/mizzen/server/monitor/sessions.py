"""Browser sessions at a monitor: a cookie stands for the token with which its user signed in.

A session is valid for one monitor and no other part of this API, for some hours, and only while its token is valid. The
cookie is a random value; the session itself is kept in memory only.
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
from mizzen.server.auth.authentication import CallerIdentity

COOKIE = "mizzen-monitor"
SECONDS = 12 * 3600
TICKET_SECONDS = 60
MAX_PER_ACTOR = 50
"""Sessions, and tickets, of one actor: another one ends the oldest."""

_COOKIE_PATHS = re.compile(r"(?:/ns/([^/]+))?/model/([^/]+)/monitor/(tool(?:/.*)?|page|scalars|logout)", re.DOTALL)
"""Paths where the cookie is valid. It cannot create tickets, or start or end a monitor."""


@dataclass(frozen=True, slots=True)
class MonitorSession:
    model: Ref
    known: CallerIdentity
    expires: float


class MonitorSessions:
    def __init__(
        self, now: Callable[[], datetime], new_id: Callable[[], str] = lambda: secrets.token_urlsafe(32)
    ) -> None:
        self._now = now
        self._new_id = new_id
        self._sessions: dict[str, MonitorSession] = {}
        self._tickets: dict[str, MonitorSession] = {}

    def begin(self, model: Ref, known: CallerIdentity) -> str:
        """Start a session. Returns the value of its cookie."""
        return self._add(self._sessions, MonitorSession(model, known, self._now().timestamp() + SECONDS))

    def end(self, scope: Scope) -> None:
        for value in _cookies(Headers(scope=scope)):
            self._sessions.pop(value, None)

    def new_ticket(self, model: Ref, known: CallerIdentity) -> str:
        """A ticket for one session, which must start soon."""
        return self._add(self._tickets, MonitorSession(model, known, self._now().timestamp() + TICKET_SECONDS))

    def redeem(self, ticket: str, model: Ref) -> CallerIdentity | None:
        """The identity behind a ticket; None if it is not valid. Uses up the ticket in any case."""
        session = self._tickets.pop(ticket, None)
        return session.known if session is not None and self._is_valid(session, model) else None

    def identify(self, scope: Scope) -> CallerIdentity | None:
        """The identity behind a request without a token, by its cookie."""
        match = _COOKIE_PATHS.fullmatch(scope["path"])
        headers = Headers(scope=scope)
        if match is None or not is_own_page(headers, changing=scope["method"] not in ("GET", "HEAD")):
            return None
        if not match[3].startswith("tool") and b"namespace" in scope["query_string"]:
            return None  # another model, then: browser paths contain the namespace
        model = Ref("Model", match[2], match[1] or DEFAULT_NAMESPACE)
        for value in _cookies(headers):
            session = self._sessions.get(value)
            if session is not None and self._is_valid(session, model):
                return session.known
        return None

    def _is_valid(self, session: MonitorSession, model: Ref) -> bool:
        return session.model == model and self._now().timestamp() < session.expires and session.known.is_valid()

    def _add(self, table: dict[str, MonitorSession], session: MonitorSession) -> str:
        now, actor = self._now().timestamp(), session.known.actor
        for past in [key for key, each in table.items() if each.expires <= now]:
            del table[past]
        others = [key for key, each in table.items() if each.known.actor == actor]
        for oldest in others[: max(len(others) + 1 - MAX_PER_ACTOR, 0)]:
            del table[oldest]
        key = self._new_id()
        table[key] = session
        return key


def is_own_page(headers: Headers, *, changing: bool) -> bool:
    """Whether our own page or the user caused the request, as far as the browser's headers tell.

    Pages at other ports of this machine are same-site with ours, so browsers send our cookies with their requests too.
    A request that may change something must state its origin. Foreign origins are rejected earlier (`origin_check`).
    """
    site = headers.get("sec-fetch-site")
    if changing:
        return site == "same-origin" or (site is None and "origin" in headers)
    return site in (None, "none", "same-origin")


def _cookies(headers: Headers) -> Iterator[str]:
    """All cookies of that name: another program on this machine may have set one too."""
    for header in headers.getlist("cookie"):
        for part in header.split(";"):
            name, _, value = part.strip().partition("=")
            if name == COOKIE:
                yield value
