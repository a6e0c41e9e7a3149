"""The audit: every request that may change something, and every refusal, is on record before its answer leaves.

What cannot be recorded is not answered: the caller gets 503. An entry says who, what and why, and holds nothing that
was sent: no query, no header, no body.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mizzen.access.policy import ANONYMOUS, Target
from mizzen.access.refusal_lines import LONGEST, LONGEST_REASON, sort_of
from mizzen.access.safe_text import plain
from mizzen.errors import BadRequest, MizzenError, Unavailable
from mizzen.kinds.schema.resource import format_time
from mizzen.server.auth.authorization import Decision, require
from mizzen.server.http.context import plane_of
from mizzen.server.http.errors import error_response, http_status
from mizzen.server.http.query import Query
from mizzen.stores.records.protocol import AuditEntry, AuditLog, AuditQuery

logger = logging.getLogger(__name__)

REFUSED = (401, 403)
STORE_REFUSED = 503
PAGE = 100
MOST_AT_ONCE = 1000

BURST = 16
WINDOW = 1.0
MERGED = 0.1
"""After a burst of equal refusals within a second, those of its next tenth become one entry, which they wait for; then
those of two tenths, and so on, twice as long each time."""
MOST_FLOODS = 1024
STRANGERS_BURST = 1
MOST_STRANGERS = 32
"""Refusals of strangers that are told apart within a second."""


def routes() -> list[Route]:
    return [Route("/audit", list_all, methods=["GET"])]


async def list_all(request: Request) -> Response:
    """Newest first. For admins of the plane; of one namespace also for its admins."""
    query = Query(
        request, "actor", "namespace", "kind", "name", "allowed", "since", "until", "limit", "continue",
    )  # fmt: skip
    namespace = query.namespace(default="")
    require(request, "admin", Target(namespace, "AuditEntry"))
    wanted = AuditQuery(
        actor=query.text("actor") or None,
        namespace=namespace or None,
        kind=query.text("kind") or None,
        name=query.text("name") or None,
        allowed=query.flag("allowed") if query.text("allowed") else None,
        since=query.time("since"),
        until=query.time("until"),
    )
    limit = query.limit(PAGE, MOST_AT_ONCE)
    plane = plane_of(request)
    after = plane.pages.opened(query.text("continue"))
    if after is not None and not after.isdecimal():
        raise BadRequest("this token continues another list", hint="start again, without it")
    # One more than asked for tells whether there is another page.
    found = await plane.audit.entries(wanted, limit=limit + 1, before=None if after is None else int(after))
    token = plane.pages.seal(str(found[limit - 1].number) if len(found) > limit else None)
    return JSONResponse({"items": [_wire(entry) for entry in found[:limit]], "metadata": {"continue": token}})


async def record_now(request: Request, code: int) -> None:
    """For a request whose change is made and whose answer may be long in coming: it is on record from here on, with
    the code that it would have been answered with, and not again when it is answered. Unavailable.
    """
    record: Callable[[int], Awaitable[None]] = request.state.record
    await record(code)


class Audited:
    """Outside of all that may refuse a request."""

    def __init__(self, app: ASGIApp, log: AuditLog, now: Callable[[], datetime]) -> None:
        self.app = app
        self.book = Book(log)
        self.now = now

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        state["decisions"] = []
        answered = recorded = False

        async def record(code: int) -> None:
            nonlocal recorded
            if not recorded:
                await self._record(scope, code)
                recorded = True

        async def audited(message: Message) -> None:
            nonlocal answered
            if message["type"] == "http.response.start":
                answered = True
                try:
                    await record(message["status"])
                except Unavailable as error:
                    # From here nobody could turn it into an answer any more.
                    await error_response(error)(scope, receive, send)
                    raise _Withheld from error
            await send(message)

        state["record"] = record
        try:
            await self.app(scope, receive, audited)
        except _Withheld:
            return
        except BaseException as error:
            # Of a middleware, or unexpected; those of routes were answered further in. Nothing is left out, not even
            # what was cut short.
            if not answered:
                state["error"] = error
                await asyncio.shield(record(_code(error)))
            raise

    async def _record(self, scope: Scope, code: int) -> None:
        try:
            for entry in entries(scope, code, self.now()):
                await self.book.record(entry)
        except Exception as error:
            logger.exception("cannot write the audit")
            # The store itself is not written either when there is no room: then nothing was changed.
            undone = HTTPStatus.BAD_REQUEST <= code < HTTPStatus.INTERNAL_SERVER_ERROR or code == STORE_REFUSED
            outcome = "what was asked for was not done" if undone else "a change that was asked for may have been made"
            raise Unavailable(
                f"the audit cannot be written, so nothing is answered; {outcome}",
                hint="look for a full disk or missing permissions; the plane's log has the details",
            ) from error


class _Withheld(Exception):
    pass


class Book:
    """Writes entries; of many equal refusals at once it makes a few, with a count.

    Whoever recorded an entry may rely on it being in the log, by itself or as one of a count. Anybody may be refused
    without a token, as often as they like and for whatever name they make up: so a count of these has no names.
    """

    def __init__(self, log: AuditLog) -> None:
        self._log = log
        self._floods: OrderedDict[AuditEntry, _Flood] = OrderedDict()
        self._strangers: dict[object, _Flood] = {}

    async def record(self, entry: AuditEntry) -> None:
        if entry.allowed:
            await self._log.record(entry)
            return
        if entry.actor == ANONYMOUS.name:
            entry, counted, flood = self._of_stranger(entry)
        else:
            counted, flood = entry, self._flood(entry)
        if flood.alone():
            await self._log.record(entry)
        else:
            # Shielded: who leaves meanwhile must not take the others' entry along.
            await asyncio.shield(flood.join(counted, self._log))

    def _flood(self, entry: AuditEntry) -> _Flood:
        # Equal but for the time and the path, which a flood may vary at will.
        key = replace(entry, time=datetime.fromtimestamp(0, UTC), method="", path="")
        flood = self._floods.setdefault(key, _Flood(BURST))
        self._floods.move_to_end(key)
        while len(self._floods) > MOST_FLOODS:
            self._floods.popitem(last=False)
        return flood

    def _of_stranger(self, entry: AuditEntry) -> tuple[AuditEntry, AuditEntry, _Flood]:
        """What to record when it stands for itself, what when it stands for others as well, and which flood decides."""
        reason = sort_of(entry.reason)
        counted = replace(entry, namespace="", name="", method="", path="", reason=reason)
        key: object = (entry.source, entry.verb, entry.kind, entry.code, reason)
        if key not in self._strangers and len(self._strangers) >= MOST_STRANGERS:
            self._strangers = {known: flood for known, flood in self._strangers.items() if not flood.over()}
        if key not in self._strangers and len(self._strangers) >= MOST_STRANGERS:
            key, reason = entry.code, f"more than {MOST_STRANGERS} different refusals of strangers within a second"
            entry = counted = replace(counted, verb="", kind="Plane", source="", reason=reason)
        return entry, counted, self._strangers.setdefault(key, _Flood(STRANGERS_BURST))


class _Flood:
    def __init__(self, burst: int) -> None:
        self._burst = burst
        self._ends = 0.0
        self._written = 0
        self._delay = MERGED
        self._waiting = 0
        self._next: asyncio.Task[None] | None = None

    def alone(self) -> bool:
        """Whether there is room for one more entry of its own in this second."""
        if self.over():
            self._ends, self._written, self._delay = asyncio.get_running_loop().time() + WINDOW, 0, MERGED
        self._written += 1
        return self._next is None and self._written <= self._burst

    def over(self) -> bool:
        return self._next is None and asyncio.get_running_loop().time() >= self._ends

    def join(self, entry: AuditEntry, log: AuditLog) -> asyncio.Task[None]:
        self._waiting += 1
        if self._next is None:
            self._next = asyncio.get_running_loop().create_task(self._write(entry, log))
        return self._next

    async def _write(self, entry: AuditEntry, log: AuditLog) -> None:
        await asyncio.sleep(self._delay)
        count, self._waiting, self._next = self._waiting, 0, None
        if count > 1:  # one after the other is no flood
            self._delay *= 2
        await log.record(replace(entry, count=count))


def _code(error: BaseException) -> int:
    if isinstance(error, MizzenError):
        return http_status(error)
    return 500 if isinstance(error, Exception) else 0


def entries(scope: Scope, code: int, time: datetime) -> list[AuditEntry]:
    """What to record of a request that is answered with `code`."""
    state = scope["state"]
    decisions: list[Decision] = state["decisions"]
    refused = [decision for decision in decisions if not decision.verdict.allowed]
    if code in REFUSED and not refused:
        return [_elsewhere(scope, code, time)]
    changing = [decision for decision in decisions if _verb(scope, decision) not in ("read", "predict")]
    if state.get("tried"):
        changing = []
    # Often the first question is about all objects of a kind, and the next about one of them, which says it all.
    named = [decision for decision in changing if decision.target.name] or changing[-1:]
    found = [_entry(scope, code, time, decision) for decision in (*refused, *named)]
    # The same is asked again as more is known of it, such as the model it is of: the last answer says most.
    said = {replace(entry, reason=""): entry for entry in found}
    return list(said.values())


def _entry(scope: Scope, code: int, time: datetime, decision: Decision) -> AuditEntry:
    target = decision.target
    return AuditEntry(
        time=time,
        actor=decision.actor.name,
        verb=_verb(scope, decision),
        kind=target.kind,
        namespace=plain(target.namespace, LONGEST),
        name=plain(target.name, LONGEST),
        allowed=decision.verdict.allowed,
        reason=plain(decision.verdict.reason, LONGEST_REASON),
        **_request(scope, code),
    )


def _verb(scope: Scope, decision: Decision) -> str:
    """What was done: to read secrets or users needs more than the right to read, and is reading all the same."""
    return "read" if scope["method"] in ("GET", "HEAD") else decision.verb


def _elsewhere(scope: Scope, code: int, time: datetime) -> AuditEntry:
    """A refusal that the policy was not asked about: of credentials, of a foreign page, by a rule of the route."""
    state = scope["state"]
    error = state.get("error")
    reason = error.message if isinstance(error, MizzenError) else "refused by the route"
    if state["decisions"]:
        last = state["decisions"][-1]
        entry = _entry(scope, code, time, last)
        return replace(entry, allowed=False, reason=plain(reason, LONGEST_REASON))
    known = state.get("known")
    return AuditEntry(
        time=time,
        actor=known.actor.name if known else ANONYMOUS.name,
        verb="authenticate",
        kind="Plane",
        namespace="",
        name="",
        allowed=False,
        reason=plain(reason, LONGEST_REASON),
        **_request(scope, code),
    )


def _request(scope: Scope, code: int) -> dict[str, Any]:
    client = scope.get("client")
    return {
        "method": plain(scope["method"], LONGEST), "path": plain(scope["path"], LONGEST), "code": code,
        "source": str(client[0]) if client else "",
    }  # fmt: skip


def _wire(entry: AuditEntry) -> dict[str, Any]:
    return {
        "number": entry.number, "time": format_time(entry.time), "actor": entry.actor, "verb": entry.verb,
        "kind": entry.kind, "namespace": entry.namespace, "name": entry.name, "allowed": entry.allowed,
        "reason": entry.reason, "method": entry.method, "path": entry.path, "code": entry.code,
        "source": entry.source, "count": entry.count,
    }  # fmt: skip
