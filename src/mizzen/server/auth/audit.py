"""The audit: every request that may change something, and every refusal, is recorded before its response is sent.

If an entry cannot be written, the caller gets 503 instead of the response. An entry names the actor, the action and the
reason. It holds no content of the request: no query, no header, no body.
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
from mizzen.access.refusal_lines import LONGEST, LONGEST_REASON, category_of
from mizzen.access.safe_text import sanitize
from mizzen.errors import BadRequest, MizzenError, Unavailable
from mizzen.kinds.schema.resource import format_time
from mizzen.server.auth.authorization import PolicyDecision, require
from mizzen.server.http.context import context_of
from mizzen.server.http.errors import http_status
from mizzen.server.http.middleware import HttpMiddleware, respond_after
from mizzen.server.http.query import Query
from mizzen.stores.records.protocol import AuditEntry, AuditLog, AuditQuery

logger = logging.getLogger(__name__)

REFUSAL_CODES = (401, 403)
STORE_UNAVAILABLE = 503
PAGE = 100
MAX_PAGE = 1000

BURST = 16
WINDOW_SECONDS = 1.0
MERGE_SECONDS = 0.1
"""After a burst of equal refusals within a second, those of the next tenth are merged into one entry, which they wait
for; then those of two tenths, and so on, twice as long each time."""
MAX_BURSTS = 1024
ANONYMOUS_BURST = 1
MAX_ANONYMOUS_BURSTS = 32
"""The number of different refusals of anonymous callers that are distinguished within a second."""


def routes() -> list[Route]:
    return [Route("/audit", list_all, methods=["GET"])]


async def list_all(request: Request) -> Response:
    """Lists entries, newest first: for admins of the plane; those of one namespace also for its admins."""
    query = Query(request, "actor", "namespace", "kind", "name", "allowed", "since", "until", "limit", "continue")
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
    limit = query.limit(PAGE, MAX_PAGE)
    context = context_of(request)
    after = context.pages.unseal(query.text("continue"))
    if after is not None and not after.isdecimal():
        raise BadRequest("this continue token belongs to another list", hint="start again without it")
    # One more than requested tells whether there is another page.
    found = await context.audit.entries(wanted, limit=limit + 1, before=None if after is None else int(after))
    token = context.pages.seal(str(found[limit - 1].number) if len(found) > limit else None)
    return JSONResponse({"items": [_to_wire(entry) for entry in found[:limit]], "metadata": {"continue": token}})


async def record_now(request: Request, code: int) -> None:
    """Records a request now, with this status code, and not again when its response is sent. Raises Unavailable.

    For a request whose change is made and whose response may take long.
    """
    record: Callable[[int], Awaitable[None]] = request.state.record
    await record(code)


class AuditMiddleware(HttpMiddleware):
    """Runs outside all layers that may refuse a request."""

    def __init__(self, app: ASGIApp, log: AuditLog, now: Callable[[], datetime]) -> None:
        super().__init__(app)
        self.recorder = AuditRecorder(log)
        self.now = now

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        state = scope.setdefault("state", {})
        state["decisions"] = []
        answered = recorded = False

        async def record(code: int) -> None:
            nonlocal recorded
            if not recorded:
                await self._record(scope, code)
                recorded = True

        async def record_answer(message: Message) -> None:
            nonlocal answered
            answered = True
            await record(message["status"])

        state["record"] = record
        try:
            await respond_after(self.app, scope, receive, send, record_answer)
        except BaseException as error:
            # Raised by a middleware, or unexpected; errors of routes were answered further in. Everything is recorded,
            # even a request that was cut short.
            if not answered:
                state["error"] = error
                await asyncio.shield(record(_status_code(error)))
            raise

    async def _record(self, scope: Scope, code: int) -> None:
        try:
            for entry in build_entries(scope, code, self.now()):
                await self.recorder.record(entry)
        except Exception as error:
            logger.exception("cannot write the audit")
            # On a full disk the store cannot be written either: then nothing was changed.
            undone = HTTPStatus.BAD_REQUEST <= code < HTTPStatus.INTERNAL_SERVER_ERROR or code == STORE_UNAVAILABLE
            outcome = "the request was not carried out" if undone else "the requested change may have been made"
            raise Unavailable(
                f"the audit cannot be written, so the response is withheld; {outcome}",
                hint="check for a full disk or missing permissions; the plane's log has the details",
            ) from error


class AuditRecorder:
    """Writes entries; merges many equal refusals at once into a few entries with a count.

    When `record` returns, the entry is in the log, by itself or as part of a count. Callers without a token can cause
    any number of refusals, for names that they make up: so a count of these has no names.
    """

    def __init__(self, log: AuditLog) -> None:
        self._log = log
        self._bursts: OrderedDict[AuditEntry, _RefusalBurst] = OrderedDict()
        self._anonymous_bursts: dict[object, _RefusalBurst] = {}

    async def record(self, entry: AuditEntry) -> None:
        if entry.allowed:
            await self._log.record(entry)
            return
        if entry.actor == ANONYMOUS.name:
            entry, counted, flood = self._anonymous_entry(entry)
        else:
            counted, flood = entry, self._burst_of(entry)
        if flood.take_slot():
            await self._log.record(entry)
        else:
            # Shielded: a caller that disconnects must not cancel the entry of the others.
            await asyncio.shield(flood.join(counted, self._log))

    def _burst_of(self, entry: AuditEntry) -> _RefusalBurst:
        # Ignores the time and the path, which a flood may vary at will.
        key = replace(entry, time=datetime.fromtimestamp(0, UTC), method="", path="")
        flood = self._bursts.setdefault(key, _RefusalBurst(BURST))
        self._bursts.move_to_end(key)
        while len(self._bursts) > MAX_BURSTS:
            self._bursts.popitem(last=False)
        return flood

    def _anonymous_entry(self, entry: AuditEntry) -> tuple[AuditEntry, AuditEntry, _RefusalBurst]:
        """Returns the entry to record on its own, the entry to record with a count, and the burst that decides."""
        reason = category_of(entry.reason)
        counted = replace(entry, namespace="", name="", method="", path="", reason=reason)
        key: object = (entry.source, entry.verb, entry.kind, entry.code, reason)
        if key not in self._anonymous_bursts and len(self._anonymous_bursts) >= MAX_ANONYMOUS_BURSTS:
            active = {known: flood for known, flood in self._anonymous_bursts.items() if not flood.is_over()}
            self._anonymous_bursts = active
        if key not in self._anonymous_bursts and len(self._anonymous_bursts) >= MAX_ANONYMOUS_BURSTS:
            key = entry.code
            reason = f"more than {MAX_ANONYMOUS_BURSTS} different refusals of anonymous callers within a second"
            entry = counted = replace(counted, verb="", kind="Plane", source="", reason=reason)
        return entry, counted, self._anonymous_bursts.setdefault(key, _RefusalBurst(ANONYMOUS_BURST))


class _RefusalBurst:
    def __init__(self, burst: int) -> None:
        self._burst = burst
        self._ends = 0.0
        self._written = 0
        self._delay = MERGE_SECONDS
        self._waiting = 0
        self._next: asyncio.Task[None] | None = None

    def take_slot(self) -> bool:
        """Counts one more entry; True if it may still be recorded on its own in this second."""
        if self.is_over():
            self._ends = asyncio.get_running_loop().time() + WINDOW_SECONDS
            self._written, self._delay = 0, MERGE_SECONDS
        self._written += 1
        return self._next is None and self._written <= self._burst

    def is_over(self) -> bool:
        return self._next is None and asyncio.get_running_loop().time() >= self._ends

    def join(self, entry: AuditEntry, log: AuditLog) -> asyncio.Task[None]:
        self._waiting += 1
        if self._next is None:
            self._next = asyncio.get_running_loop().create_task(self._write(entry, log))
        return self._next

    async def _write(self, entry: AuditEntry, log: AuditLog) -> None:
        await asyncio.sleep(self._delay)
        count, self._waiting, self._next = self._waiting, 0, None
        if count > 1:  # single refusals in sequence are not a flood
            self._delay *= 2
        await log.record(replace(entry, count=count))


def _status_code(error: BaseException) -> int:
    if isinstance(error, MizzenError):
        return http_status(error)
    return 500 if isinstance(error, Exception) else 0


def build_entries(scope: Scope, code: int, time: datetime) -> list[AuditEntry]:
    """Returns the entries of a request whose response has this status code."""
    state = scope["state"]
    decisions: list[PolicyDecision] = state["decisions"]
    refused = [decision for decision in decisions if not decision.verdict.allowed]
    if code in REFUSAL_CODES and not refused:
        return [_entry_without_decision(scope, code, time)]
    changing = [decision for decision in decisions if _verb_of(scope, decision) not in ("read", "predict")]
    if state.get("dry_run"):
        changing = []
    # Often the first decision is about all objects of a kind, and the next about one of them, which says more.
    named = [decision for decision in changing if decision.target.name] or changing[-1:]
    found = [_entry(scope, code, time, decision) for decision in (*refused, *named)]
    # Routes decide again as they learn more about an object, such as its model: the last decision says most.
    return list({replace(entry, reason=""): entry for entry in found}.values())


def _entry(scope: Scope, code: int, time: datetime, decision: PolicyDecision) -> AuditEntry:
    target = decision.target
    return AuditEntry(
        time=time,
        actor=decision.actor.name,
        verb=_verb_of(scope, decision),
        kind=target.kind,
        namespace=sanitize(target.namespace, LONGEST),
        name=sanitize(target.name, LONGEST),
        allowed=decision.verdict.allowed,
        reason=sanitize(decision.verdict.reason, LONGEST_REASON),
        **_request_fields(scope, code),
    )


def _verb_of(scope: Scope, decision: PolicyDecision) -> str:
    """Returns the verb that was performed: a GET of secrets or users needs more than `read`, but it is a read."""
    return "read" if scope["method"] in ("GET", "HEAD") else decision.verb


def _entry_without_decision(scope: Scope, code: int, time: datetime) -> AuditEntry:
    """Returns the entry of a refusal without a policy decision: of credentials, of a foreign origin, by a route."""
    state = scope["state"]
    error = state.get("error")
    reason = error.message if isinstance(error, MizzenError) else "refused by the route"
    if state["decisions"]:
        entry = _entry(scope, code, time, state["decisions"][-1])
        return replace(entry, allowed=False, reason=sanitize(reason, LONGEST_REASON))
    known = state.get("caller")
    return AuditEntry(
        time=time,
        actor=known.actor.name if known else ANONYMOUS.name,
        verb="authenticate",
        kind="Plane",
        namespace="",
        name="",
        allowed=False,
        reason=sanitize(reason, LONGEST_REASON),
        **_request_fields(scope, code),
    )


def _request_fields(scope: Scope, code: int) -> dict[str, Any]:
    client = scope.get("client")
    return {
        "method": sanitize(scope["method"], LONGEST), "path": sanitize(scope["path"], LONGEST), "code": code,
        "source": str(client[0]) if client else "",
    }  # fmt: skip


def _to_wire(entry: AuditEntry) -> dict[str, Any]:
    return {
        "number": entry.number, "time": format_time(entry.time), "actor": entry.actor, "verb": entry.verb,
        "kind": entry.kind, "namespace": entry.namespace, "name": entry.name, "allowed": entry.allowed,
        "reason": entry.reason, "method": entry.method, "path": entry.path, "code": entry.code,
        "source": entry.source, "count": entry.count,
    }  # fmt: skip
