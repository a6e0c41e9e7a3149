"""The /model API: checkpoints. They belong to a version, and outlive the object of the job set that saved them.

**What is served stays.** Whoever serves a checkpoint writes that down, and then looks whether the checkpoint is still
there; whoever removes one removes it, and then looks whether somebody serves it, and if so puts it back. So of two at
once, at least one sees the other.
"""

from __future__ import annotations

import asyncio
import logging
import math
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from mizzen.errors import Conflict, Fault, MizzenError, NotFound
from mizzen.kinds.schema.resource import Ref
from mizzen.runs.checkpoints import Checkpoint
from mizzen.server.auth import authorization, targets
from mizzen.server.http import list_responses, tar_stream
from mizzen.server.http.context import Plane, plane_of
from mizzen.server.http.query import Query
from mizzen.server.models import views
from mizzen.server.training import job_lookup
from mizzen.server.training.job_lookup import Known

log = logging.getLogger(__name__)


def routes() -> list[Route]:
    listed = "/model/{model}/train/{version}/{job}/checkpoint"
    return [
        Route(listed, list_all, methods=["GET"]),
        Route(f"{listed}/{{checkpoint}}", describe, methods=["GET"]),
        Route(f"{listed}/{{checkpoint}}", delete, methods=["DELETE"]),
        Route(f"{listed}/{{checkpoint}}/files", files, methods=["GET"]),
        Route(f"{listed}/{{checkpoint}}/trust", vouch, methods=["POST"]),
    ]


async def list_all(request: Request) -> Response:
    """Newest first. Empty before the first; also of a job set whose object is gone."""
    ref = views.model_at(request, Query(request, "namespace"))
    authorization.require(request, "read", targets.model(ref))
    plane = plane_of(request)
    saved = await _saved(plane, request, ref, await job_lookup.known_at(request, ref))
    served = await job_lookup.served(plane.store, ref) if saved else {}
    return await list_responses.listed(saved, lambda one: view(plane, one, served), {"continue": ""})


async def describe(request: Request) -> Response:
    ref = views.model_at(request, Query(request, "namespace"))
    authorization.require(request, "read", targets.model(ref))
    plane, found = plane_of(request), await _found(request, ref)
    return JSONResponse(view(plane, found, await job_lookup.served(plane.store, ref)))


async def files(request: Request) -> Response:
    """All its files as a tar archive. Not for strangers."""
    ref = views.model_at(request, Query(request, "namespace"))
    authorization.require(request, "read", targets.model(ref, subresource="files"))
    found = await _found(request, ref)
    archive = tar_stream.Archive.of(found.files, plane_of(request).blobs.path, found.created)
    headers = {
        "Content-Length": str(archive.size),
        "Content-Disposition": f'attachment; filename="{found.id}.tar"',
    }
    return StreamingResponse(archive.chunks(), media_type="application/octet-stream", headers=headers)


async def vouch(request: Request) -> Response:
    """Vouch for what a job of somebody else saved: from now on it is unpickled when it is loaded."""
    ref = views.model_at(request, Query(request, "namespace"))
    authorization.require(request, "admin", targets.model(ref))
    plane, found = plane_of(request), await _found(request, ref)
    trusted = await asyncio.to_thread(plane.shelf.vouch, found)
    return JSONResponse(view(plane, trusted, await job_lookup.served(plane.store, ref)))


async def delete(request: Request) -> Response:
    """Conflict while it is served. Its files go once nothing names them any more."""
    ref = views.model_at(request, Query(request, "namespace"))
    authorization.require(request, "write", targets.model(ref))
    plane, found = plane_of(request), await _found(request, ref)
    await _refuse_served(plane, ref, found)
    await asyncio.to_thread(plane.shelf.remove, found)
    try:
        await _refuse_served(plane, ref, found)
    except Conflict:
        await asyncio.to_thread(plane.shelf.add, found)
        raise
    return JSONResponse({"checkpoint_id": found.id, "deleted": True})


async def go_with(plane: Plane, gone: Ref) -> None:
    """Those of a model or version that is gone go, too. What cannot be removed now is collected later."""
    model, _, version = gone.name.partition(".")
    prefix = f"{gone.namespace}/{model}/" + (f"{version}/" if gone.kind == "ModelVersion" else "")
    until = plane.now().timestamp()

    def remove() -> None:
        for one in plane.shelf.all(prefix):
            if one.created <= until:
                plane.shelf.remove(one)

    try:
        await asyncio.to_thread(remove)
    except MizzenError as error:
        log.warning("cannot remove the checkpoints of %s, which is gone: %s; they are collected later", gone, error)


def view(plane: Plane, one: Checkpoint, served: dict[str, list[str]]) -> dict[str, Any]:
    """`uri` is that of its file, if there is one, else of its manifest, which names them all."""
    listed = [
        {"path": file.path, "digest": file.digest, "size": file.size, "uri": plane.blobs.uri(file.digest)}
        for file in one.files
    ]
    return {
        "checkpoint_id": one.id,
        "uri": listed[0]["uri"] if len(listed) == 1 else plane.shelf.uri(one),
        "name": one.name,
        "job": one.job,
        "model": one.model,
        "version": one.version or None,
        "step": one.step,
        "metrics": {name: float(value) for name, value in one.metrics.items() if math.isfinite(value)},
        "sha256": one.sha256,
        "size": one.size,
        "created": job_lookup.told_time(one.created),
        "trusted": one.trusted,
        "framework": one.framework or None,
        "entrypoint": one.entrypoint or None,
        "files": listed,
        "served_by": sorted(served.get(one.id, ())),
    }


async def _saved(plane: Plane, request: Request, model: Ref, known: Known) -> list[Checkpoint]:
    version = job_lookup.version_at(request, model)
    return await asyncio.to_thread(plane.shelf.of_job, model.namespace, model.name, version, known.uid)


async def _found(request: Request, model: Ref) -> Checkpoint:
    plane, known, wanted = (
        plane_of(request),
        await job_lookup.known_at(request, model),
        request.path_params["checkpoint"],
    )
    version = job_lookup.version_at(request, model)
    found = await asyncio.to_thread(plane.shelf.find, model.namespace, model.name, version, wanted)
    if found is None or found.job_uid != known.uid:
        said = request.path_params["version"]
        raise NotFound(
            f"{known.ref} has no checkpoint '{wanted[:100]}'",
            hint=f"GET /model/{model.name}/train/{said}/{known.ref.name}/checkpoint lists those it has",
        )
    return found


async def _refuse_served(plane: Plane, model: Ref, one: Checkpoint) -> None:
    servers = (await job_lookup.served(plane.store, model)).get(one.id, [])
    if servers:
        faults = tuple(Fault(f"InferenceModel/{name}", f"serves checkpoint {one.id}") for name in sorted(servers))
        raise Conflict(
            f"checkpoint {one.id} is in use: " + "; ".join(map(str, faults)),
            hint="end these servers first, or let them serve another one",
            faults=faults,
        )
