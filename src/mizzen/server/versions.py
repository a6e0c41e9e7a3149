"""The /model API: versions. They are immutable, and a number is given once, however many callers ask at once.

A list without a limit has numbers in their order, then names. Pages come in the order of the store, which is that of
the objects' names: 10 before 9.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mizzen.access.policy import Actor
from mizzen.blobs.files import Entry
from mizzen.errors import AlreadyExists, Fault, Invalid
from mizzen.kinds.findings import Context, Warn
from mizzen.kinds.meta import Ref, Resource
from mizzen.kinds.model import normal_version, version_object_name
from mizzen.server import (
    admission,
    family,
    gathering,
    incoming,
    registration,
    removal,
    sources,
    targets,
    views,
    warnings,
)
from mizzen.server.auth import require
from mizzen.server.bodies import read_object
from mizzen.server.gathering import Gathered
from mizzen.server.plane import Plane, plane_of
from mizzen.server.query import Query
from mizzen.server.sources import Said

AUTO = "auto"
BESIDE = (*sources.TEXTS, "labels", "requirements")
"""What a query may say about the files that are the body."""
SHOWN = ("code", "source", "requirements", "image", "parentJob")


def routes() -> list[Route]:
    return [
        Route("/model/{model}/version", add, methods=["POST"]),
        Route("/model/{model}/version", list_all, methods=["GET"]),
        Route("/model/{model}/version/{version}", add, methods=["POST"]),
        Route("/model/{model}/version/{version}", describe, methods=["GET"]),
        Route("/model/{model}/version/{version}", delete, methods=["DELETE"]),
    ]


async def add(request: Request) -> Response:
    """201; or 200 when exactly this version is there already."""
    query = Query(request, "namespace", *BESIDE)
    ref = views.model_at(request, query)
    actor = require(request, "write", targets.model(ref))
    number = _wanted(request)
    plane = plane_of(request)
    model = await plane.store.get(ref)
    family.refuse_deleting(model)
    family.refuse_second_name(model, "it has no versions of its own")
    beside = {name: query.text(name) for name in BESIDE if query.text(name)}
    said, gathered = await _gathered(request, plane, ref, beside)
    paths = [entry.path for entry in gathered.entries]
    framework, entrypoint = sources.recognised(said, paths, model.spec.get("framework"), plane.default_framework)
    trusted = registration.may_trust(request, ref)
    new = _New(ref, gathered, said, framework, entrypoint, actor, trusted, plane.capabilities)
    if number is None:
        stored, code = await registration.add_next(plane, ref, new.resource, actor), 201
    else:
        stored, code = await _add_as(plane, new, number)
    location = f"/model/{ref.name}/version/{family.version_of(stored)}"
    answer = JSONResponse(_shown(stored, model), code, headers={"Location": location})
    return warnings.attach(answer, new.warnings(family.version_of(stored)))


async def list_all(request: Request) -> Response:
    query = Query(request, "namespace", "limit", "continue", "labelSelector")
    ref = views.model_at(request, query)
    require(request, "read", targets.model(ref))
    store = plane_of(request).store
    model = await store.get(ref)
    limit, after = query.number("limit", low=1), query.text("continue") or None
    where = replace(family.of_model(ref), labels=query.selector())
    listing = await store.list("ModelVersion", where, limit=limit, after=after)
    found = listing.items if limit or after else sorted(listing.items, key=_order)
    items = [_shown(item, model) for item in found]
    return JSONResponse({"items": items, "metadata": {"continue": listing.next or ""}})


async def describe(request: Request) -> Response:
    """With what changed since the version before: its code, its data, both or nothing."""
    ref = views.model_at(request, Query(request, "namespace"))
    require(request, "read", targets.model(ref))
    version = views.version_at(request, ref)
    async with plane_of(request).store.snapshot() as moment:
        found, model = await moment.get(version), await moment.get(ref)
        others = (await moment.list("ModelVersion", family.of_model(ref))).items
    return JSONResponse({**_shown(found, model), "changed": _changed(found, others)})


async def delete(request: Request) -> Response:
    ref = views.model_at(request, Query(request, "namespace"))
    actor = require(request, "write", targets.model(ref))
    version = views.version_at(request, ref)
    store = plane_of(request).store
    left = await removal.remove(store, version, actor)
    if left is None:
        return JSONResponse({"name": version.name, "deleted": True})
    return JSONResponse(_shown(left, await store.get(ref)), 202)


@dataclass(frozen=True, slots=True)
class _New:
    """A version that only lacks its number."""

    model: Ref
    gathered: Gathered
    said: Said
    framework: str
    entrypoint: str | None
    actor: Actor
    trusted: bool
    capabilities: frozenset[str]

    def resource(self, version: str) -> Resource:
        return registration.admitted(self._draft(version), self.model.namespace, self.actor, trusted=self.trusted)

    def warnings(self, version: str) -> tuple[Warn, ...]:
        found = self._draft(version).warnings
        return tuple(Warn(warn.path.removeprefix("spec."), warn.message) for warn in found)

    def _draft(self, version: str) -> admission.Draft:
        ref = Ref("ModelVersion", version_object_name(self.model.name, version), self.model.namespace)
        options = self.said.options
        manifest = views.manifest(
            ref.kind, ref, self._spec(version), labels=options.get("labels"), annotations=options.get("annotations")
        )
        known = Context(capabilities=self.capabilities)
        try:
            return admission.decode(registration.KIND, manifest, namespace=ref.namespace, known=known)
        except Invalid as error:
            raise views.flat("the version", error) from error

    def _spec(self, version: str) -> dict[str, Any]:
        entries = self.gathered.entries
        digest = gathering.code_digest(entries)
        code: dict[str, Any] | None = None if digest is None else {"digest": digest}
        if self.gathered.git is not None:
            code = {"git": {**self.gathered.git, **({} if digest is None else {"digest": digest})}}
        options = self.said.options
        spec = {
            "modelName": self.model.name, "version": version, "framework": self.framework,
            "artifacts": [_artifact(entry) for entry in entries] or None, "entrypoint": self.entrypoint, "code": code,
            "source": self.gathered.source,
            **{name: options.get(name) for name in ("requirements", "image", "parentJob")},
        }  # fmt: skip
        return {name: value for name, value in spec.items() if value is not None}


async def _gathered(request: Request, plane: Plane, model: Ref, beside: Mapping[str, str]) -> tuple[Said, Gathered]:
    if not incoming.brings_files(request):
        source, said = sources.decode(await read_object(request), beside)
        return said, await gathering.gather(request, model, source, said.entrypoint)
    with plane.blobs.spool(plane.limits.upload_bytes) as spool:
        form = await incoming.receive(request, spool, plane.limits.upload_bytes)
        said = sources.from_texts({**beside, **form.texts})
        entries = await asyncio.to_thread(gathering.unpacked, plane, spool, form.file_name, said.entrypoint)
        return said, Gathered(entries)


async def _add_as(plane: Plane, new: _New, version: str) -> tuple[Resource, int]:
    resource = new.resource(version)
    try:
        return await registration.add(plane, resource, new.actor), 201
    except AlreadyExists:
        there = await plane.store.get(resource.ref)
    said = {"framework": new.said.framework, "entrypoint": new.said.entrypoint}
    differs = [name for name, value in said.items() if value is not None and there.spec.get(name) != value]
    if _content(there) != _content(resource):
        differs.append("content")
    if differs:
        raise AlreadyExists(
            f"{resource.ref} already exists, with another {' and another '.join(differs)}",
            hint=f"versions never change; POST /model/{new.model.name}/version/auto makes the next one",
        )
    return there, 200


def _wanted(request: Request) -> str | None:
    """The version the path names; None for the next number."""
    version = request.path_params.get("version", AUTO)
    if version == AUTO:
        return None
    try:
        return normal_version(version)
    except ValueError as error:
        raise Invalid.of("the version", (Fault("version", str(error)),)) from error


def _shown(version: Resource, model: Resource) -> dict[str, Any]:
    more = {name: version.spec[name] for name in SHOWN if name in version.spec}
    return {**views.version(version, model), **more}


def _changed(version: Resource, all_: tuple[Resource, ...]) -> dict[str, bool]:
    """Against the one made just before it; everything is new in the first."""
    made = sorted(all_, key=lambda item: (item.meta.created or datetime.min.replace(tzinfo=UTC), _order(item)))
    index = next(index for index, item in enumerate(made) if item.meta.uid == version.meta.uid)
    new, old = _entries(version), _entries(made[index - 1]) if index else ()
    return {
        "code": gathering.code_digest(new) != gathering.code_digest(old),
        "data": gathering.data_digest(new) != gathering.data_digest(old),
    }


def _order(version: Resource) -> tuple[int, int, str]:
    """Numbers in their order, then names."""
    text = family.version_of(version)
    return (0, int(text), "") if text.isdecimal() else (1, 0, text)


def _entries(version: Resource) -> tuple[Entry, ...]:
    return tuple(
        Entry(artifact["path"], artifact["digest"], artifact["size"])
        for artifact in registration.artifacts_of(version.spec)
    )


def _artifact(entry: Entry) -> dict[str, Any]:
    return {"path": entry.path, "digest": entry.digest, "size": entry.size}


def _content(version: Resource) -> set[tuple[str, str]]:
    return {(entry.path, entry.digest) for entry in _entries(version)}
