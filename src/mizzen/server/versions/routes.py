"""The /model API: versions. They are immutable, and a number is given once, however many callers ask at once.

An answer holds numbers in their order, then names. Where there are more versions than one answer holds, they are cut
into pages in the order of the store, which is that of the objects' names: 10 before 9.
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
from mizzen.kinds.model import version_object_name
from mizzen.kinds.schema.findings import Context, Warn
from mizzen.kinds.schema.resource import Meta, Ref, Resource
from mizzen.kinds.text.versions import given_version
from mizzen.server.admission import create_guards, decode, field_managers, model_family, privileged_fields
from mizzen.server.admission.decode import same
from mizzen.server.auth import targets
from mizzen.server.auth.authorization import require
from mizzen.server.deletion import cascade
from mizzen.server.http import list_responses, multipart, streaming, warning_headers
from mizzen.server.http.context import Plane, plane_of
from mizzen.server.http.query import Query
from mizzen.server.http.request_bodies import read_object
from mizzen.server.models import views
from mizzen.server.training import checkpoints
from mizzen.server.versions import framework_detection, ingest, registration, requirements, sources
from mizzen.server.versions.ingest import Gathered
from mizzen.server.versions.sources import Said
from mizzen.stores.all_pages import each
from mizzen.stores.store import Reads

AUTO = "auto"
MOST_AT_ONCE = 500
"""A page, when the caller names no limit of their own."""
BESIDE = (*sources.TEXTS, "labels", "requirements", "training")
"""What a query may say about the files that are the body."""
RUN = ("framework", "entrypoint", "requirements", "python")
"""What decides how the files of a version run."""
SHOWN = ("code", "source", "requirements", "python", "image", "parentJob")


def routes() -> list[Route]:
    return [
        Route("/model/{model}/version", add, methods=["POST"]),
        Route("/model/{model}/version", list_all, methods=["GET"]),
        Route("/model/{model}/version/{version}", add, methods=["POST"]),
        Route("/model/{model}/version/{version}", describe, methods=["GET"]),
        Route("/model/{model}/version/{version}", delete, methods=["DELETE"]),
        Route("/model/{model}/version/{version}/trust", vouch, methods=["POST"]),
    ]


async def add(request: Request) -> Response:
    """201; or 200 when exactly this version is there already. Who may vouch for code then vouches for it."""
    query = Query(request, "namespace", *BESIDE)
    ref = views.model_at(request, query)
    actor = require(request, "write", targets.model(ref))
    number = _wanted(request)
    plane = plane_of(request)
    model = await plane.store.get(ref)
    model_family.refuse_deleting(model)
    model_family.refuse_second_name(model, "it has no versions of its own")
    beside = {name: query.text(name) for name in BESIDE if query.text(name)}
    said, gathered = await _gathered(request, plane, ref, beside)
    told = {**said.options, "modelName": ref.name}
    privileged_fields.require(request, Resource(registration.KIND.name, Meta("", ref.namespace), told))
    await _refuse_strange_job(plane, ref, said)
    framework, entrypoint = await asyncio.to_thread(
        framework_detection.recognised, said, gathered.entries, plane.blobs.path, model.spec.get("framework"),
        plane.default_framework,
    )  # fmt: skip
    said = await asyncio.to_thread(requirements.completed, said, gathered.entries, plane.blobs.path)
    trusted = registration.may_trust(request, ref)
    new = New(ref, gathered, said, framework, entrypoint, actor, trusted, plane.capabilities, plane.now())
    if number is None:
        stored, code = await registration.add_next(plane, ref, new.resource, actor), 201
    else:
        stored, code = await _add_as(plane, new, number)
    location = views.located(f"/model/{ref.name}/version/{model_family.version_of(stored)}", ref.namespace)
    answer = JSONResponse(_shown(stored, model), code, headers={"Location": location})
    return warning_headers.attach(answer, new.warnings(model_family.version_of(stored)))


async def list_all(request: Request) -> Response:
    query = Query(request, "namespace", "limit", "continue", "labelSelector")
    ref = views.model_at(request, query)
    require(request, "read", targets.model(ref))
    plane = plane_of(request)
    model = await plane.store.get(ref)
    limit, after = query.limit(MOST_AT_ONCE), plane.pages.opened(query.text("continue"))
    where = replace(model_family.of_model(ref), labels=query.selector())
    listing = await plane.store.list("ModelVersion", where, limit=limit, after=after)
    found = sorted(listing.items, key=model_family.order)
    return await list_responses.listed(
        found, lambda item: _shown(item, model), {"continue": plane.pages.seal(listing.next)}
    )


async def describe(request: Request) -> Response:
    """With what changed since the version before: its code, its data, both or nothing; and what trained it."""
    ref = views.model_at(request, Query(request, "namespace"))
    require(request, "read", targets.model(ref))
    version, plane = views.version_at(request, ref), plane_of(request)
    async with plane.store.snapshot() as moment:
        found, model = await moment.get(version), await moment.get(ref)
        before = await _before(moment, ref, found)
        trained = [
            job.meta.name
            async for job in each(moment, "TrainingJob", model_family.of_model(ref))
            if _trains(job, found)
        ]
    saved = await asyncio.to_thread(
        plane.shelf.of_version, ref.namespace, ref.name, model_family.version_of(found), found.meta.uid
    )
    lineage = {
        "jobs": trained,
        "checkpoints": len(saved),
        "newestCheckpoint": saved[0].id if saved else None,
    }
    return JSONResponse({**_shown(found, model), "changed": _changed(found, before), **lineage})


async def delete(request: Request) -> Response:
    ref = views.model_at(request, Query(request, "namespace"))
    actor = require(request, "write", targets.model(ref))
    version = views.version_at(request, ref)
    store = plane_of(request).store
    left = await cascade.remove(store, version, actor)
    if left is None:
        await checkpoints.go_with(plane_of(request), version)
        return JSONResponse({"name": version.name, "deleted": True})
    return JSONResponse(_shown(left, await store.get(ref)), 202)


async def vouch(request: Request) -> Response:
    """Vouch for a version that somebody else brought: its code and pickles run from now on, when it is loaded."""
    ref = views.model_at(request, Query(request, "namespace"))
    actor = require(request, "admin", targets.model(ref))
    plane = plane_of(request)
    model = await plane.store.get(ref)
    return JSONResponse(_shown(await registration.trust(plane, views.version_at(request, ref), actor), model))


@dataclass(frozen=True, slots=True)
class New:
    """A version that only lacks its number."""

    model: Ref
    gathered: Gathered
    said: Said
    framework: str
    entrypoint: str | None
    actor: Actor
    trusted: bool
    capabilities: frozenset[str]
    now: datetime

    def resource(self, version: str) -> Resource:
        new = registration.admitted(self._draft(version), self.model.namespace, self.actor, trusted=self.trusted)
        return field_managers.by_plane(None, new, self.now)

    def warnings(self, version: str) -> tuple[Warn, ...]:
        found = self._draft(version).warnings
        return tuple(Warn(warn.path.removeprefix("spec."), warn.message) for warn in found)

    def _draft(self, version: str) -> decode.Draft:
        ref = Ref("ModelVersion", version_object_name(self.model.name, version), self.model.namespace)
        options = self.said.options
        manifest = views.manifest(
            ref.kind, ref, self._spec(version), labels=options.get("labels"), annotations=options.get("annotations")
        )
        known = Context(capabilities=self.capabilities)
        try:
            return decode.decode(registration.KIND, manifest, namespace=ref.namespace, known=known)
        except Invalid as error:
            raise views.flat("the version", error) from error

    def _spec(self, version: str) -> dict[str, Any]:
        entries = self.gathered.entries
        digest = ingest.code_digest(entries)
        code: dict[str, Any] | None = None if digest is None else {"digest": digest}
        if self.gathered.git is not None:
            code = {"git": {**self.gathered.git, **({} if digest is None else {"digest": digest})}}
        options = self.said.options
        spec = {
            "modelName": self.model.name, "version": version, "framework": self.framework,
            "artifacts": [_artifact(entry) for entry in entries] or None, "entrypoint": self.entrypoint, "code": code,
            "source": self.gathered.source,
            **{name: options.get(name) for name in ("requirements", "python", "image", "parentJob")},
        }  # fmt: skip
        return {name: value for name, value in spec.items() if value is not None}


async def _gathered(request: Request, plane: Plane, model: Ref, beside: Mapping[str, str]) -> tuple[Said, Gathered]:
    if not multipart.brings_files(request):
        source, said = sources.decode(await read_object(request), beside)
        work = ingest.gather(request, model, source, said.entrypoint)
        return said, await streaming.while_wanted(request, work)
    with plane.blobs.spool(plane.limits.upload_bytes) as spool:
        form = await multipart.receive(request, spool, plane.limits.upload_bytes, sources.OPTIONS)
        said = sources.from_texts({**beside, **form.texts})
        unpacking = in_thread(ingest.unpacked, plane, spool, form.file_name, said.entrypoint)
        return said, Gathered(await streaming.while_wanted(request, unpacking))


async def _refuse_strange_job(plane: Plane, model: Ref, said: Said) -> None:
    """Anybody could say that some job made this; it must at least be one of the model."""
    job = said.options.get("parentJob")
    if job is None:
        return
    try:
        found = await plane.store.get(Ref("TrainingJob", job, model.namespace))
    except NotFound:
        found = None
    if found is None or catalog.model_of(found) != model.name:
        raise Invalid.of("the version", (Fault("parentJob", f"{model} has no TrainingJob '{job}'"),))


async def _add_as(plane: Plane, new: New, version: str) -> tuple[Resource, int]:
    resource = new.resource(version)
    try:
        return await registration.add(plane, resource, new.actor), 201
    except AlreadyExists:
        there = await plane.store.get(resource.ref)
    differs = [*_differences(new.said, resource, there)]
    vouches = new.trusted and bool(new.gathered.entries) and not registration.is_trusted(there)
    if vouches:  # for all of it, so what they did not say has to be what it would be
        differs += [
            name for name in RUN if name not in differs and not same(resource.spec.get(name), there.spec.get(name))
        ]
    if differs:
        raise AlreadyExists(
            f"{resource.ref} already exists, with another {' and another '.join(differs)}",
            hint="versions never change; leave the version out to make the next one "
            f"(over HTTP: POST /model/{new.model.name}/version/auto)",
            faults=tuple(Fault(name, "is another in the version that is there") for name in differs),
        )
    return await registration.trust(plane, there.ref, new.actor) if vouches else there, 200


def _differences(said: Said, new: Resource, there: Resource) -> Iterator[str]:
    """What of a version sent again is not as it is there, by its name on the wire. Beside the files only what the
    caller says counts: the rest was found out by the plane, or was added since, as labels may be."""
    if _content(new) != _content(there):
        yield "content"
    for name in (*sources.TEXTS, "requirements"):
        if said.options.get(name) and not same(new.spec.get(name), there.spec.get(name)):
            yield name
    for name, path in (("downloadURL", "source.url"), ("git.repo", "code.git.repo"), ("git.ref", "code.git.ref")):
        wanted = catalog.field(new, f"spec.{path}")
        if wanted is not None and wanted != catalog.field(there, f"spec.{path}"):
            yield name
    for name, kept in (("labels", there.meta.labels), ("annotations", there.meta.annotations)):
        if any(kept.get(key) != value for key, value in (said.options.get(name) or {}).items()):
            yield name


def _wanted(request: Request) -> str | None:
    """The version the path names; None for the next number."""
    version = request.path_params.get("version", AUTO)
    if version == AUTO:
        return None
    try:
        return given_version(version)
    except ValueError as error:
        raise Invalid.of("the version", (Fault("version", str(error)),)) from error


def _shown(version: Resource, model: Resource) -> dict[str, Any]:
    more = {name: version.spec[name] for name in SHOWN if name in version.spec}
    return {**views.version(version, model), **more}


async def _before(moment: Reads, model: Ref, version: Resource) -> Resource | None:
    """What a version follows: a number the next lower one, a name what was made just before it."""
    number = model_family.number_of(version)
    if number == 1:
        return None
    if number is None:
        return await _latest(moment, model, version, _made)
    try:
        return await moment.get(create_guards.version_ref(model, str(number - 1)))
    except NotFound:
        # Numbers may be left out, and versions are deleted.
        return await _latest(moment, model, version, model_family.order)


async def _latest(
    moment: Reads, model: Ref, version: Resource, rank: Callable[[Resource], tuple[Any, ...]]
) -> Resource | None:
    """The one before this version, among all of the model. It reads them all, one page at a time."""
    found: Resource | None = None
    async for item in each(moment, "ModelVersion", model_family.of_model(model), limit=MOST_AT_ONCE):
        if rank(item) < rank(version) and (found is None or rank(found) < rank(item)):
            found = item
    return found


def _trains(job: Resource, version: Resource) -> bool:
    return model_family.version_of(job) == model_family.version_of(version)


def _made(version: Resource) -> tuple[Any, ...]:
    created = version.meta.created
    return (created.timestamp() if created else 0.0, *model_family.order(version))


def _changed(version: Resource, before: Resource | None) -> dict[str, bool]:
    """Everything is new in the first."""
    new, old = ingest.entries_of(version.spec), ingest.entries_of(before.spec) if before else ()
    return {
        "code": ingest.code_digest(new) != ingest.code_digest(old),
        "data": ingest.data_digest(new) != ingest.data_digest(old),
    }


def _artifact(entry: Entry) -> dict[str, Any]:
    return {"path": entry.path, "digest": entry.digest, "size": entry.size}


def _content(version: Resource) -> set[tuple[str, str]]:
    return {(entry.path, entry.digest) for entry in ingest.entries_of(version.spec)}
