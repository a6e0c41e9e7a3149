"""The /model API: the history of a model and of all objects that belong to it, and the model at a past time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mizzen.errors import NotFound
from mizzen.kinds.schema.resource import Ref, format_time
from mizzen.server.admission.model_family import normalize
from mizzen.server.http import list_responses
from mizzen.server.http.query import Query
from mizzen.server.models import views
from mizzen.stores import name_errors
from mizzen.stores.store import Revision, Store

MOST_AT_ONCE = 1000
"""The page size if the caller gives no limit."""

SPEC_ACTIONS = frozenset({"created", "updated", "deleted"})
"""Revisions of these actions hold specs; revisions of decisions hold statuses."""


def routes() -> list[Route]:
    return [Route("/model/{model}/history", get_history, methods=["GET"])]


async def get_history(request: Request) -> Response:
    """In chronological order, also of a deleted model. With `at`, the model as it was then."""
    query = Query(request, "namespace", "limit", "continue", "at")
    ref, _, context = views.authorize(request, "read", query)
    store = context.store
    at = query.time("at")
    if at is not None:
        return JSONResponse(await _model_at(store, ref, at))
    limit = query.limit(MOST_AT_ONCE)
    after = context.pages.unseal(query.text("continue"))
    revisions, following = await store.family_history(ref, limit=limit, after=after)
    if not revisions and after is None:
        raise name_errors.missing(ref)
    return await list_responses.list_response(revisions, _render_entry, {"continue": context.pages.seal(following)})


@dataclass(slots=True)
class HistoryReplay:
    """Rebuilds a model from its history, one revision after the other."""

    spec: dict[str, Any] | None = None
    """None: the model does not exist."""
    status: dict[str, Any] = field(default_factory=dict)
    versions: list[str] = field(default_factory=list)
    last: Revision | None = None

    def apply(self, revision: Revision) -> None:
        self.last = revision
        if revision.ref.kind == "Model":
            self._apply_model(revision)
        elif revision.ref.kind == "ModelVersion":
            version = normalize(revision.ref.name.partition(".")[2])
            if revision.action == "created" and version not in self.versions:
                self.versions.append(version)
            elif revision.action == "deleted" and version in self.versions:
                self.versions.remove(version)

    def _apply_model(self, revision: Revision) -> None:
        after = None if revision.after is None else dict(revision.after)
        if revision.action not in SPEC_ACTIONS:
            self.status = after or {}
            return
        self.spec = after
        if revision.action != "updated":
            self.status = {}


async def _model_at(store: Store, ref: Ref, at: datetime) -> dict[str, Any]:
    past, first = HistoryReplay(), None
    async for revision in _iter_revisions(store, ref):
        first = first or revision
        if revision.time > at:
            break
        past.apply(revision)
    if past.spec is None or past.last is None:
        hint = f"its history begins at {format_time(first.time)}" if first else "it has no history"
        raise NotFound(f"{ref} did not exist at {format_time(at)}", hint=hint)
    return {
        "name": ref.name,
        "namespace": ref.namespace,
        "at": format_time(at),
        "spec": past.spec,
        "status": {name: past.status[name] for name in ("current", "previous") if name in past.status},
        "versions": past.versions,
        "lastChanged": {"actor": past.last.actor, "time": format_time(past.last.time)},
    }


async def _iter_revisions(store: Store, ref: Ref) -> AsyncIterator[Revision]:
    """All of them, read a page at a time."""
    following: str | None = None
    while True:
        page, following = await store.family_history(ref, limit=MOST_AT_ONCE, after=following)
        for revision in page:
            yield revision
        if following is None:
            return


def _render_entry(revision: Revision) -> dict[str, Any]:
    return {
        "actor": revision.actor, "time": format_time(revision.time), "action": revision.action,
        "before": revision.before, "after": revision.after, "number": revision.number, "object": str(revision.ref),
    }  # fmt: skip
