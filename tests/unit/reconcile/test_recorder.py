"""What `apply` hands to a Recorder: what happened, once it did, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from mizzen.kinds.schema.resource import Condition, Meta, Ref, Resource, Status
from mizzen.reconcile.apply import apply
from mizzen.reconcile.controller import Decision
from mizzen.reconcile.recorder import EventNote, find_condition_changes
from tests.support.reconcile import virtual
from tests.support.reconcile.memory import TIME, MemoryStore
from tests.unit.reconcile.test_apply import OWNER, child, facts, owner


@dataclass(slots=True)
class Heard:
    words: list[str] = field(default_factory=list)

    def record_condition(self, resource: Resource, condition: Condition) -> None:
        self.words.append(f"{resource.meta.name} {condition.type}={condition.status} {condition.reason}")

    def record_created(self, owner: Resource, child: Resource) -> None:
        assert child.meta.uid
        self.words.append(f"{owner.meta.name} made {child.ref}")

    def record_deleted(self, owner: Resource, child: Resource) -> None:
        self.words.append(f"{owner.meta.name} deleted {child.ref}")

    def record_note(self, resource: Resource, note: EventNote) -> None:
        self.words.append(f"{resource.meta.name} {note.reason}: {note.message}")


def conditions(*texts: str) -> tuple[Condition, ...]:
    """`Ready=True Serving`."""
    parts = [text.replace("=", " ").split() for text in texts]
    return tuple(Condition.model_validate({"type": t, "status": s, "reason": r}) for t, s, r in parts)


def having(*texts: str) -> Resource:
    return Resource("Model", Meta("iris")).with_status(Status(conditions=conditions(*texts)))


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ((), ("Accepted=True Accepted", "Servable=Unknown NotServedYet"), []),
        ((), ("Accepted=False InvalidSpec", "Ready=False Starting"), ["InvalidSpec", "Starting"]),
        (("Ready=False Starting",), ("Ready=False Starting",), []),
        (("Ready=False Starting",), ("Ready=False LoadFailed",), ["LoadFailed"]),
        (("Ready=False Starting",), ("Ready=True Serving",), ["Serving"]),
        (("Accepted=False InvalidSpec",), ("Accepted=True Accepted",), []),
        (("Ready=True Serving",), ("Ready=Unknown NotServedYet",), ["NotServedYet"]),
        (("Ready=True Serving",), (), []),
    ],
)
def test_which_conditions_turned(before: tuple[str, ...], after: tuple[str, ...], told: list[str]) -> None:
    assert [condition.reason for condition in find_condition_changes(having(*before), having(*after))] == told


def test_what_happened_is_told_once() -> None:
    async def main() -> None:
        store, heard = MemoryStore(), Heard()
        await owner(store)
        note = EventNote("Promoted", "version 1 became current")
        decision = Decision((child("iris.1"),), Status(conditions=conditions("Ready=False Starting")), notes=(note,))
        for _ in range(2):
            assert await apply(store, await facts(store), decision, TIME, heard)
        assert heard.words == [
            "iris made Workload/iris.1", "iris Ready=False Starting", "iris Promoted: version 1 became current",
        ]  # fmt: skip

        heard.words.clear()
        for _ in range(2):
            assert await apply(store, await facts(store), Decision(), TIME, heard)
        assert heard.words == ["iris deleted Workload/iris.1"]

    virtual.run(main())


def test_what_was_not_written_is_not_told() -> None:
    async def main() -> None:
        store, heard = MemoryStore(), Heard()
        old = await owner(store)
        found = await facts(store)
        await store.update(replace(old, spec={"replicas": 2}), "ann")
        ready = Status(conditions=conditions("Ready=True Serving"))
        assert not await apply(store, found, Decision(status=ready, notes=(EventNote("Promoted", ""),)), TIME, heard)
        assert heard.words == []

    virtual.run(main())


def test_the_end_of_an_owner_tells_of_its_children() -> None:
    async def main() -> None:
        store, heard = MemoryStore(), Heard()
        await owner(store)
        assert await apply(store, await facts(store), Decision((child("iris.1"),)), TIME)
        await store.delete(Ref("InferenceModel", OWNER.name), "ann")
        for _ in range(2):
            assert await apply(store, await facts(store), Decision(), TIME, heard)
        assert heard.words == ["iris deleted Workload/iris.1"]

    virtual.run(main())
