"""How many processes answer for what is served."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from mizzen import errors
from mizzen.sdk import deployment
from mizzen.sdk.resources import condition_of

if TYPE_CHECKING:
    from mizzen.sdk.registry import Registry

_PAUSE: Final = 0.05


async def scale(plane: Registry, name: str, replicas: int, *, wait: bool, seconds: float) -> str:
    """`name` is an InferenceModel, or a model: then what serves its current version is meant, whose name is returned.

    With `wait`, until just so many are ready. ModelFailed, DeadlineExceeded; what was asked for stays asked for.
    """
    server = await plane.server_of(name)
    path = f"{plane.path('inferencemodels', server)}/scale"
    await plane.request("PUT", path, body={"spec": {"replicas": replicas}})
    if wait:
        await _wait_scaled(plane, server, seconds)
    return server


async def _wait_scaled(plane: Registry, server: str, seconds: float) -> None:
    said, why = f"{server} is not scaled", ""
    try:
        async with asyncio.timeout(seconds):
            while True:
                resource = await plane.get("inferencemodels", server)
                wanted, status = _wanted(resource["spec"]), resource.get("status", {})
                running, ready = status.get("replicas") or 0, status.get("readyReplicas") or 0
                if running == ready == wanted:
                    return
                said = f"{ready} of {wanted} replicas are ready"
                condition = deployment.hopeless(resource) or condition_of(resource, "Ready")
                why = condition.get("message", "") if ready < wanted else f"{running} are running still"
                if wanted and deployment.hopeless(resource):
                    break
                await asyncio.sleep(_PAUSE)
    except TimeoutError:
        raise errors.DeadlineExceeded(
            f"{said} after {seconds:g} s" + (f": {why}" if why else ""),
            hint=f"it goes on: 'mizzen describe inferencemodel/{server}' shows how far; logs: 'mizzen logs {server}'",
        ) from None
    raise errors.ModelFailed(f"{said}: {why}", hint=f"logs: 'mizzen logs {server}'")


def _wanted(spec: Mapping[str, Any]) -> int:
    asked = int(spec.get("replicas", 1))
    return min(asked, 1) if spec.get("deployToLayer") == "edge" else asked  # where one process runs, as was warned
