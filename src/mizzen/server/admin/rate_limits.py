"""How much somebody may predict, for admins of the plane to say; everybody may read their own. `access/limits.py` says
what a limit means, gateways count by it.
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
from mizzen.server.http.context import Plane, plane_of
from mizzen.server.http.query import Query
from mizzen.server.http.request_bodies import read_object
from mizzen.stores.records.protocol import KeptLimit

SUBJECT = re.compile(r"\*|oidc:[!-+\--.0-~]{1,256}|(?:group:)?[A-Za-z0-9](?:[-._@+A-Za-z0-9]{0,251}[A-Za-z0-9])?")
SMALL = 64 << 10
MOST_PER_SECOND, MOST = 1_000_000.0, 1_000_000_000_000
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
    plane = plane_of(request)
    items = [_wire(kept, plane) for kept in await plane.identities.limits()]
    return JSONResponse({"items": items, "metadata": {"continue": ""}})


async def describe(request: Request) -> Response:
    subject = _subject(request)
    require(request, "read", targets.user(subject))
    Query(request)
    plane = plane_of(request)
    for kept in await plane.identities.limits():
        if kept.limit.subject == subject:
            return JSONResponse(_wire(kept, plane))
    raise NotFound(f"no limit is set for '{subject[:100]}'", hint="'mizzen limit' lists those that are")


async def put(request: Request) -> Response:
    """All of it: what is not given is not limited."""
    subject = _subject(request)
    actor = require(request, "admin", targets.user(subject))
    Query(request)
    body = await read_object(request, SMALL)
    faults = [*unknown(body, tuple(FIELDS)), *_faults(subject, body)]
    if faults:
        raise Invalid.of("the limit", tuple(faults))
    plane = plane_of(request)
    limit = Limit(subject=subject, **{name: body[field] for field, name in FIELDS.items() if body.get(field)})
    kept = KeptLimit(limit, plane.now(), actor.name)
    await plane.identities.set_limit(kept)
    return warning_headers.attach(JSONResponse(_wire(kept, plane)), await _strangers(plane, subject))


async def delete(request: Request) -> Response:
    subject = _subject(request)
    require(request, "admin", targets.user(subject))
    Query(request)
    await plane_of(request).identities.remove_limit(subject)
    return JSONResponse({"name": subject, "deleted": True})


async def _strangers(plane: Plane, subject: str) -> list[Warn]:
    """A name that nobody has is no fault: users may come later."""
    known = {principal.name for principal in await plane.identities.principals()} | {"admin", "anonymous"}
    if subject in known or ":" in subject or subject == limits.ALL:
        return []
    return [Warn("", f"there is no user '{subject}' yet; 'mizzen user add {subject}' makes one")]


def _faults(subject: str, body: Mapping[str, Any]) -> list[Fault]:
    faults = [] if SUBJECT.fullmatch(subject) else [
        Fault("subject", f"{subject[:100]!r} is nobody: a user's name, group:<name>, '*' or anonymous")
    ]  # fmt: skip
    for field in FIELDS:
        value = body.get(field)
        if value is None:
            continue
        whole = field != "perSecond"
        if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
            faults.append(Fault(field, f"must be a {'whole ' if whole else ''}number"))
        elif not (isfinite(value) and 0 < value <= (MOST if whole else MOST_PER_SECOND)):
            faults.append(Fault(field, f"must be above 0 and at most {MOST if whole else MOST_PER_SECOND:g}"))
    if body.get("burst") is not None and body.get("perSecond") is None:
        faults.append(Fault("burst", "needs perSecond: how fast there may be others"))
    if not faults and not any(body.get(field) for field in FIELDS):
        faults.append(Fault("", "says nothing: give perSecond, perDay or perMonth; DELETE takes a limit away"))
    return faults


def _subject(request: Request) -> str:
    return str(request.path_params["subject"])


def _wire(kept: KeptLimit, plane: Plane) -> dict[str, Any]:
    limit = kept.limit
    return {
        "subject": limit.subject, "perSecond": limit.per_second or None,
        "burst": limit.at_once if limit.per_second else None,
        "perDay": limit.per_day or None, "perMonth": limit.per_month or None,
        "used": plane.used(limit.subject),
        "updated": format_time(kept.updated), "updatedBy": kept.updated_by,
    }  # fmt: skip
