"""Rate limits for predictions. Admins of the plane set them; every caller may read their own.

`access/limits.py` defines limits, and gateways enforce them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import isfinite
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mizzen.access import limits
from mizzen.access.limits import Limit
from mizzen.errors import Fault, Invalid, NotFound
from mizzen.kinds.schema.findings import Warn, unknown
from mizzen.kinds.schema.resource import format_time
from mizzen.server.auth import targets
from mizzen.server.auth.authorization import require
from mizzen.server.http import warning_headers
from mizzen.server.http.context import ServerContext, context_of
from mizzen.server.http.query import Query
from mizzen.server.http.request_bodies import read_object
from mizzen.stores.records.protocol import StoredLimit

SUBJECT = re.compile(r"\*|oidc:[!-+\--.0-~]{1,256}|(?:group:)?[A-Za-z0-9](?:[-._@+A-Za-z0-9]{0,251}[A-Za-z0-9])?")
MAX_BODY_BYTES = 64 << 10
MAX_PER_SECOND, MAX_COUNT = 1_000_000.0, 1_000_000_000_000
FIELDS = {"perSecond": "per_second", "burst": "burst", "perDay": "per_day", "perMonth": "per_month"}


def routes() -> list[Route]:
    return [
        Route("/limit", list_all, methods=["GET"]),
        Route("/limit/{subject}", describe, methods=["GET"]),
        Route("/limit/{subject}", put, methods=["PUT"]),
        Route("/limit/{subject}", delete, methods=["DELETE"]),
    ]


async def list_all(request: Request) -> Response:
    require(request, "admin", targets.user())
    Query(request)
    context = context_of(request)
    items = [_render(stored, context) for stored in await context.identities.limits()]
    return JSONResponse({"items": items, "metadata": {"continue": ""}})


async def describe(request: Request) -> Response:
    subject = _subject_in_path(request)
    require(request, "read", targets.user(subject))
    Query(request)
    context = context_of(request)
    for stored in await context.identities.limits():
        if stored.limit.subject == subject:
            return JSONResponse(_render(stored, context))
    raise NotFound(f"no limit is set for '{subject[:100]}'", hint="'mizzen limit' lists all limits")


async def put(request: Request) -> Response:
    """Replaces the whole limit: absent fields mean no limit."""
    subject = _subject_in_path(request)
    actor = require(request, "admin", targets.user(subject))
    Query(request)
    body = await read_object(request, MAX_BODY_BYTES)
    faults = [*unknown(body, tuple(FIELDS)), *_faults(subject, body)]
    if faults:
        raise Invalid.of("the limit", tuple(faults))
    context = context_of(request)
    limit = Limit(subject=subject, **{name: body[field] for field, name in FIELDS.items() if body.get(field)})
    stored = StoredLimit(limit, context.now(), actor.name)
    await context.identities.set_limit(stored)
    return warning_headers.attach(
        JSONResponse(_render(stored, context)), await _unknown_user_warnings(context, subject)
    )


async def delete(request: Request) -> Response:
    subject = _subject_in_path(request)
    require(request, "admin", targets.user(subject))
    Query(request)
    await context_of(request).identities.remove_limit(subject)
    return JSONResponse({"name": subject, "deleted": True})


async def _unknown_user_warnings(context: ServerContext, subject: str) -> list[Warn]:
    """A limit for an unknown user is valid, since the user may be created later."""
    known = {principal.name for principal in await context.identities.principals()} | {"admin", "anonymous"}
    if subject in known or ":" in subject or subject == limits.ALL:
        return []
    return [Warn("", f"there is no user '{subject}' yet; 'mizzen user add {subject}' creates one")]


def _faults(subject: str, body: Mapping[str, Any]) -> list[Fault]:
    faults = [] if SUBJECT.fullmatch(subject) else [
        Fault("subject", f"{subject[:100]!r} is not a subject; expected a user's name, group:<name>, '*' or anonymous")
    ]  # fmt: skip
    for field in FIELDS:
        value = body.get(field)
        if value is None:
            continue
        whole = field != "perSecond"
        if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
            faults.append(Fault(field, f"must be a {'whole ' if whole else ''}number"))
        elif not (isfinite(value) and 0 < value <= (MAX_COUNT if whole else MAX_PER_SECOND)):
            faults.append(Fault(field, f"must be above 0 and at most {MAX_COUNT if whole else MAX_PER_SECOND:g}"))
    if body.get("burst") is not None and body.get("perSecond") is None:
        faults.append(Fault("burst", "needs perSecond, the rate at which the burst refills"))
    if not faults and not any(body.get(field) for field in FIELDS):
        faults.append(Fault("", "the limit is empty; give perSecond, perDay or perMonth, or DELETE it"))
    return faults


def _subject_in_path(request: Request) -> str:
    return str(request.path_params["subject"])


def _render(stored: StoredLimit, context: ServerContext) -> dict[str, Any]:
    limit = stored.limit
    return {
        "subject": limit.subject, "perSecond": limit.per_second or None,
        "burst": limit.burst_size if limit.per_second else None,
        "perDay": limit.per_day or None, "perMonth": limit.per_month or None,
        "used": context.quota_used(limit.subject),
        "updated": format_time(stored.updated), "updatedBy": stored.updated_by,
    }  # fmt: skip
