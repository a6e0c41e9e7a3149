"""The /model API: job sets. A job set is a TrainingJob, and its id is that object's name.

POST …/train/{version}       one more job set        GET …/train, …/train/{version}   those that go on, or `state`
GET …/{job}                  all that is known       DELETE …/{job}                   end it; what it made stays
POST …/{job}/suspend, …/{job}/resume                 GET …/{job}/logs                 what its replicas print
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from mizzen.access.policy import Actor
from mizzen.errors import AlreadyExists, BadRequest, Conflict, Fault, Invalid
from mizzen.kinds import catalog
from mizzen.kinds.schema.findings import Context, Warn, suggestion
from mizzen.kinds.schema.resource import ACTOR_ANNOTATION, Meta, Ref, Resource, Status, format_time
from mizzen.kinds.text.versions import normal_version
from mizzen.kinds.training import Terminated
from mizzen.reconcile.recorder import Note
from mizzen.server.admission import (
    create_guards,
    decode,
    field_managers,
    idempotency,
    model_family,
    privileged_fields,
    reference_checks,
)
from mizzen.server.admission.decode import Draft
from mizzen.server.auth import audit, authorization, targets
from mizzen.server.http import list_responses, warning_headers
from mizzen.server.http.context import plane_of
from mizzen.server.http.query import Query
from mizzen.server.http.request_bodies import read_object
from mizzen.server.http.streaming import until_stopped, while_wanted
from mizzen.server.models import views
from mizzen.server.training import job_logs, job_lookup

KIND = catalog.BY_NAME["TrainingJob"]
MOST_AT_ONCE = 1000
"""A page, when the caller names no limit of their own."""

STATES: Mapping[str, Callable[[Resource], bool]] = {
    "ongoing": lambda job: not model_family.ended(job),
    "succeeded": lambda job: Status.of(job).is_true("Succeeded"),
    "failed": lambda job: Status.of(job).is_true("Failed"),
    "all": lambda _job: True,
}
"""What `state` may ask for. Those that wait for their turn go on, too."""


def routes() -> list[Route]:
    version, one = "/model/{model}/train/{version}", "/model/{model}/train/{version}/{job}"
    return [
        Route("/model/{model}/train", list_all, methods=["GET"]),
        Route(version, create, methods=["POST"]),
        Route(version, list_all, methods=["GET"]),
        Route(one, describe, methods=["GET"]),
        Route(one, terminate, methods=["DELETE"]),
        Route(f"{one}/suspend", suspend, methods=["POST"]),
        Route(f"{one}/resume", resume, methods=["POST"]),
        Route(f"{one}/logs", logs, methods=["GET"]),
    ]


async def create(request: Request) -> Response:
    """Each call makes one more job set; but with an `Idempotency-Key`, a call that is repeated within a day is
    answered with the job set of the first, 200 and not 201."""
    ref = views.model_at(request, Query(request, "namespace"))
    actor = authorization.require(request, "write", targets.model(ref))
    body = await read_object(request)
    version = views.version_at(request, ref).name.partition(".")[2]
    spec = _spec(body, ref, version)
    key = idempotency.asked(request, actor, f"{ref.namespace}/{ref.name}/train/{version}", spec)
    privileged_fields.require(request, Resource(KIND.name, Meta("", ref.namespace), spec))
    plane = plane_of(request)
    stored, odd = await _create_named(request, ref, spec, actor, key)
    location = {"Location": views.located(f"/model/{ref.name}/train/{version}/{stored.meta.name}", ref.namespace)}
    if odd is None:
        return JSONResponse(views.job(stored), headers={**location, idempotency.REPLAYED: "true"})
    plane.recorder.noted(
        await plane.store.get(ref),
        Note("TrainingStarted", f"{actor.name} trains version {version} as {stored.meta.name}"),
    )
    return warning_headers.attach(JSONResponse(views.job(stored), 201, headers=location), odd)


async def list_all(request: Request) -> Response:
    """By name, a page at a time: of one version, or of all."""
    query = Query(request, "namespace", "state", "limit", "continue", "labelSelector")
    ref = views.model_at(request, query)
    authorization.require(request, "read", targets.model(ref))
    plane, asked = plane_of(request), _state(query.text("state") or "ongoing")
    version: str | None = None
    if "version" in request.path_params:
        version = job_lookup.version_at(request, ref)
        await plane.store.get(create_guards.version_ref(ref, version) if version else ref)
    else:
        await plane.store.get(ref)
    where = replace(model_family.of_model(ref), labels=query.selector())
    listing = await plane.pages.listing(
        plane.store,
        KIND.name,
        where,
        lambda job: asked(job) and version in (None, model_family.version_of(job)),
        limit=query.limit(MOST_AT_ONCE),
        token=query.text("continue"),
    )
    return await list_responses.listed(
        listing.items, lambda job: job_lookup.listed(plane, job), {"continue": listing.next or ""}
    )


async def describe(request: Request) -> Response:
    ref = views.model_at(request, Query(request, "namespace"))
    authorization.require(request, "read", targets.model(ref))
    heard = authorization.may(request, "read", targets.model(ref, subresource="logs"))
    return JSONResponse(await job_lookup.described(plane_of(request), await job_lookup.at(request, ref), heard=heard))


async def terminate(request: Request) -> Response:
    """202 once that is decided; 200 when it has ended, or was to end already. Its logs and checkpoints stay."""
    query = Query(request, "namespace", "wait")
    ref = views.model_at(request, query)
    actor = authorization.require(request, "write", targets.model(ref))
    plane, wait = plane_of(request), query.flag("wait")
    job = await job_lookup.at(request, ref)
    code = 200
    while not model_family.ended(job) and not job.status.get("terminated"):
        decided = Terminated(actor=actor.name, time=format_time(plane.now()))
        new = replace(job, status={**job.status, "terminated": decided.wire()})
        try:
            job = await plane.store.update_status(
                field_managers.decided(job, new, plane.now()), actor.name, decision="terminated"
            )
        except Conflict:
            job = await job_lookup.at(request, ref)  # its controller wrote meanwhile
            continue
        plane.recorder.noted(job, Note("Terminated", f"{actor.name} ended it"))
        code = 202
    if wait and not model_family.ended(job):
        await audit.record_now(request, 202)
        job, code = await while_wanted(request, job_lookup.until_ended(plane.store, job)), 200
    return JSONResponse(views.job(job), code)


async def suspend(request: Request) -> Response:
    return await _suspended(request, to=True)


async def resume(request: Request) -> Response:
    return await _suspended(request, to=False)


async def logs(request: Request) -> Response:
    query = Query(request, "namespace", "follow", "tail", "since", "replica")
    ref = views.model_at(request, query)
    authorization.require(request, "read", targets.model(ref, subresource="logs"))
    plane = plane_of(request)
    wish = job_logs.Wish.of(query, plane.now())
    known = await job_lookup.known_at(request, ref)
    job_logs.refuse_unknown_replica(known, wish.replica)
    told = until_stopped(job_logs.lines(plane, known, wish), plane.stopping)
    return StreamingResponse(told, media_type="text/plain; charset=utf-8")


async def _suspended(request: Request, *, to: bool) -> Response:
    """Nothing changes when it is so already. Conflict for one that ended."""
    ref = views.model_at(request, Query(request, "namespace"))
    actor = authorization.require(request, "write", targets.model(ref))
    plane = plane_of(request)
    while True:
        job = await job_lookup.at(request, ref)
        model_family.refuse_deleting(job)
        if model_family.ended(job) or job.status.get("terminated"):
            hint = f"POST /model/{ref.name}/train/{request.path_params['version']} starts another one"
            raise Conflict(
                f"{job.ref} has ended" if model_family.ended(job) else f"{job.ref} is being ended", hint=hint
            )
        if job.spec.get("suspend", False) is to:
            return JSONResponse(views.job(job))
        meta = replace(job.meta, annotations={**job.meta.annotations, ACTOR_ANNOTATION: actor.name})
        new = field_managers.by_plane(job, replace(job, meta=meta, spec={**job.spec, "suspend": to}), plane.now())
        try:
            return JSONResponse(views.job(await plane.store.update(new, actor.name)))
        except Conflict:
            continue  # somebody wrote meanwhile; look again


def _state(text: str) -> Callable[[Resource], bool]:
    if text not in STATES:
        raise BadRequest(f"state={text[:40]!r}: no such state", hint=suggestion(text, tuple(STATES), "states"))
    return STATES[text]


def _spec(body: Mapping[str, Any], model: Ref, version: str) -> dict[str, Any]:
    """The body, which must not contradict the path, with what the path says."""
    faults = []
    if body.get("modelName") not in (None, model.name):
        faults.append(Fault("modelName", f"must be '{model.name}', as the path says"))
    said = body.get("version")
    if said is not None and _normal(said) != version:
        faults.append(Fault("version", f"must be '{version}', as the path says"))
    if faults:
        raise Invalid.of("the job", tuple(faults))
    return {**body, "modelName": model.name, "version": version}


def _normal(version: Any) -> str | None:
    try:
        return normal_version(version)
    except ValueError:
        return None


async def _create_named(
    request: Request, model: Ref, spec: Mapping[str, Any], actor: Actor, key: idempotency.Key | None
) -> tuple[Resource, tuple[Warn, ...] | None]:
    """Under the first name that is free; with what is odd about it, or None when it is the one of an earlier call."""
    plane, version = plane_of(request), str(spec["version"])
    guard = create_guards.may_be_trained(model, version)
    async with plane.store.snapshot() as moment:
        await moment.check(guard)
    for name in idempotency.names(model.name, version, key):
        ref = Ref(KIND.name, name, model.namespace)
        earlier = await idempotency.earlier(plane, ref, key)
        if earlier is not None:
            return earlier, None
        draft = _draft(request, ref, spec, key)
        resource = field_managers.by_plane(None, decode.created(KIND, draft, ref.namespace, actor), plane.now())
        odd = (await reference_checks.examine(plane, resource)).warnings
        try:
            return await plane.store.create(resource, actor.name, guard=guard), _flat((*draft.warnings, *odd))
        except AlreadyExists:
            earlier = await idempotency.earlier(plane, ref, key)  # the same call, at the same time
            if earlier is not None:
                return earlier, None
    raise AssertionError("there is always one more name")


def _draft(request: Request, ref: Ref, spec: Mapping[str, Any], key: idempotency.Key | None) -> Draft:
    sent = views.manifest(KIND.name, ref, spec)
    known = Context(capabilities=plane_of(request).capabilities)
    try:
        draft = decode.decode(KIND, sent, namespace=ref.namespace, known=known)
    except Invalid as error:
        raise views.flat("the job", error) from error
    draft = privileged_fields.marked(request, KIND, draft, ref.namespace)
    return draft if key is None else idempotency.marked(draft, key)


def _flat(found: tuple[Warn, ...]) -> tuple[Warn, ...]:
    return tuple(Warn(warn.path.removeprefix("spec."), warn.message) for warn in found)
