"""The condition `Ready` of an InferenceModel: does what the spec asks for answer, and if not, why?"""

from __future__ import annotations

from datetime import datetime, timedelta

from mizzen.controllers.serving.facts import is_available
from mizzen.kinds.schema.resource import Condition, Resource, parse_time
from mizzen.kinds.serving import InferenceModelSpec
from mizzen.kinds.workload import ReplicaStatus, WorkloadStatus

CRASHES = 2
"""So many restarts, and waiting for the next one, is a crash loop."""
ARRIVING = "Routing"
ASLEEP, WAKING = "ScaledToZero", "Waking"
START_LIMIT = timedelta(minutes=10)
"""After so long, what has not answered yet is told as a trouble. It is not ended: a large model may take its time."""


def ready(
    spec: InferenceModelSpec,
    version: str,
    workload: Resource | None,
    now: datetime,
    *,
    switching: bool,
    reloading: bool = False,
    arriving: bool = False,
    scaled: bool = False,
    rested: bool = False,
) -> Condition:
    """Of what the spec asks for: while the Workload before it still answers, or the same with what it had before, not
    yet. `spec.replicas` says how many there should be now; `scaled`, that the load decided so.

    What rests for want of requests counts as ready, and so does what wakes from it (`rested`): whoever asks is
    answered, if later.
    """
    if spec.replicas == 0:
        return _asleep(version) if scaled else not_true("Ready", "NoReplicas", "spec.replicas is 0")
    if reloading:
        message = f"replicas load the files of version {version} without a restart; what answered before goes on"
        return not_true("Ready", "Reloading", message)
    replicas = WorkloadStatus.of(workload).replicas if workload else ()
    if workload is not None and is_available(workload) and not switching and arriving:
        return not_true("Ready", ARRIVING, f"version {version} could answer; gateways are being told")
    if workload is not None and is_available(workload) and not switching:
        return Condition(type="Ready", status="True", reason="Serving", message=f"version {version} answers")
    reason, message = _why_not(replicas)
    if reason == "Starting" and workload is not None and patience(workload, now) <= 0 and not is_available(workload):
        minutes = START_LIMIT // timedelta(minutes=1)
        reason, message = "NotReadyInTime", f"no answer for {minutes} minutes; its log may say why. {message}"
    if rested and reason == "Starting" and not switching:
        return Condition(type="Ready", status="True", reason=WAKING, message=f"requests wait for a replica; {message}")
    if switching:
        message = f"{message}; what answered before goes on"
    return not_true("Ready", reason, message)


def patience(workload: Resource | None, now: datetime) -> float:
    """Seconds that it has left to become ready, or to be so again; 0 when it is."""
    if workload is None or is_available(workload):
        return 0.0
    condition = WorkloadStatus.of(workload).condition("Available")
    since = parse_time(condition.last_transition_time) if condition is not None else None
    return ((since or now) + START_LIMIT - now).total_seconds()


def _asleep(version: str) -> Condition:
    message = f"version {version} has no replica, since nobody asks; the next request starts one, and waits for it"
    return Condition(type="Ready", status="True", reason=ASLEEP, message=message)


def _why_not(replicas: tuple[ReplicaStatus, ...]) -> tuple[str, str]:
    for replica in replicas:
        if replica.state == "failed":
            return "LoadFailed", replica.message or f"replica {replica.index} gave up; see its log"
    for replica in replicas:
        if replica.reason:
            return replica.reason, replica.message
    for replica in replicas:
        if replica.state == "waiting" and replica.restarts >= CRASHES:
            return (
                "CrashLoop",
                replica.message or f"replica {replica.index} ended {replica.restarts} times; see its log",
            )
    said = next((replica.message for replica in replicas if replica.message), "")
    return "Starting", said or "waiting for the first replica to answer"


def not_true(type_: str, reason: str, message: str) -> Condition:
    return Condition(type=type_, status="False", reason=reason, message=message)
