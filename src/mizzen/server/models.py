"""The /model API: models themselves, their current version and their history."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mizzen.access.policy import Actor
from mizzen.errors import Conflict, Fault, Invalid, NotFound
from mizzen.kinds import catalog
from mizzen.kinds.meta import Ref, Resource, format_time
from mizzen.kinds.model import Current, normal_version, version_object_name
from mizzen.server import admission, family, guards, removal, views
from mizzen.server.auth import require
from mizzen.server.bodies import read_object
from mizzen.server.fields import unknown
from mizzen.server.plane import Plane, plane_of
from mizzen.server.query import Query
from mizzen.server.streams import while_wanted
from mizzen.stores.store import Guard, Revision, Store, Where


def routes() -> list[Route]:
    return [
        Route("/model", create, methods=["POST"]),
        Route("/model", list_all, methods=["GET"]),
        Route("/model/{model}", describe, methods=["GET"]),
        Route("/model/{model}", delete, methods=["DELETE"]),
        Route("/model/{model}/current", promote, methods=["POST"]),
        Route("/model/{model}/history", history, methods=["GET"]),
    ]


async def create(request: Request) -> Response:
    namespace = Query(request, "namespace").namespace()
    actor = require(request, "write", views.target(Ref("Model", "", namespace)))
    body = await read_object(request)
    faults = unknown(body, ("name", "framework", "labels", "annotations"))
    spec = {"framework": body["framework"]} if body.get("framework") is not None else {}
    sent = views.manifest(
        "Model", Ref("Model", body.get("name") or "", namespace), spec,
        labels=body.get("labels"), annotations=body.get("annotations"),
    )  # fmt: skip
    kind = catalog.BY_NAME["Model"]
    try:
        draft = admission.decode(kind, sent, namespace=namespace)
    except Invalid as error:
        faults += views.flat("the model", error).faults
    if faults:
        raise Invalid.of("the model", faults)
    new = admission.created(kind, draft, namespace, actor)
    stored = await plane_of(request).store.create(new, actor.name, guard=guards.name_free(new.ref))
    return JSONResponse(views.model(stored), 201, headers={"Location": f"/model/{stored.meta.name}"})


async def list_all(request: Request) -> Response:
    query = Query(request, "namespace", "limit", "continue", "labelSelector")
    namespace = query.namespace()
    require(request, "read", views.target(Ref("Model", "", namespace)))
    listing = await plane_of(request).store.list(
        "Model",
        Where(namespace=namespace, labels=query.labels()),
        limit=query.number("limit", low=1),
        after=query.text("continue") or None,
    )
    items = [views.model(item) for item in listing.items]
    return JSONResponse({"items": items, "metadata": {"continue": listing.next or ""}})


async def describe(request: Request) -> Response:
    ref = views.model_at(request, Query(request, "namespace"))
    require(request, "read", views.target(ref))
    plane = plane_of(request)
    members = await family.load(plane.store, ref)
    last = (await _revisions(plane.store, ref))[-1]
    changed = {"actor": last.actor, "time": format_time(last.time)}
    return JSONResponse(views.described(members, plane.inference_url) | {"lastChanged": changed})


async def delete(request: Request) -> Response:
    query = Query(request, "namespace", "cascade", "wait")
    ref = views.model_at(request, query)
    actor = require(request, "write", views.target(ref))
    store = plane_of(request).store
    cascade, wait = query.flag("cascade"), query.flag("wait")
    left = await removal.remove(store, ref, actor, cascade=cascade)
    if left is not None and wait:
        await while_wanted(request, removal.finish_cascade(store, left))
        left = None
    return JSONResponse(
        {"name": ref.name, "deleted": True} if left is None else views.model(left), 202 if left else 200
    )


async def promote(request: Request) -> Response:
    """Make a version current: the one that answers to the model's name. It must be answering already."""
    ref = views.model_at(request, Query(request, "namespace"))
    actor = require(request, "write", views.target(ref))
    version = _wanted_version(await read_object(request))
    plane, guard = plane_of(request), guards.answers(ref, version)
    while True:
        async with plane.store.snapshot() as moment:
            await moment.check(guard)
            model = await moment.get(ref)
        try:
            return JSONResponse(views.model(await _move_current(plane, model, version, actor, guard)))
        except Conflict:
            continue  # somebody wrote meanwhile; look again


async def history(request: Request) -> Response:
    """What happened to the model, its versions and its servers; also after the model is gone."""
    ref = views.model_at(request, Query(request, "namespace"))
    require(request, "read", views.target(ref))
    revisions = await _revisions(plane_of(request).store, ref)
    return JSONResponse({"items": [_entry(revision) for revision in revisions], "metadata": {"continue": ""}})


def _wanted_version(body: Mapping[str, Any]) -> str:
    faults = unknown(body, ("version",))
    version = body.get("version")
    if version is None or isinstance(version, bool) or not isinstance(version, str | int):
        faults += (Fault("version", "required" if version is None else "must be a number or a name"),)
        raise Invalid.of("the body", faults)
    try:
        normal = normal_version(version)
    except ValueError as error:
        raise Invalid.of("the body", (*faults, Fault("version", str(error)))) from error
    if faults:
        raise Invalid.of("the body", faults)
    return normal


async def _move_current(plane: Plane, model: Resource, version: str, actor: Actor, guard: Guard) -> Resource:
    """Recorded as a decision of this actor. Nothing is written when the version is current already."""
    before = (model.status.get("current") or {}).get("version")
    if before == version:
        return model
    current = Current(version=version, actor=actor.name, time=format_time(plane.now()))
    status = {**model.status, "current": current.wire()}
    if before is not None:
        status["previous"] = before
    new = replace(model, status=status)
    return await plane.store.update_status(new, actor.name, decision="promoted", guard=guard)


async def _revisions(store: Store, model: Ref) -> tuple[Revision, ...]:
    """In the order of time; of one moment, what belongs to a model follows it. NotFound when there never was one."""
    own = await store.history(model)
    if not own:
        raise NotFound(f"{model} does not exist")
    versions = await store.histories("ModelVersion", model.namespace, version_object_name(model.name, ""))
    # The resource API lets people name servers as they like: only the spec tells whose they are.
    servers = _naming(await store.histories("InferenceModel", model.namespace), model)
    return tuple(sorted((*own, *versions, *servers), key=lambda entry: entry.time))


def _naming(revisions: tuple[Revision, ...], model: Ref) -> Iterable[Revision]:
    """All revisions of the objects whose spec names this model. It is fixed, so any of them tells."""
    uids = {
        entry.uid
        for entry in revisions
        if any(spec is not None and spec.get("modelName") == model.name for spec in (entry.before, entry.after))
    }
    return (entry for entry in revisions if entry.uid in uids)


def _entry(revision: Revision) -> dict[str, Any]:
    return {
        "actor": revision.actor, "time": format_time(revision.time), "action": revision.action,
        "before": revision.before, "after": revision.after, "number": revision.number, "object": str(revision.ref),
    }  # fmt: skip
