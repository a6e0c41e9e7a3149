"""TrainingJobs as tests want them, and what runners report of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from mizzen.controllers.training import decide
from mizzen.controllers.training.admission_queue import Admission
from mizzen.controllers.training.facts import SavedCheckpoints, TrainingFacts
from mizzen.kinds.schema.findings import Context
from mizzen.kinds.schema.resource import Condition, Resource, format_time, merge_conditions
from mizzen.kinds.training import TrainingJobStatus
from mizzen.reconcile.controller import Decision
from tests.support.controllers.objects import DIGEST, NOW, meta

ADMITTED = Admission(admitted=True)
KNOWN = Context()


def code(number: str = "3", *, path: str = "train.py", trusted: bool = True, **spec: Any) -> Resource:
    artifacts = [{"path": path, "digest": DIGEST, "size": 1, "trusted": trusted}]
    given = {"modelName": "iris", "version": number, "framework": "python", "artifacts": artifacts} | spec
    return Resource("ModelVersion", meta(f"iris.{number}"), given)


def job(
    name: str = "job", *, status: Mapping[str, Any] | None = None, created: datetime = NOW, **spec: Any
) -> Resource:
    given = {"modelName": "iris", "version": "3"} | spec
    annotations = {"mizzen.dev/trusted": "true"}
    return Resource("TrainingJob", meta(name, created=created, annotations=annotations), given, status or {})


def started(**spec: Any) -> Resource:
    """One that has its share, and addresses where it needs some."""
    made = job(**spec)
    ports = {"worker-0": 20_000, "worker-1": 20_001, "chief-0": 20_002, "ps-0": 20_003, "evaluator-0": 20_004}
    return replace(made, status={"admitted": True, "ports": ports, "state": "Queued"})


def reported(workload: Resource, state: str, code: int | None = None, **more: Any) -> Resource:
    """A Workload of which this was seen, of the attempt it has."""
    attempt = workload.spec["task"]["attempt"]
    said = {"index": 0, "state": state, "attempt": attempt, **more}
    if state == "ended":
        said |= {"exitCode": code, "ended": more.get("ended") or format_time(NOW)}
    seen = {"replicas": [said], "observedGeneration": workload.meta.generation}
    return replace(workload, status=seen)


def applied(facts: TrainingFacts, decision: Decision, now: datetime) -> TrainingFacts:
    """As `reconcile.apply` would leave it: the status is written, and children that are not wanted are gone."""
    resource = facts.resource
    if decision.status is not None:
        conditions = merge_conditions(
            TrainingJobStatus.of(resource).conditions,
            decision.status.conditions,
            generation=resource.meta.generation,
            now=now,
        )
        resource = resource.with_status(decision.status.model_copy(update={"conditions": conditions}))
    there = {child.meta.name: child for child in facts.children}
    children = []
    for wanted in decision.children:
        old = there.get(wanted.meta.name)
        if old is None:
            made = replace(wanted.meta, uid=f"uid-{wanted.meta.name}", generation=1, owners=(resource.as_owner,))
            children.append(replace(wanted, meta=made))
        elif old.spec != wanted.spec:
            children.append(replace(old, spec=wanted.spec, meta=replace(old.meta, generation=old.meta.generation + 1)))
        else:
            children.append(old)
    return replace(facts, resource=resource, children=tuple(children))


def phases(status: TrainingJobStatus) -> list[str]:
    """Those that hold, of which there should be one."""
    names = ("Queued", "Running", "Restarting", "Suspended", "Succeeded", "Failed")
    return [name for name in names if status.is_true(name)]


class Set:
    """One job set, decided about again and again, as the loop would."""

    def __init__(self, resource: Resource, **facts: Any) -> None:
        given: dict[str, Any] = {"version": code(), "admission": ADMITTED, "saved": SavedCheckpoints()} | facts
        self.facts = TrainingFacts(resource, **given)
        self.now = NOW

    def look(self, after: float = 0.0, **facts: Any) -> Decision:
        self.now += timedelta(seconds=after)
        self.facts = replace(self.facts, **facts)
        decision = decide.decide(self.facts, KNOWN, "here", self.now)
        self.facts = applied(self.facts, decision, self.now)
        return decision

    def sees(self, replica: str, state: str, code: int | None = None, **more: Any) -> None:
        name = f"{self.facts.resource.meta.name}.{replica}"
        children = tuple(
            reported(child, state, code, **more) if child.meta.name == name else child for child in self.facts.children
        )
        self.facts = replace(self.facts, children=children)

    def change(self, **spec: Any) -> None:
        resource = self.facts.resource
        self.facts = replace(self.facts, resource=replace(resource, spec={**resource.spec, **spec}))

    def end(self, **status: Any) -> None:
        resource = self.facts.resource
        self.facts = replace(self.facts, resource=replace(resource, status={**resource.status, **status}))

    @property
    def status(self) -> TrainingJobStatus:
        return TrainingJobStatus.of(self.facts.resource)

    @property
    def running(self) -> dict[str, int]:
        """Attempts by replica."""
        return {child.meta.name.partition(".")[2]: child.spec["task"]["attempt"] for child in self.facts.children}

    @property
    def states(self) -> dict[str, str]:
        return {replica.name: replica.state for replica in self.status.replica_states}

    def condition(self, type_: str) -> Condition:
        found = self.status.condition(type_)
        assert found is not None, [each.type for each in self.status.conditions]
        return found

    @property
    def why(self) -> tuple[str, str]:
        """The phase it is in, and the reason for that."""
        [phase] = phases(self.status)
        assert self.status.state == phase
        return phase, self.condition(phase).reason


def running(**spec: Any) -> Set:
    """One whose replicas all run."""
    made = Set(started(**spec))
    made.look()
    for replica in made.running:
        made.sees(replica, "ready")
    made.look()
    return made
