"""How many replicas a Workload is given, where the load says so and not the spec."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import datetime
from typing import Any

from mizzen.controllers.serving.facts import Scaled
from mizzen.kinds.schema.resource import Resource, format_time
from mizzen.kinds.serving import InferenceModelSpec, InferenceModelStatus
from mizzen.reconcile.recorder import Note


def meant(spec: InferenceModelSpec, scaled: Scaled | None) -> InferenceModelSpec:
    """With as many replicas as there should be now."""
    return spec if scaled is None else spec.model_copy(update={"replicas": scaled.replicas})


def proving(spec: InferenceModelSpec, scaled: Scaled | None) -> InferenceModelSpec:
    """For what has not answered yet: somebody has to, before it may rest or take over."""
    return spec if scaled is None or spec.replicas > 0 else spec.model_copy(update={"replicas": 1})


def sized(workload: Resource, replicas: int) -> Resource:
    return replace(workload, spec={**workload.spec, "replicas": replicas})


def recorded(told: InferenceModelStatus, scaled: Scaled | None, now: datetime) -> dict[str, Any]:
    """What the status says of it: as before, unless there should be another number."""
    wanted = None if scaled is None else scaled.replicas
    if wanted == told.desired_replicas:
        return {}
    if scaled is None or wanted is None:
        return {"desired_replicas": None, "desired_since": None, "desired_reason": ""}
    why = _reason(told.desired_replicas, wanted, scaled)
    return {"desired_replicas": wanted, "desired_since": format_time(now), "desired_reason": why}


def note(told: InferenceModelStatus, status: InferenceModelStatus) -> Note | None:
    before, now = told.desired_replicas, status.desired_replicas
    if before is None or now is None or before == now:
        return None
    return Note("Scaled", f"from {before} to {now} replicas: {status.desired_reason}")


def _reason(before: int | None, wanted: int, scaled: Scaled) -> str:
    if before is None:
        return "to start with"
    if wanted < before:
        return f"nobody asked for {scaled.quiet:g} s" if not wanted else f"no more were needed for {scaled.quiet:g} s"
    flying = math.ceil(scaled.in_flight)
    return f"{flying} in flight" if flying else "somebody asks" if not before else "autoScale says so"
