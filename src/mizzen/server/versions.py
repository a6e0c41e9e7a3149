"""The /model API: versions. They are immutable, and a number is given once, however many callers ask at once."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mizzen.access.policy import Actor
from mizzen.blobs.files import Entry, FileBlobs
from mizzen.errors import AlreadyExists, Fault, Invalid, NotFound
from mizzen.kinds.meta import Ref, Resource
from mizzen.kinds.model import normal_version, version_object_name
from mizzen.server import admission, family, registration, removal, sources, views
from mizzen.server.auth import require
from mizzen.server.bodies import read_object
from mizzen.server.plane import plane_of
from mizzen.server.query import Query
from mizzen.stores.store import Store

AUTO = "auto"


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
    ref = views.model_at(request, Query(request, "namespace"))
    # The plane reads any file its user can read, and what is unpickled runs: so this is for the admin alone.
    actor = require(request, "admin", views.target(ref))
    number = _wanted(request)
    source = sources.decode(await read_object(request))
    plane = plane_of(request)
    model = await plane.store.get(ref)
    family.refuse_deleting(model)
    entries = await asyncio.to_thread(_collected, plane.blobs, source)
    framework, entrypoint = sources.recognised(source, [entry.path for entry in entries], model.spec.get("framework"))
    new = _New(ref, entries, framework, entrypoint, actor)
    if number is None:
        stored, code = await registration.add_next(plane.store, ref, new.resource, actor), 201
    else:
        stored, code = await _add_as(plane.store, new, number, source)
    location = f"/model/{ref.name}/version/{family.version_of(stored)}"
    return JSONResponse(views.version(stored, model), code, headers={"Location": location})


async def list_all(request: Request) -> Response:
    ref = views.model_at(request, Query(request, "namespace"))
    require(request, "read", views.target(ref))
    members = await family.load(plane_of(request).store, ref)
    items = [views.version(item, members.model) for item in members.versions]
    return JSONResponse({"items": items, "metadata": {"continue": ""}})


async def describe(request: Request) -> Response:
    ref = views.model_at(request, Query(request, "namespace"))
    require(request, "read", views.target(ref))
    version = views.version_at(request, ref)
    async with plane_of(request).store.snapshot() as moment:
        return JSONResponse(views.version(await moment.get(version), await moment.get(ref)))


async def delete(request: Request) -> Response:
    ref = views.model_at(request, Query(request, "namespace"))
    actor = require(request, "write", views.target(ref))
    version = views.version_at(request, ref)
    store = plane_of(request).store
    left = await removal.remove(store, version, actor)
    if left is None:
        return JSONResponse({"name": version.name, "deleted": True})
    return JSONResponse(views.version(left, await store.get(ref)), 202)


@dataclass(frozen=True, slots=True)
class _New:
    """A version that only lacks its number."""

    model: Ref
    entries: tuple[Entry, ...]
    framework: str
    entrypoint: str | None
    actor: Actor

    def resource(self, version: str) -> Resource:
        ref = Ref("ModelVersion", version_object_name(self.model.name, version), self.model.namespace)
        spec: dict[str, Any] = {
            "modelName": self.model.name,
            "version": version,
            "framework": self.framework,
            "artifacts": [{"path": entry.path, "digest": entry.digest, "size": entry.size} for entry in self.entries],
        }
        if self.entrypoint is not None:
            spec["entrypoint"] = self.entrypoint
        manifest = views.manifest(ref.kind, ref, spec)
        try:
            draft = admission.decode(registration.KIND, manifest, namespace=ref.namespace)
        except Invalid as error:
            raise views.flat("the version", error) from error
        return registration.admitted(draft, ref.namespace, self.actor)


async def _add_as(store: Store, new: _New, version: str, source: sources.Source) -> tuple[Resource, int]:
    resource = new.resource(version)
    try:
        return await registration.add(store, resource, new.actor), 201
    except AlreadyExists:
        there = await store.get(resource.ref)
    said = {"framework": source.framework, "entrypoint": source.entrypoint}
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


def _collected(blobs: FileBlobs, source: sources.Source) -> tuple[Entry, ...]:
    """All files, stored. What the caller named is part of what they sent, so a missing file is Invalid."""
    try:
        return blobs.collect(source.path)
    except NotFound as error:
        raise Invalid.of("the version", (Fault("path", error.message),)) from error


def _content(version: Resource) -> set[tuple[str, str]]:
    return {(artifact["path"], artifact["digest"]) for artifact in version.spec["artifacts"]}
