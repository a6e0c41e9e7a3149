"""The condition `Ready` of an InferenceModel: whether the version in the spec is serving, and if not, why."""

from __future__ import annotations

from datetime import datetime, timedelta

from mizzen.kinds.schema.resource import Condition, Resource, parse_time
from mizzen.kinds.serving import InferenceModelSpec
from mizzen.kinds.workload import ReplicaStatus, WorkloadStatus
from mizzen.reconcile.workloads import false_condition, is_available

CRASH_LOOP_RESTARTS = 2
"""Restarts after which a replica that waits for the next one is in a crash loop."""
ROUTING = "Routing"
SCALED_TO_ZERO, WAKING = "ScaledToZero", "Waking"
START_LIMIT = timedelta(minutes=10)
"""After this time a replica that is not ready is reported. It is not stopped: a large model may take longer."""


def ready_condition(
    spec: InferenceModelSpec,
    version: str,
    workload: Resource | None,
    now: datetime,
    *,
    switching: bool,
    reloading: bool = False,
    routing: bool = False,
    scaled: bool = False,
    was_scaled_to_zero: bool = False,
) -> Condition:
    """`Ready` for the version in the spec. It is False while the previous Workload, or the previous files, still serve.

    `spec.replicas` is the desired number; `scaled` says that the load determined it. A model scaled to zero counts as
    ready, and so does one that is starting again from zero (`was_scaled_to_zero`): its requests wait for a replica.
    """
    if spec.replicas == 0:
        return _ready_at_zero(version) if scaled else false_condition("Ready", "NoReplicas", "spec.replicas is 0")
    if reloading:
        message = f"replicas are loading the files of version {version}; the previous files keep serving"
        return false_condition("Ready", "Reloading", message)
    replicas = WorkloadStatus.of(workload).replicas if workload else ()
    if workload is not None and is_available(workload) and not switching:
        if routing:
            return false_condition("Ready", ROUTING, f"version {version} is ready; gateways do not route to it yet")
        return Condition(type="Ready", status="True", reason="Serving", message=f"version {version} is serving")
    reason, message = _explain_not_ready(replicas)
    late = workload is not None and not is_available(workload) and start_time_left(workload, now) <= 0
    if reason == "Starting" and late:
        minutes = START_LIMIT // timedelta(minutes=1)
        reason, message = "NotReadyInTime", f"not ready after {minutes} minutes; check its log. {message}"
    if was_scaled_to_zero and reason == "Starting" and not switching:
        return Condition(type="Ready", status="True", reason=WAKING, message=f"requests wait for a replica; {message}")
    if switching:
        message = f"{message}; the previous replicas keep serving"
    return false_condition("Ready", reason, message)


def start_time_left(workload: Resource | None, now: datetime) -> float:
    """Seconds left for the Workload to become ready, or ready again; 0 when it is."""
    if workload is None or is_available(workload):
        return 0.0
    condition = WorkloadStatus.of(workload).condition("Available")
    since = parse_time(condition.last_transition_time) if condition is not None else None
    return ((since or now) + START_LIMIT - now).total_seconds()


def _ready_at_zero(version: str) -> Condition:
    message = f"version {version} is scaled to zero; the next request starts a replica and waits for it"
    return Condition(type="Ready", status="True", reason=SCALED_TO_ZERO, message=message)


def _explain_not_ready(replicas: tuple[ReplicaStatus, ...]) -> tuple[str, str]:
    for replica in replicas:
        if replica.state == "failed":
            return "LoadFailed", replica.message or f"replica {replica.index} failed; see its log"
    for replica in replicas:
        if replica.reason:
            return replica.reason, replica.message
    for replica in replicas:
        if replica.state == "waiting" and replica.restarts >= CRASH_LOOP_RESTARTS:
            ended = f"replica {replica.index} ended {replica.restarts} times; see its log"
            return "CrashLoop", replica.message or ended
    message = next((replica.message for replica in replicas if replica.message), "")
    return "Starting", message or "waiting for the first replica to become ready"
