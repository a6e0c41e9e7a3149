from __future__ import annotations

from dataclasses import replace

import pytest

from mizzen.controllers.models import ModelFacts, Models
from mizzen.kinds.meta import Ref, Resource, format_time
from mizzen.kinds.model import Current, ModelStatus
from mizzen.reconcile.controller import Decision
from tests.unit.controllers.objects import NOW, inference_model, model, ready, version
from tests.unit.reconcile import virtual
from tests.unit.reconcile.memory import MemoryStore


def decide(resource: Resource, *serving: Resource, versions: str = "12345") -> Decision:
    return Models().decide(ModelFacts(resource, serving, frozenset(versions) | {"beta"}), NOW)


def served(number: str, *, since: str = "t0", deleting: bool = False) -> Resource:
    return inference_model(f"iris-{number}", number, serving=number, ready=ready(since=since), deleting=deleting)


def with_previous(resource: Resource, previous: str) -> Resource:
    return replace(resource, status=dict(resource.status) | {"previous": previous})


LATEST = model(track="latest")


@pytest.mark.parametrize(
    ("resource", "serving", "chosen"),
    [
        (model(), (), None),
        (model(), (served("1"),), "1"),
        (model(), (served("2", since="t1"), served("3", since="t0")), "3"),
        (model(), (served("beta"),), "beta"),
        (model(), (inference_model("iris-1", "1", ready=ready("False", "Starting")),), None),
        (model(), (served("1", deleting=True),), None),
        (model(), (served("9"),), None),  # a version that was deleted while it was served
        (model(current="1"), (served("1"), served("2")), None),
        (model(current="1"), (served("2"),), None),
        (model(deleting=True), (served("1"),), None),
        (LATEST, (served("2", since="t1"), served("3"), served("1")), "3"),
        (LATEST, (served("beta"),), "beta"),
        (model(track="latest", current="2"), (served("2"), served("3")), "3"),
        (model(track="latest", current="3"), (served("2"),), None),
        (model(track="latest", current="beta"), (served("2"),), "2"),
        (model(track="latest", current="2"), (served("beta"),), None),
        (with_previous(model(track="latest", current="2"), "3"), (served("2"), served("3")), None),
        (with_previous(model(track="latest", current="2"), "3"), (served("2"), served("3"), served("4")), "4"),
    ],
)
def test_which_version_becomes_current(resource: Resource, serving: tuple[Resource, ...], chosen: str | None) -> None:
    decision = decide(resource, *serving)
    if chosen is None:
        assert decision == Decision()
        return
    assert isinstance(decision.status, ModelStatus)
    assert decision.status.current is not None
    assert decision.status.current.version == chosen


def test_the_promotion_is_recorded_with_the_actor_and_the_rest_is_carried_over() -> None:
    serving = inference_model("i", "2", serving="2", ready=ready(), annotations={"mizzen.dev/actor": "bob"})
    assert decide(model(track="latest", current="1"), serving) == Decision(
        status=ModelStatus(
            highest_version=9,
            current=Current(version="2", actor="bob", time=format_time(NOW)),
            previous="1",
        ),
        decision="promoted",
        actor="bob",
    )
    assert decide(model(), served("1")).actor == "system"


def test_load_gathers_what_belongs_to_the_model() -> None:
    async def main() -> ModelFacts | None:
        store = MemoryStore()
        for resource in (
            model(), inference_model("mine"), inference_model("other", model_name="rose"),
            version("1"), version("1", "rose"), version("2", artifacts=[]),
        ):  # fmt: skip
            await store.create(resource, "ann")
        assert await Models().load(store, Ref("Model", "rose")) is None
        return await Models().load(store, Ref("Model", "iris"))

    facts = virtual.run(main())
    assert facts is not None
    assert [item.meta.name for item in facts.inference_models] == ["mine"]
    assert facts.versions == {"1"}


def test_keys() -> None:
    assert list(Models().keys(inference_model())) == [Ref("Model", "iris")]
    assert list(Models().keys(version("1"))) == [Ref("Model", "iris")]
    assert list(Models().keys(replace(version("1"), spec={"modelName": 7}))) == []
