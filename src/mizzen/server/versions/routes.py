"""The /model API: versions. They are immutable, and a number is assigned once, even to concurrent callers.

A response lists numbers in order, then names. If there are more versions than fit one response, pages follow the
order of the store, which is by object name: 10 before 9.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mizzen.access.policy import Actor
from mizzen.blobs.file_store import Entry
from mizzen.blobs.fs.cancellable_thread import in_thread
from mizzen.errors import AlreadyExists, Fault, Invalid, NotFound
from mizzen.kinds import catalog
from mizzen.kinds.schema.findings import Context, Warn
from mizzen.kinds.schema.resource import Meta, Ref, Resource
from mizzen.kinds.text.versions import check_new_version
from mizzen.reconcile.controller import find
from mizzen.server.admission import create_guards, decode, field_managers, model_family, privileged_fields
from mizzen.server.admission.decode import is_same
from mizzen.server.deletion import cascade
from mizzen.server.flow_control.execution import wait_while_connected
from mizzen.server.http import list_responses, multipart, streaming, warning_headers
from mizzen.server.http.context import ServerContext
from mizzen.server.http.query import Query
from mizzen.server.http.request_bodies import read_object
from mizzen.server.models import views
from mizzen.server.versions import framework_detection, ingest, registration, requirements, sources
from mizzen.server.versions.ingest import IngestedFiles
from mizzen.server.versions.sources import Download, GitFiles, VersionOptions
from mizzen.stores.all_pages import each
from mizzen.stores.store import Reads

AUTO = "auto"
MOST_AT_ONCE = 500
"""The page size if the caller gives no limit."""
QUERY_OPTIONS = (*sources.TEXTS, "labels", "requirements", "training")
"""Query parameters that describe the files in the body."""
RUN_FIELDS = ("framework", "entrypoint", "requirements", "python")
"""Fields that decide how the files of a version run."""
OPTIONAL_FIELDS = ("code", "source", "requirements", "python", "image", "parentJob")


def routes() -> list[Route]:
    return [
        Route("/model/{model}/version", add, methods=["POST"]),
        Route("/model/{model}/version", list_all, methods=["GET"]),
        Route("/model/{model}/version/{version}", add, methods=["POST"]),
        Route("/model/{model}/version/{version}", describe, methods=["GET"]),
        Route("/model/{model}/version/{version}", delete, methods=["DELETE"]),
        Route("/model/{model}/version/{version}/trust", trust, methods=["POST"]),
    ]


async def add(request: Request) -> Response:
    """201; or 200 if exactly this version exists already. A caller that may trust code then also trusts its files."""
    query = Query(request, "namespace", *QUERY_OPTIONS)
    ref, actor, context = views.authorize(request, "write", query)
    number = _version_in_path(request)
    model = model_family.require_first_name(await context.store.get(ref), "it has no versions of its own")
    query_options = {name: query.text(name) for name in QUERY_OPTIONS if query.text(name)}
    options, ingested = await _receive_files(request, context, ref, query_options)
    fields = {**options.values, "modelName": ref.name}
    privileged_fields.require(request, Resource(registration.KIND.name, Meta("", ref.namespace), fields))
    await _refuse_foreign_job(context, ref, options)
    framework, entrypoint = await asyncio.to_thread(
        framework_detection.detect, options, ingested.entries, context.blobs.path, model.spec.get("framework"),
        context.default_framework,
    )  # fmt: skip
    options = await asyncio.to_thread(requirements.complete, options, ingested.entries, context.blobs.path)
    trusted = registration.may_trust(request, ref)
    new = UnnumberedVersion(
        ref, ingested, options, framework, entrypoint, actor, trusted, context.capabilities, context.now()
    )
    if number is None:
        stored, code = await registration.add_next(context, ref, new.resource, actor), 201
    else:
        stored, code = await _add_as(context, new, number)
    location = views.location_of(f"/model/{ref.name}/version/{model_family.version_of(stored)}", ref.namespace)
    answer = JSONResponse(_render(stored, model), code, headers={"Location": location})
    return warning_headers.attach(answer, new.warnings(model_family.version_of(stored)))


async def list_all(request: Request) -> Response:
    query = Query(request, "namespace", "limit", "continue", "labelSelector")
    ref, _, context = views.authorize(request, "read", query)
    model = await context.store.get(ref)
    limit, after = query.limit(MOST_AT_ONCE), context.pages.unseal(query.text("continue"))
    where = replace(model_family.where_model(ref), labels=query.selector())
    listing = await context.store.list("ModelVersion", where, limit=limit, after=after)
    found = sorted(listing.items, key=model_family.sort_key)
    return await list_responses.list_response(
        found, lambda item: _render(item, model), {"continue": context.pages.seal(listing.next)}
    )


async def describe(request: Request) -> Response:
    """With the changes since the previous version (code, data, both or none), and the jobs that trained it."""
    ref, _, context = views.authorize(request, "read")
    version = views.version_at(request, ref)
    async with context.store.snapshot() as moment:
        found, model = await moment.get(version), await moment.get(ref)
        before, number = await _previous_version(moment, ref, found), model_family.version_of(found)
        jobs = each(moment, "TrainingJob", model_family.where_model(ref))
        trained = [job.meta.name async for job in jobs if model_family.version_of(job) == number]
    list_saved = context.checkpoints.of_version
    saved = await asyncio.to_thread(list_saved, ref.namespace, ref.name, number, found.meta.uid)
    newest = saved[0].id if saved else None
    lineage = {"jobs": trained, "checkpoints": len(saved), "newestCheckpoint": newest}
    return JSONResponse({**_render(found, model), "changed": _describe_changes(found, before), **lineage})


async def delete(request: Request) -> Response:
    ref, actor, context = views.authorize(request, "write")
    version = views.version_at(request, ref)
    left = await cascade.remove(context, version, actor)
    if left is None:
        return JSONResponse({"name": version.name, "deleted": True})
    return JSONResponse(_render(left, await context.store.get(ref)), 202)


async def trust(request: Request) -> Response:
    """Trust a version that another user created: from now on its code and pickles run when it is loaded."""
    ref, actor, context = views.authorize(request, "admin")
    model = await context.store.get(ref)
    return JSONResponse(_render(await registration.trust(context, views.version_at(request, ref), actor), model))


@dataclass(frozen=True, slots=True)
class UnnumberedVersion:
    """A new version that still lacks its number."""

    model: Ref
    ingested: IngestedFiles
    options: VersionOptions
    framework: str
    entrypoint: str | None
    actor: Actor
    trusted: bool
    capabilities: frozenset[str]
    now: datetime

    def resource(self, version: str) -> Resource:
        new = registration.build_version(self._draft(version), self.model.namespace, self.actor, trusted=self.trusted)
        return field_managers.record_plane_update(None, new, self.now)

    def warnings(self, version: str) -> tuple[Warn, ...]:
        return views.flatten_warnings(self._draft(version).warnings)

    def _draft(self, version: str) -> decode.Draft:
        ref = create_guards.version_ref(self.model, version)
        metadata = {name: self.options.values.get(name) for name in ("labels", "annotations")}
        known = Context(capabilities=self.capabilities)
        return views.decode_object(ref, self._spec(version), "the version", known, metadata=metadata)

    def _spec(self, version: str) -> dict[str, Any]:
        entries = self.ingested.entries
        digest = ingest.code_digest(entries)
        code: dict[str, Any] | None = None if digest is None else {"digest": digest}
        if self.ingested.git is not None:
            code = {"git": {**self.ingested.git, **({} if digest is None else {"digest": digest})}}
        options = self.options.values
        spec = {
            "modelName": self.model.name, "version": version, "framework": self.framework,
            "artifacts": [_render_artifact(entry) for entry in entries] or None, "entrypoint": self.entrypoint,
            "code": code, "source": self.ingested.source,
            **{name: options.get(name) for name in ("requirements", "python", "image", "parentJob")},
        }  # fmt: skip
        return {name: value for name, value in spec.items() if value is not None}


async def _receive_files(
    request: Request, context: ServerContext, model: Ref, query_options: Mapping[str, str]
) -> tuple[VersionOptions, IngestedFiles]:
    if not multipart.has_files(request):
        source, options = sources.decode(await read_object(request), query_options)
        work = ingest.ingest_source(request, model, source, options.entrypoint)
        # A remote host may be slow; everything else is work of this machine.
        remote = isinstance(source, GitFiles | Download)
        run = wait_while_connected if remote else streaming.run_while_connected
        return options, await run(request, work)
    with context.blobs.spool(context.limits.upload_bytes) as spool:
        form = await multipart.receive(request, spool, context.limits.upload_bytes, sources.OPTIONS)
        options = sources.options_from_texts({**query_options, **form.texts})
        unpacking = in_thread(ingest.unpack, context, spool, form.file_name, options.entrypoint)
        return options, IngestedFiles(await streaming.run_while_connected(request, unpacking))


async def _refuse_foreign_job(context: ServerContext, model: Ref, options: VersionOptions) -> None:
    """A caller cannot prove that a job created the files, but the job must at least belong to the model."""
    job = options.values.get("parentJob")
    if job is None:
        return
    found = await find(context.store, Ref("TrainingJob", job, model.namespace))
    if found is None or catalog.model_of(found) != model.name:
        raise Invalid.of("the version", (Fault("parentJob", f"{model} has no TrainingJob '{job}'"),))


async def _add_as(context: ServerContext, new: UnnumberedVersion, version: str) -> tuple[Resource, int]:
    resource = new.resource(version)
    try:
        return await registration.add(context, resource, new.actor), 201
    except AlreadyExists:
        there = await context.store.get(resource.ref)
    differs = [*_differences(new.options, resource, there)]
    trusts = new.trusted and bool(new.ingested.entries) and not registration.is_trusted(there)
    if trusts:  # trust covers all files, so fields that the caller left out must match as well
        others = (name for name in RUN_FIELDS if name not in differs)
        differs += [name for name in others if not is_same(resource.spec.get(name), there.spec.get(name))]
    if differs:
        raise AlreadyExists(
            f"{resource.ref} already exists and differs in {' and '.join(differs)}",
            hint="versions are immutable; leave the version out to create the next one "
            f"(over HTTP: POST /model/{new.model.name}/version/auto)",
            faults=tuple(Fault(name, "differs from the existing version") for name in differs),
        )
    return await registration.trust(context, there.ref, new.actor) if trusts else there, 200


def _differences(options: VersionOptions, new: Resource, there: Resource) -> Iterator[str]:
    """Wire names of the fields in which a version that is sent again differs from the existing one.

    Besides the files, only fields that the caller gave count. The plane detected the others, or they were added later,
    as labels may be."""
    if _content_of(new) != _content_of(there):
        yield "content"
    for name in (*sources.TEXTS, "requirements"):
        if options.values.get(name) and not is_same(new.spec.get(name), there.spec.get(name)):
            yield name
    for name, path in (("downloadURL", "source.url"), ("git.repo", "code.git.repo"), ("git.ref", "code.git.ref")):
        wanted = catalog.field(new, f"spec.{path}")
        if wanted is not None and wanted != catalog.field(there, f"spec.{path}"):
            yield name
    for name, existing in (("labels", there.meta.labels), ("annotations", there.meta.annotations)):
        if any(existing.get(key) != value for key, value in (options.values.get(name) or {}).items()):
            yield name


def _version_in_path(request: Request) -> str | None:
    """The version in the path; None for the next number."""
    version = request.path_params.get("version", AUTO)
    if version == AUTO:
        return None
    try:
        return check_new_version(version)
    except ValueError as error:
        raise Invalid.of("the version", (Fault("version", str(error)),)) from error


def _render(version: Resource, model: Resource) -> dict[str, Any]:
    more = {name: version.spec[name] for name in OPTIONAL_FIELDS if name in version.spec}
    return {**views.render_version(version, model), **more}


async def _previous_version(moment: Reads, model: Ref, version: Resource) -> Resource | None:
    """The previous version: for a number the next lower one, for a name the one created just before it."""
    number = model_family.number_of(version)
    if number == 1:
        return None
    if number is None:
        return await _find_latest_before(moment, model, version, _creation_rank)
    try:
        return await moment.get(create_guards.version_ref(model, str(number - 1)))
    except NotFound:
        # Numbers may have gaps, and versions may be deleted.
        return await _find_latest_before(moment, model, version, model_family.sort_key)


async def _find_latest_before(
    moment: Reads, model: Ref, version: Resource, rank: Callable[[Resource], tuple[Any, ...]]
) -> Resource | None:
    """The version before this one, by `rank`. Reads all versions of the model, one page at a time."""
    found: Resource | None = None
    async for item in each(moment, "ModelVersion", model_family.where_model(model), limit=MOST_AT_ONCE):
        if rank(item) < rank(version) and (found is None or rank(found) < rank(item)):
            found = item
    return found


def _creation_rank(version: Resource) -> tuple[Any, ...]:
    created = version.meta.created
    return (created.timestamp() if created else 0.0, *model_family.sort_key(version))


def _describe_changes(version: Resource, before: Resource | None) -> dict[str, bool]:
    """In the first version, everything counts as changed."""
    new, old = ingest.entries_of(version.spec), ingest.entries_of(before.spec) if before else ()
    return {
        "code": ingest.code_digest(new) != ingest.code_digest(old),
        "data": ingest.data_digest(new) != ingest.data_digest(old),
    }


def _render_artifact(entry: Entry) -> dict[str, Any]:
    return {"path": entry.path, "digest": entry.digest, "size": entry.size}


def _content_of(version: Resource) -> set[tuple[str, str]]:
    return {(entry.path, entry.digest) for entry in ingest.entries_of(version.spec)}
