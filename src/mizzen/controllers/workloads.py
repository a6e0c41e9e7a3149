"""The controller of Workloads: the only one with side effects outside the store. It runs processes through an Engine.

`load` calls the engine and keeps its observation; `decide` only reports that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar

from mizzen.engines.engine import Engine, Observation
from mizzen.errors import Invalid
from mizzen.kinds import catalog
from mizzen.kinds.catalog import NOTHING_KNOWN
from mizzen.kinds.schema import conditions
from mizzen.kinds.schema.resource import ENGINE_FINALIZER, Condition, Ref, Resource
from mizzen.kinds.workload import ReplicaStatus, WorkloadStatus
from mizzen.reconcile.controller import Decision, find
from mizzen.reconcile.recorder import EventNote
from mizzen.reconcile.workloads import false_condition
from mizzen.stores.store import Store

WHILE_DELETING = 0.2
WHILE_UNSETTLED = 0.5
SAFETY_NET = 30.0
"""Seconds. The engine reports changes; this poll finds one that it missed."""

_UNSETTLED = frozenset({"starting", "waiting", "stopping"})
_REASONS = {"failed": "Failed", "waiting": "BackOff", "starting": "Starting", "stopping": "Stopping", "ended": "Ended"}
"""Why no replica is available, the most informative reason first."""


@dataclass(frozen=True, slots=True)
class WorkloadFacts:
    resource: Resource
    observation: Observation = field(default_factory=Observation)
    gone: bool = False
    """The engine has nothing left of a Workload that is being deleted."""
    fault: str = ""
    """Why the engine cannot run this spec at all."""
    children: ClassVar[tuple[Resource, ...]] = ()


class Workloads:
    kind = "Workload"
    watches: tuple[str, ...] = ()

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def keys(self, resource: Resource) -> Iterable[Ref]:
        return ()

    async def load(self, store: Store, ref: Ref) -> WorkloadFacts | None:
        workload = await find(store, ref)
        if workload is None:
            return None
        if workload.deleting:
            return WorkloadFacts(workload, gone=await self._engine.delete(workload))
        try:
            return WorkloadFacts(workload, observation=await self._engine.apply(workload))
        except Invalid as fault:
            return WorkloadFacts(workload, fault=fault.message)

    def decide(self, facts: WorkloadFacts, now: datetime) -> Decision:
        if facts.gone:
            return Decision(drop_finalizers=frozenset({ENGINE_FINALIZER}))
        if facts.resource.deleting:
            return Decision(requeue_after=WHILE_DELETING)
        replicas = facts.observation.replicas if not facts.fault else _replicas_after_fault(facts)
        unsettled = any(replica.state in _UNSETTLED for replica in replicas)
        accepted, _ = catalog.check_accepted(facts.resource, NOTHING_KNOWN)
        available = _available_condition(replicas, facts.fault)
        # The condition explains why no replica is ready. It does not cover one replica among others that ended, nor one
        # that is already restarting.
        quiet = available.true or available.reason in conditions.EXPECTED_REASONS
        notes = tuple(_list_ended(WorkloadStatus.of(facts.resource).replicas, replicas)) if quiet else ()
        return Decision(
            status=WorkloadStatus(
                replicas=replicas,
                conditions=(accepted, available),
                # The template is the same, so a signature that one replica reported holds until another one differs.
                signature=facts.observation.signature or WorkloadStatus.of(facts.resource).signature,
            ),
            requeue_after=WHILE_UNSETTLED if unsettled else SAFETY_NET,
            notes=notes,
        )


def _replicas_after_fault(facts: WorkloadFacts) -> tuple[ReplicaStatus, ...]:
    """Replicas that were ready keep serving. Otherwise one failed replica reports that the spec cannot run."""
    reported = WorkloadStatus.of(facts.resource).replicas
    if any(replica.state == "ready" for replica in reported):
        return reported
    return (ReplicaStatus.model_validate({"index": 0, "state": "failed", "message": facts.fault}),)


def _list_ended(reported: tuple[ReplicaStatus, ...], seen: tuple[ReplicaStatus, ...]) -> Iterator[EventNote]:
    """Notes about replicas that ended since the last status: those waiting for a restart, or already restarted."""
    before = {replica.index: replica for replica in reported}
    for replica in seen:
        was = before.get(replica.index)
        if was is None or was.state in ("waiting", "failed"):
            continue
        if replica.state in ("waiting", "failed") or replica.restarts > was.restarts:
            message = replica.message or "ended and was restarted"
            yield EventNote("ReplicaEnded", f"replica {replica.index}: {message}", warning=True)


def _available_condition(replicas: tuple[ReplicaStatus, ...], fault: str) -> Condition:
    ready = sum(replica.state == "ready" for replica in replicas)
    if ready:
        message = f"{ready} of {len(replicas)} replicas ready"
        return Condition(type="Available", status="True", reason="ReplicasReady", message=message)
    reason, message = ("InvalidSpec", fault) if fault else _explain_unavailable(replicas)
    return false_condition("Available", reason, message)


def _explain_unavailable(replicas: tuple[ReplicaStatus, ...]) -> tuple[str, str]:
    for state, reason in _REASONS.items():
        reported = [replica for replica in replicas if replica.state == state]
        if reported:
            best = next((replica for replica in reported if replica.message), reported[0])
            return reason if state == "ended" else best.reason or reason, best.message
    return "NoReplicas", "there are no replicas"
