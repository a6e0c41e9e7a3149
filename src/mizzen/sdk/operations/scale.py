"""Manual scaling and autoscaling of servers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from mizzen import errors
from mizzen.sdk.api.resources import condition_of
from mizzen.sdk.operations import deploy

if TYPE_CHECKING:
    from mizzen.sdk.api.models import ModelCalls

_PAUSE: Final = 0.05


async def scale(plane: ModelCalls, name: str, replicas: int, *, wait: bool, seconds: float) -> str:
    """`name` is an InferenceModel, or a model, which means the server of its current version. Returns the server's
    name.

    With `wait`, waits until exactly this many replicas are ready. Raises ModelFailed, DeadlineExceeded; the new number
    stays set.
    """
    server = await plane.server_of(name)
    path = f"{plane.path('inferencemodels', server)}/scale"
    await plane.request("PUT", path, body={"spec": {"replicas": replicas}})
    if wait:
        await _wait_scaled(plane, server, seconds)
    return server


async def autoscale(
    plane: ModelCalls,
    name: str,
    limits: Mapping[str, float] | None,
    *,
    replicas: int | None,
    wait: bool,
    seconds: float,
) -> str:
    """Scale with the load within `limits`, fields of `spec.autoScale`. None: use the fixed number `replicas`."""
    server = await plane.server_of(name)
    change: dict[str, Any] = {"autoScale": limits}
    if replicas is not None:
        change["replicas"] = replicas
    await plane.request(
        "PATCH",
        plane.path("inferencemodels", server),
        body={"spec": change},
        headers={"content-type": "application/merge-patch+json"},
    )
    if wait:
        await _wait_scaled(plane, server, seconds)
    return server


async def _wait_scaled(plane: ModelCalls, server: str, seconds: float) -> None:
    """It polls at least once, however short the timeout: the final message needs the status."""
    resource = await plane.get("inferencemodels", server)
    try:
        async with asyncio.timeout(seconds):
            while True:
                wanted, status = _replicas_of(resource), resource.get("status", {})
                running, ready = status.get("replicas") or 0, status.get("readyReplicas") or 0
                if running == ready == wanted and _is_current(resource):
                    return
                state = f"{ready} of {wanted} replicas are ready"
                condition = deploy.hopeless(resource) or condition_of(resource, "Ready")
                why = condition.get("message", "") if ready < wanted else f"{running} are still running"
                if wanted and deploy.hopeless(resource):
                    break
                await asyncio.sleep(_PAUSE)
                resource = await plane.get("inferencemodels", server)
    except TimeoutError:
        raise errors.DeadlineExceeded(
            f"{state} after {seconds:g} s" + (f": {why}" if why else ""),
            hint=f"scaling continues: see 'mizzen describe inferencemodel/{server}' and 'mizzen logs {server}'",
        ) from None
    raise errors.ModelFailed(f"{state}: {why}", hint=f"logs: 'mizzen logs {server}'")


def _replicas_of(server: Mapping[str, Any]) -> int:
    """The autoscaler's number, or else the spec's."""
    spec, desired = server["spec"], (server.get("status") or {}).get("desiredReplicas")
    declared = int(spec.get("replicas", 1))
    if spec.get("deployToLayer") == "edge":
        return min(declared, 1)  # only one process runs there, as the warning said
    return int(desired) if declared and spec.get("autoScale") and desired is not None else declared


def _is_current(server: Mapping[str, Any]) -> bool:
    """Return whether the status reflects the present spec, which matters only with autoscaling."""
    reported = (server.get("status") or {}).get("observedGeneration") == server["metadata"].get("generation")
    return reported or not server["spec"].get("autoScale")
