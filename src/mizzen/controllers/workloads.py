"""Workload -> processes: the one controller that touches the world, through an Engine.

`load` lets the engine act and notes what it saw; `decide` only reports that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime

from mizzen.engines.engine import Engine, Observation
from mizzen.errors import Invalid
from mizzen.kinds import catalog
from mizzen.kinds.catalog import NOTHING_KNOWN
from mizzen.kinds.schema import conditions
from mizzen.kinds.schema.resource import ENGINE_FINALIZER, Condition, Ref, Resource
from mizzen.kinds.workload import ReplicaStatus, WorkloadStatus
from mizzen.reconcile.controller import Decision, find
from mizzen.reconcile.recorder import Note
from mizzen.stores.store import Store

WHILE_DELETING = 0.2
WHILE_UNSETTLED = 0.5
SAFETY_NET = 30.0
"""The engine tells of changes; this finds the one it missed."""

_UNSETTLED = frozenset({"starting", "waiting", "stopping"})
_REASONS = {"failed": "Failed", "waiting": "BackOff", "starting": "Starting", "stopping": "Stopping", "ended": "Ended"}
"""Why nothing is available, the most telling first."""


@dataclass(frozen=True, slots=True)
class WorkloadFacts:
    resource: Resource
    observation: Observation = field(default_factory=Observation)
    gone: bool = False
    """The engine has nothing left of a Workload that is being deleted."""
    fault: str = ""
    """Why the engine cannot run this spec at all."""

    @property
    def children(self) -> tuple[Resource, ...]:
        return ()


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
            return Decision(again=WHILE_DELETING)
        replicas = facts.observation.replicas if not facts.fault else _refused(facts)
        unsettled = any(replica.state in _UNSETTLED for replica in replicas)
        accepted, _ = catalog.accepted(facts.resource, NOTHING_KNOWN)
        available = _available(replicas, facts.fault)
        # What keeps all replicas from answering is told by the condition. It does not tell of one among others that
        # ended, nor of one that is already starting again.
        quiet = available.true or available.reason in conditions.ORDINARY
        notes = tuple(_ended(WorkloadStatus.of(facts.resource).replicas, replicas)) if quiet else ()
        return Decision(
            status=WorkloadStatus(
                replicas=replicas,
                conditions=(accepted, available),
                # Of the same template: what one said holds until another says something else.
                signature=facts.observation.signature or WorkloadStatus.of(facts.resource).signature,
            ),
            again=WHILE_UNSETTLED if unsettled else SAFETY_NET,
            notes=notes,
        )


def _refused(facts: WorkloadFacts) -> tuple[ReplicaStatus, ...]:
    """What served before serves on; else somebody has to say that it never will."""
    told = WorkloadStatus.of(facts.resource).replicas
    if any(replica.state == "ready" for replica in told):
        return told
    return (ReplicaStatus.model_validate({"index": 0, "state": "failed", "message": facts.fault}),)


def _ended(told: tuple[ReplicaStatus, ...], seen: tuple[ReplicaStatus, ...]) -> Iterator[Note]:
    """Of replicas that ended since they were told of: one that waits to be started again, or was already."""
    before = {replica.index: replica for replica in told}
    for replica in seen:
        was = before.get(replica.index)
        if was is None or was.state in ("waiting", "failed"):
            continue
        if replica.state in ("waiting", "failed") or replica.restarts > was.restarts:
            said = replica.message or "ended, and answers again"
            yield Note("ReplicaEnded", f"replica {replica.index}: {said}", warning=True)


def _available(replicas: tuple[ReplicaStatus, ...], fault: str) -> Condition:
    ready = sum(replica.state == "ready" for replica in replicas)
    if ready:
        message = f"{ready} of {len(replicas)} replicas ready"
        return Condition(type="Available", status="True", reason="ReplicasReady", message=message)
    reason, message = ("InvalidSpec", fault) if fault else _why_not(replicas)
    return Condition(type="Available", status="False", reason=reason, message=message)


def _why_not(replicas: tuple[ReplicaStatus, ...]) -> tuple[str, str]:
    for state, reason in _REASONS.items():
        told = [replica for replica in replicas if replica.state == state]
        if told:
            best = next((replica for replica in told if replica.message), told[0])
            return reason if state == "ended" else best.reason or reason, best.message
    return "NoReplicas", "no replica is wanted or known"
