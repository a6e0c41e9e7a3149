from __future__ import annotations

from dataclasses import replace

import pytest

from mizzen.controllers.versions import VersionFacts, Versions
from mizzen.kinds.schema.findings import Context
from mizzen.kinds.schema.resource import Condition, Ref, Resource
from tests.support.controllers.objects import NOW, inference_model, ready, version
from tests.support.golden import Golden
from tests.support.reconcile import virtual
from tests.support.reconcile.memory import CountingStore, MemoryStore


def known(status: str, reason: str) -> Resource:
    condition = Condition.model_validate({"type": "Servable", "status": status, "reason": reason, "message": "before"})
    return replace(version("1"), status={"conditions": [condition.wire()]})


ANSWERS = inference_model("a", "1", serving="1", ready=ready())
FAILED = inference_model("b", "1", ready=ready("False", "LoadFailed", message="no module named x"))
STARTING = inference_model("c", "1", ready=ready("False", "Starting"))
FAILED_WITH_ANOTHER = inference_model("d", "1", generation=2, ready=ready("False", "LoadFailed"))
SWITCHED_AWAY = inference_model("e", "2", serving="1", ready=ready("False", "LoadFailed", message="of 2"))


@pytest.mark.parametrize(
    ("resource", "serving", "status", "reason"),
    [
        (version("1"), (), "Unknown", "NotServedYet"),
        (version("1"), (STARTING,), "Unknown", "NotServedYet"),
        (version("1"), (ANSWERS,), "True", "Served"),
        (version("1"), (FAILED,), "False", "LoadFailed"),
        (version("1"), (FAILED, ANSWERS), "True", "Served"),
        (version("1"), (FAILED_WITH_ANOTHER,), "Unknown", "NotServedYet"),
        (version("1"), (SWITCHED_AWAY,), "Unknown", "NotServedYet"),
        (known("True", "Served"), (), "True", "Served"),
        (known("True", "Served"), (STARTING,), "True", "Served"),
        (known("False", "LoadFailed"), (STARTING,), "False", "LoadFailed"),
        (known("False", "LoadFailed"), (ANSWERS,), "True", "Served"),
    ],
)
def test_servable(resource: Resource, serving: tuple[Resource, ...], status: str, reason: str) -> None:
    decision = Versions(Context()).decide(VersionFacts(resource, serving), NOW)
    assert decision.status is not None
    accepted, servable = decision.status.conditions
    assert (accepted.type, accepted.status) == ("Accepted", "True")
    assert (servable.type, servable.status, servable.reason) == ("Servable", status, reason)


def test_the_message_is_the_one_of_the_failure(golden: Golden) -> None:
    decision = Versions(Context()).decide(VersionFacts(version("1"), (FAILED,)), NOW)
    assert decision.status is not None
    golden.check(decision.status.conditions[1].message)


def test_a_bad_stored_spec_is_told_and_loses_nothing() -> None:
    broken = replace(known("True", "Served"), spec={**version("1").spec, "framework": 7})
    decision = Versions(Context()).decide(VersionFacts(broken, ()), NOW)
    assert decision.status is not None
    accepted, servable = decision.status.conditions
    assert (accepted.status, accepted.reason) == ("False", "InvalidSpec")
    assert (servable.status, servable.message) == ("True", "before")


def test_keys_are_the_version_asked_for_and_the_one_serving() -> None:
    assert set(Versions(Context()).keys(inference_model(target="v2", serving="1"))) == {
        Ref("ModelVersion", "iris.1"),
        Ref("ModelVersion", "iris.2"),
    }
    assert list(Versions(Context()).keys(inference_model(replicas="many"))) == []


def test_load_finds_who_serves_it() -> None:
    async def main() -> None:
        store, versions = MemoryStore(), Versions(Context())
        await store.create(version("1"), "ann")
        for resource in (inference_model("a", "1"), inference_model("b", "2"), inference_model("c", "1")):
            versions.keys(await store.create(resource, "ann"))

        async def serving() -> list[str]:
            facts = await versions.load(store, Ref("ModelVersion", "iris.1"))
            assert facts is not None
            return [item.meta.name for item in facts.inference_models]

        assert await serving() == ["a", "c"]
        await store.delete(Ref("InferenceModel", "a"), "ann")
        assert await serving() == ["c"]
        moved = await store.get(Ref("InferenceModel", "c"))
        versions.keys(await store.update(replace(moved, spec={**moved.spec, "targetVersion": "2"}), "ann"))
        assert await serving() == []

    virtual.run(main())


def test_a_version_that_nobody_serves_costs_one_get_however_many_servers_there_are() -> None:
    async def main() -> CountingStore:
        store, versions = CountingStore(), Versions(Context())
        await store.create(version("1"), "ann")
        for number in range(50):
            versions.keys(await store.create(inference_model(f"s-{number}", "2"), "ann"))
        await versions.load(store, Ref("ModelVersion", "iris.1"))
        return store

    assert virtual.run(main()).reads == {"gets": 1}
