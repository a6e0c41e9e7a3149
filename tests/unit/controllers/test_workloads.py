from __future__ import annotations

from dataclasses import replace

import pytest

from mizzen.controllers.workloads import SAFETY_NET, WHILE_DELETING, WHILE_UNSETTLED, WorkloadFacts, Workloads
from mizzen.engines.engine import Observation
from mizzen.errors import Invalid
from mizzen.kinds.schema.resource import ENGINE_FINALIZER, Resource
from mizzen.kinds.workload import WorkloadStatus
from mizzen.reconcile.controller import Decision
from tests.support.controllers.objects import NOW, replica, workload
from tests.support.reconcile import virtual
from tests.support.reconcile.memory import MemoryStore
from tests.unit.controllers.engine import ScriptedEngine


def decide(facts: WorkloadFacts) -> Decision:
    return Workloads(ScriptedEngine()).decide(facts, NOW)


@pytest.mark.parametrize(
    ("states", "status", "reason", "message", "again"),
    [
        ((), "False", "NoReplicas", "", SAFETY_NET),
        (("starting",), "False", "Starting", "starting", WHILE_UNSETTLED),
        (("ready",), "True", "ReplicasReady", "1 of 1", SAFETY_NET),
        (("starting", "ready"), "True", "ReplicasReady", "1 of 2", WHILE_UNSETTLED),
        (("starting", "waiting"), "False", "BackOff", "waiting", WHILE_UNSETTLED),
        (("waiting", "failed"), "False", "Failed", "failed", WHILE_UNSETTLED),
        (("failed",), "False", "Failed", "failed", SAFETY_NET),
        (("stopping",), "False", "Stopping", "stopping", WHILE_UNSETTLED),
        (("ended",), "False", "Ended", "ended", SAFETY_NET),
    ],
)
def test_what_was_seen_is_reported(
    states: tuple[str, ...], status: str, reason: str, message: str, again: float
) -> None:
    replicas = tuple(replica(index, state, message=f"it is {state}") for index, state in enumerate(states))
    decision = decide(WorkloadFacts(workload("w"), observation=Observation(replicas)))
    assert decision.requeue_after == again
    assert isinstance(decision.status, WorkloadStatus)
    assert decision.status.replicas == replicas
    available = decision.status.condition("Available")
    assert available is not None
    assert (available.status, available.reason) == (status, reason)
    assert message in available.message


def test_deletion_is_asked_for_until_nothing_is_left() -> None:
    going = workload("w", deleting=True)
    assert decide(WorkloadFacts(going)) == Decision(requeue_after=WHILE_DELETING)
    assert decide(WorkloadFacts(going, gone=True)) == Decision(drop_finalizers=frozenset({ENGINE_FINALIZER}))


class RefusingEngine(ScriptedEngine):
    async def apply(self, workload: Resource) -> Observation:
        raise Invalid("spec.command is missing")


def refused(given: Resource) -> WorkloadStatus:
    async def main() -> Decision:
        store, controller = MemoryStore(), Workloads(RefusingEngine())
        stored = await store.create(given, "ann")
        await store.update_status(replace(stored, status=given.status), "ann")
        facts = await controller.load(store, stored.ref)
        assert facts is not None
        return controller.decide(facts, NOW)

    status = virtual.run(main()).status
    assert isinstance(status, WorkloadStatus)
    return status


def test_a_spec_the_engine_cannot_run_is_told_as_a_failure() -> None:
    status = refused(workload("w", "starting"))
    available = status.condition("Available")
    assert available is not None
    assert (available.reason, available.message) == ("InvalidSpec", "spec.command is missing")
    assert [(told.state, told.message) for told in status.replicas] == [("failed", "spec.command is missing")]


def test_what_serves_with_a_spec_that_can_no_longer_be_read_serves_on() -> None:
    given = workload("w", "ready")
    assert refused(given).replicas == WorkloadStatus.of(given).replicas
