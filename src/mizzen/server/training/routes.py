"""The /model API: job sets. A job set is a TrainingJob, and its id is the name of that object.

POST …/train/{version}       start a job set         GET …/train, …/train/{version}   list ongoing ones, or by `state`
GET …/{job}                  describe it             DELETE …/{job}                   end it; its results stay
POST …/{job}/suspend, …/{job}/resume                 GET …/{job}/logs                 the output of its replicas
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mizzen.access.policy import Actor
from mizzen.errors import AlreadyExists, BadRequest, Conflict, Fault, Invalid
from mizzen.kinds import catalog
from mizzen.kinds.schema.findings import Context, Warn, suggestion
from mizzen.kinds.schema.resource import Meta, Ref, Resource, Status, format_time
from mizzen.kinds.text.versions import normal_version
from mizzen.kinds.training import Termination
from mizzen.reconcile.recorder import EventNote
from mizzen.server.admission import (
    create_guards,
    field_managers,
    idempotency,
    model_family,
    privileged_fields,
    reference_checks,
)
from mizzen.server.admission.decode import Draft
from mizzen.server.auth import audit, authorization, targets
from mizzen.server.flow_control.execution import wait_while_connected
from mizzen.server.http import list_responses, warning_headers
from mizzen.server.http.context import context_of
from mizzen.server.http.query import Query
from mizzen.server.http.request_bodies import read_object
from mizzen.server.http.streaming import log_response
from mizzen.server.models import views
from mizzen.server.training import job_logs, job_lookup

KIND = catalog.BY_NAME["TrainingJob"]
MOST_AT_ONCE = 1000
"""The page size if the caller gives no limit."""

STATES: Mapping[str, Callable[[Resource], bool]] = {
    "ongoing": lambda job: not model_family.has_ended(job),
    "succeeded": lambda job: Status.of(job).is_true("Succeeded"),
    "failed": lambda job: Status.of(job).is_true("Failed"),
    "all": lambda _job: True,
}
"""Values of `state`. Job sets that wait for admission count as ongoing."""


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
    """Each call starts another job set. With an `Idempotency-Key`, a call that is repeated within a day returns the
    first job set, with 200 instead of 201."""
    ref, actor, context = views.authorize(request, "write")
    body = await read_object(request)
    version = views.version_at(request, ref).name.partition(".")[2]
    spec = _build_spec(body, ref, version)
    key = idempotency.key_of(request, actor, f"{ref.namespace}/{ref.name}/train/{version}", spec)
    privileged_fields.require(request, Resource(KIND.name, Meta("", ref.namespace), spec))
    stored, warnings = await _create_named(request, ref, spec, actor, key)
    location = {"Location": views.location_of(f"/model/{ref.name}/train/{version}/{stored.meta.name}", ref.namespace)}
    if warnings is None:
        return JSONResponse(views.render_job(stored), headers={**location, idempotency.REPLAY_HEADER: "true"})
    note = EventNote("TrainingStarted", f"{actor.name} started training version {version} as {stored.meta.name}")
    context.recorder.record_note(await context.store.get(ref), note)
    return warning_headers.attach(JSONResponse(views.render_job(stored), 201, headers=location), warnings)


async def list_all(request: Request) -> Response:
    """By name, one page at a time: of one version, or of all."""
    query = Query(request, "namespace", "state", "limit", "continue", "labelSelector")
    ref, _, context = views.authorize(request, "read", query)
    has_state = _state_filter(query.text("state") or "ongoing")
    version: str | None = None
    if "version" in request.path_params:
        version = job_lookup.version_at(request, ref)
        await context.store.get(create_guards.version_ref(ref, version) if version else ref)
    else:
        await context.store.get(ref)

    def is_selected(job: Resource) -> bool:
        return has_state(job) and version in (None, model_family.version_of(job))

    where = replace(model_family.where_model(ref), labels=query.selector())
    limit, token = query.limit(MOST_AT_ONCE), query.text("continue")
    listing = await context.pages.list_page(context.store, KIND.name, where, is_selected, limit=limit, token=token)
    return await list_responses.list_response(
        listing.items, lambda job: job_lookup.render_summary(context, job), {"continue": listing.next or ""}
    )


async def describe(request: Request) -> Response:
    ref, _, context = views.authorize(request, "read")
    with_log = authorization.is_allowed(request, "read", targets.model(ref, subresource="logs"))
    job = await job_lookup.find_job(request, ref)
    return JSONResponse(await job_lookup.describe(context, job, with_log=with_log))


async def terminate(request: Request) -> Response:
    """202 once the request is recorded; 200 if it has ended, or was ending already. Its logs and checkpoints stay."""
    query = Query(request, "namespace", "wait")
    ref, actor, context = views.authorize(request, "write", query)
    wait = query.flag("wait")
    job = await job_lookup.find_job(request, ref)
    code = 200
    while not model_family.has_ended(job) and not job.status.get("terminated"):
        decided = Termination(actor=actor.name, time=format_time(context.now()))
        new = replace(job, status={**job.status, "terminated": decided.wire()})
        new = field_managers.record_status_decision(job, new, context.now())
        try:
            job = await context.store.update_status(new, actor.name, decision="terminated")
        except Conflict:
            job = await job_lookup.find_job(request, ref)  # the controller wrote it meanwhile
            continue
        context.recorder.record_note(job, EventNote("Terminated", f"{actor.name} ended it"))
        code = 202
    if wait and not model_family.has_ended(job):
        await audit.record_now(request, 202)
        job, code = await wait_while_connected(request, job_lookup.wait_ended(context.store, job)), 200
    return JSONResponse(views.render_job(job), code)


async def suspend(request: Request) -> Response:
    return await _set_suspend(request, to=True)


async def resume(request: Request) -> Response:
    return await _set_suspend(request, to=False)


async def logs(request: Request) -> Response:
    query = Query(request, "namespace", "follow", "tail", "since", "replica")
    ref, _, context = views.authorize(request, "read", query, subresource="logs")
    log_query = job_logs.JobLogQuery.of(query, context.now())
    job = await job_lookup.find_identity(request, ref)
    job_logs.refuse_unknown_replica(job, log_query.replica)
    return log_response(job_logs.stream_lines(context, job, log_query), context.stopping)


async def _set_suspend(request: Request, *, to: bool) -> Response:
    """Changes nothing if it already is in that state. Raises Conflict if it has ended."""
    ref, actor, context = views.authorize(request, "write")
    while True:
        job = await job_lookup.find_job(request, ref)
        model_family.refuse_deleting(job)
        if model_family.has_ended(job) or job.status.get("terminated"):
            state = "has ended" if model_family.has_ended(job) else "is being ended"
            hint = f"POST /model/{ref.name}/train/{request.path_params['version']} starts another job set"
            raise Conflict(f"{job.ref} {state}", hint=hint)
        if job.spec.get("suspend", False) is to:
            return JSONResponse(views.render_job(job))
        new = field_managers.change_spec(job, {**job.spec, "suspend": to}, actor.name, context.now())
        try:
            return JSONResponse(views.render_job(await context.store.update(new, actor.name)))
        except Conflict:
            continue  # another write came first; try again


def _state_filter(text: str) -> Callable[[Resource], bool]:
    if text not in STATES:
        raise BadRequest(f"state={text[:40]!r} is not a valid state", hint=suggestion(text, tuple(STATES), "states"))
    return STATES[text]


def _build_spec(body: Mapping[str, Any], model: Ref, version: str) -> dict[str, Any]:
    """The body with model and version from the path. Raises Invalid if the two disagree."""
    faults = []
    if body.get("modelName") not in (None, model.name):
        faults.append(Fault("modelName", f"must be '{model.name}', as the path says"))
    sent_version = body.get("version")
    if sent_version is not None and _normalize_version(sent_version) != version:
        faults.append(Fault("version", f"must be '{version}', as the path says"))
    if faults:
        raise Invalid.of("the job", tuple(faults))
    return {**body, "modelName": model.name, "version": version}


def _normalize_version(version: Any) -> str | None:
    try:
        return normal_version(version)
    except ValueError:
        return None


async def _create_named(
    request: Request, model: Ref, spec: Mapping[str, Any], actor: Actor, key: idempotency.IdempotencyKey | None
) -> tuple[Resource, tuple[Warn, ...] | None]:
    """Create it under the first free name. Returns it with its warnings, or with None if an earlier call created it."""
    context, version = context_of(request), str(spec["version"])
    guard = create_guards.require_trainable(model, version)
    async with context.store.snapshot() as moment:
        await moment.check(guard)
    for name in idempotency.job_names(model.name, version, key):
        ref = Ref(KIND.name, name, model.namespace)
        earlier = await idempotency.find_earlier(context, ref, key)
        if earlier is not None:
            return earlier, None
        draft = _build_draft(request, ref, spec, key)
        new = field_managers.build_new(draft, KIND, ref.namespace, actor, context.now())
        warnings = (*draft.warnings, *(await reference_checks.examine(context, new)).warnings)
        try:
            return await context.store.create(new, actor.name, guard=guard), views.flatten_warnings(warnings)
        except AlreadyExists:
            earlier = await idempotency.find_earlier(context, ref, key)  # the same call, made concurrently
            if earlier is not None:
                return earlier, None
    raise AssertionError("there is always another name")


def _build_draft(request: Request, ref: Ref, spec: Mapping[str, Any], key: idempotency.IdempotencyKey | None) -> Draft:
    draft = views.decode_object(ref, spec, "the job", Context(capabilities=context_of(request).capabilities))
    draft = privileged_fields.with_trust(request, KIND, draft, ref.namespace)
    return draft if key is None else idempotency.with_key(draft, key)
