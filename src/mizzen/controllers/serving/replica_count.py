"""The number of replicas of a Workload when the load determines it, not the spec."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import datetime
from typing import Any

from mizzen.kinds.schema.resource import Resource, format_time
from mizzen.kinds.serving import InferenceModelSpec, InferenceModelStatus
from mizzen.reconcile.recorder import EventNote
from mizzen.reconcile.workloads import DesiredScale


def with_scale(spec: InferenceModelSpec, scale: DesiredScale | None) -> InferenceModelSpec:
    """The spec with the number of replicas that the load needs now."""
    return spec if scale is None else spec.model_copy(update={"replicas": scale.replicas})


def with_first_replica(spec: InferenceModelSpec, scale: DesiredScale | None) -> InferenceModelSpec:
    """The spec with at least one replica: a version must be ready once before it may scale to zero or take over."""
    return spec if scale is None or spec.replicas > 0 else spec.model_copy(update={"replicas": 1})


def with_replicas(workload: Resource, replicas: int) -> Resource:
    return replace(workload, spec={**workload.spec, "replicas": replicas})


def scale_status(last_status: InferenceModelStatus, scale: DesiredScale | None, now: datetime) -> dict[str, Any]:
    """The status fields of the scale; empty while the desired number is unchanged."""
    desired = None if scale is None else scale.replicas
    if desired == last_status.desired_replicas:
        return {}
    if scale is None or desired is None:
        return {"desired_replicas": None, "desired_since": None, "desired_reason": ""}
    why = _reason(last_status.desired_replicas, desired, scale)
    return {"desired_replicas": desired, "desired_since": format_time(now), "desired_reason": why}


def scale_note(last_status: InferenceModelStatus, status: InferenceModelStatus) -> EventNote | None:
    before, now = last_status.desired_replicas, status.desired_replicas
    if before is None or now is None or before == now:
        return None
    return EventNote("Scaled", f"from {before} to {now} replicas: {status.desired_reason}")


def _reason(before: int | None, desired: int, scale: DesiredScale) -> str:
    if before is None:
        return "initial number"
    if desired < before:
        return f"{'no requests' if not desired else 'fewer were needed'} for {scale.quiet:g} s"
    in_flight = math.ceil(scale.in_flight)
    return f"{in_flight} in flight" if in_flight else "a request arrived" if not before else "set by autoScale"
