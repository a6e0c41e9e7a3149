"""The /model API: checkpoints. They belong to a version, and outlive the object of the job set that saved them.

**A served checkpoint is never deleted.** The code that creates a server first stores the server, and then checks that
the checkpoint still exists. The code that deletes a checkpoint first deletes it, and then restores it if a server
uses it. So of two concurrent requests, at least one sees the other.
"""

from __future__ import annotations

import asyncio
import math
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from mizzen.errors import Conflict, Fault, NotFound
from mizzen.kinds.schema.resource import Ref
from mizzen.runs.checkpoints import Checkpoint
from mizzen.server.http import list_responses, tar_stream
from mizzen.server.http.context import ServerContext, context_of
from mizzen.server.models import views
from mizzen.server.training import job_lookup


def routes() -> list[Route]:
    listed = "/model/{model}/train/{version}/{job}/checkpoint"
    return [
        Route(listed, list_all, methods=["GET"]),
        Route(f"{listed}/{{checkpoint}}", describe, methods=["GET"]),
        Route(f"{listed}/{{checkpoint}}", delete, methods=["DELETE"]),
        Route(f"{listed}/{{checkpoint}}/files", download_files, methods=["GET"]),
        Route(f"{listed}/{{checkpoint}}/trust", trust, methods=["POST"]),
    ]


async def list_all(request: Request) -> Response:
    """Newest first; empty before the first. Also works for a job set whose object is deleted."""
    ref, _, context = views.authorize(request, "read")
    job, version = await job_lookup.find_identity(request, ref), job_lookup.version_at(request, ref)
    saved = await asyncio.to_thread(context.checkpoints.of_job, ref.namespace, ref.name, version, job.uid)
    served = await job_lookup.servers_by_checkpoint(context.store, ref) if saved else {}
    return await list_responses.list_response(saved, lambda one: render(context, one, served), {"continue": ""})


async def describe(request: Request) -> Response:
    ref, _, context = views.authorize(request, "read")
    found = await _find_checkpoint(request, ref)
    return JSONResponse(render(context, found, await job_lookup.servers_by_checkpoint(context.store, ref)))


async def download_files(request: Request) -> Response:
    """All its files as a tar archive. Anonymous callers may not read them."""
    ref, _, context = views.authorize(request, "read", subresource="files")
    found = await _find_checkpoint(request, ref)
    archive = tar_stream.TarArchive.of(found.files, context.blobs.path, found.created)
    disposition = f'attachment; filename="{found.id}.tar"'
    headers = {"Content-Length": str(archive.size), "Content-Disposition": disposition}
    return StreamingResponse(archive.chunks(), media_type="application/octet-stream", headers=headers)


async def trust(request: Request) -> Response:
    """Trust a checkpoint that another user's job saved: from now on it may be unpickled when it is loaded."""
    ref, _, context = views.authorize(request, "admin")
    trusted = await asyncio.to_thread(context.checkpoints.vouch, await _find_checkpoint(request, ref))
    return JSONResponse(render(context, trusted, await job_lookup.servers_by_checkpoint(context.store, ref)))


async def delete(request: Request) -> Response:
    """Raises Conflict while it is served. Its files are collected once nothing refers to them."""
    ref, _, context = views.authorize(request, "write")
    found = await _find_checkpoint(request, ref)
    await _refuse_served(context, ref, found)
    await asyncio.to_thread(context.checkpoints.remove, found)
    try:
        await _refuse_served(context, ref, found)
    except Conflict:
        await asyncio.to_thread(context.checkpoints.add, found)
        raise
    return JSONResponse({"checkpoint_id": found.id, "deleted": True})


def render(context: ServerContext, one: Checkpoint, served: dict[str, list[str]]) -> dict[str, Any]:
    """`uri` is that of its only file, else that of its manifest, which lists all files."""
    listed = [
        {"path": file.path, "digest": file.digest, "size": file.size, "uri": context.blobs.uri(file.digest)}
        for file in one.files
    ]
    return {
        "checkpoint_id": one.id,
        "uri": listed[0]["uri"] if len(listed) == 1 else context.checkpoints.uri(one),
        "name": one.name,
        "job": one.job,
        "model": one.model,
        "version": one.version or None,
        "step": one.step,
        "metrics": {name: float(value) for name, value in one.metrics.items() if math.isfinite(value)},
        "sha256": one.sha256,
        "size": one.size,
        "created": job_lookup.format_timestamp(one.created),
        "trusted": one.trusted,
        "framework": one.framework or None,
        "entrypoint": one.entrypoint or None,
        "files": listed,
        "served_by": sorted(served.get(one.id, ())),
    }


async def _find_checkpoint(request: Request, model: Ref) -> Checkpoint:
    job, id_ = await job_lookup.find_identity(request, model), request.path_params["checkpoint"]
    version, find = job_lookup.version_at(request, model), context_of(request).checkpoints.find
    found = await asyncio.to_thread(find, model.namespace, model.name, version, id_)
    if found is None or found.job_uid != job.uid:
        listed = f"/model/{model.name}/train/{request.path_params['version']}/{job.ref.name}/checkpoint"
        raise NotFound(f"{job.ref} has no checkpoint '{id_[:100]}'", hint=f"GET {listed} lists its checkpoints")
    return found


async def _refuse_served(context: ServerContext, model: Ref, one: Checkpoint) -> None:
    servers = (await job_lookup.servers_by_checkpoint(context.store, model)).get(one.id, [])
    if servers:
        faults = tuple(Fault(f"InferenceModel/{name}", f"serves checkpoint {one.id}") for name in sorted(servers))
        raise Conflict(
            f"checkpoint {one.id} is in use: " + "; ".join(map(str, faults)),
            hint="delete these servers first, or make them serve another checkpoint",
            faults=faults,
        )
