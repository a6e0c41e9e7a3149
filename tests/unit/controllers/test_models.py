from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mizzen.controllers.models import ModelFacts, Models, answering_aliases
from mizzen.errors import Conflict, NotFound
from mizzen.kinds.model import Current, ModelStatus
from mizzen.kinds.schema.findings import Context
from mizzen.kinds.schema.resource import Condition, Ref, Resource, format_time
from mizzen.reconcile.controller import Decision
from mizzen.reconcile.recorder import EventNote
from tests.support.controllers.objects import NOW, inference_model, model, ready, version
from tests.support.golden import Golden
from tests.support.reconcile import virtual
from tests.support.reconcile.memory import CountingStore, MemoryStore


def decide(resource: Resource, *serving: Resource, versions: str = "12345", first: Resource | None = None) -> Decision:
    return Models(Context()).decide(ModelFacts(resource, serving, frozenset(versions) | {"beta"}, first), NOW)


def served(number: str, *, since: str = "t0", deleting: bool = False) -> Resource:
    return inference_model(f"iris-{number}", number, serving=number, ready=ready(since=since), deleting=deleting)


def with_previous(resource: Resource, previous: str) -> Resource:
    return replace(resource, status=dict(resource.status) | {"previous": previous})


def status_of(decision: Decision) -> ModelStatus:
    assert isinstance(decision.status, ModelStatus)
    return decision.status


def accepted(decision: Decision) -> tuple[str, str, str]:
    condition = status_of(decision).condition("Accepted")
    assert condition is not None
    return condition.status, condition.reason, condition.message


LATEST = model(track="latest")
ACCEPTED = Condition(type="Accepted", status="True", reason="Accepted")


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
        assert decision.decision is None
        before = ModelStatus.of(resource)
        assert decision.status is None or status_of(decision).current == before.current
        return
    current = status_of(decision).current
    assert current is not None
    assert (current.version, decision.decision) == (chosen, "promoted")


def test_the_promotion_is_recorded_with_the_actor_and_the_rest_is_carried_over() -> None:
    serving = inference_model("i", "2", serving="2", ready=ready(), annotations={"mizzen.dev/actor": "bob"})
    assert decide(model(track="latest", current="1"), serving) == Decision(
        status=ModelStatus(
            conditions=(ACCEPTED,),
            highest_version=9,
            current=Current(version="2", actor="bob", time=format_time(NOW)),
            previous="1",
        ),
        decision="promoted",
        actor="bob",
        notes=(EventNote("Promoted", "version 2 became current"),),
    )
    assert decide(model(), served("1")).actor == "system"


def test_what_answers_for_a_name_is_told_when_it_changes() -> None:
    aliased = model(current="1", aliases={"prod": "2"})
    decision = decide(aliased, served("2"))
    assert decision.notes == (EventNote("AliasMoved", "alias 'prod' now points to version 2"),)
    assert decide(aliased.with_status(status_of(decision)), served("2")).notes == ()


def test_load_gathers_what_belongs_to_the_model() -> None:
    async def main() -> ModelFacts | None:
        store = MemoryStore()
        for resource in (
            model(aliases={"prod": "1", "old": "2"}), inference_model("mine"),
            inference_model("other", model_name="rose"), version("1"), version("1", "rose"), version("2", version="-"),
        ):  # fmt: skip
            await store.create(resource, "ann")
        assert await Models(Context()).load(store, Ref("Model", "rose")) is None
        return await Models(Context()).load(store, Ref("Model", "iris"))

    facts = virtual.run(main())
    assert facts is not None
    assert [item.meta.name for item in facts.inference_models] == ["mine"]
    assert facts.versions == {"1"}


@pytest.mark.parametrize("many", [1, 300])
def test_a_look_costs_what_is_named_however_many_versions_there_are(many: int) -> None:
    async def main() -> CountingStore:
        store = CountingStore()
        await store.create(model(aliases={"prod": "1", "old": "7"}), "ann")
        for number in range(1, many + 1):
            await store.create(version(str(number)), "ann")
        await Models(Context()).load(store, Ref("Model", "iris"))
        return store

    assert virtual.run(main()).reads == {"gets": 3, "lists": 1, "listed": 0}


def test_keys() -> None:
    models = Models(Context())
    assert list(models.keys(inference_model())) == [Ref("Model", "iris")]
    assert list(models.keys(version("1"))) == [Ref("Model", "iris")]
    assert list(models.keys(replace(version("1"), spec={"modelName": 7}))) == []


def with_status(resource: Resource, **fields: object) -> Resource:
    return replace(resource, status={**resource.status, **fields})


@pytest.mark.parametrize(
    ("wanted", "told", "serving", "answers"),
    [
        ({"prod": "1"}, {}, (), {}),
        ({"prod": "1"}, {}, (served("1"),), {"prod": "1"}),
        ({"prod": "2"}, {"prod": "1"}, (served("1"),), {"prod": "1"}),
        ({"prod": "2"}, {"prod": "1"}, (served("1"), served("2")), {"prod": "2"}),
        ({"prod": "2"}, {"prod": "1"}, (), {"prod": "1"}),
        ({"prod": "v2"}, {"prod": "1"}, (served("2"),), {"prod": "2"}),
        ({}, {"prod": "1"}, (served("1"),), {}),
        ({"prod": "2"}, {"prod": "2"}, (served("2", deleting=True),), {"prod": "2"}),
    ],
)
def test_an_alias_moves_when_its_version_answers(
    wanted: dict[str, str], told: dict[str, str], serving: tuple[Resource, ...], answers: dict[str, str]
) -> None:
    resource = with_status(model(current="1", aliases=wanted), aliases=told)
    assert status_of(decide(resource, *serving)).aliases == answers


ALIASES, NUMBERS = st.sampled_from(("prod", "beta", "test")), st.sampled_from(("1", "2", "3"))


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("want"), ALIASES, NUMBERS),
            st.tuples(st.just("drop"), ALIASES, st.just("")),
            st.tuples(st.just("up"), st.just(""), NUMBERS),
            st.tuples(st.just("down"), st.just(""), NUMBERS),
        )
    )
)
def test_what_answers_for_an_alias_is_the_newest_wish_that_came_true(steps: list[tuple[str, str, str]]) -> None:
    """Against a slow reference, which goes through all of the past for each alias."""
    wanted: dict[str, str] = {}
    ready: set[str] = set()
    told: dict[str, str] = {}
    past: list[tuple[dict[str, str], set[str]]] = []
    for what, alias, version_ in steps:
        if what == "want":
            wanted[alias] = version_
        elif what == "drop":
            wanted.pop(alias, None)
        else:
            ready = ready | {version_} if what == "up" else ready - {version_}
        past.append((dict(wanted), set(ready)))
        told = answering_aliases(wanted, told, ready)
        assert told == {alias: found for alias in wanted if (found := newest_wish_come_true(past, alias))}


def newest_wish_come_true(past: list[tuple[dict[str, str], set[str]]], alias: str) -> str | None:
    for wanted, answering in reversed(past):
        if alias not in wanted:
            return None  # it was made anew since
        if wanted[alias] in answering:
            return wanted[alias]
    return None


def test_an_alias_of_a_version_that_is_not_there_is_told(golden: Golden) -> None:
    status, reason, message = accepted(decide(model(aliases={"prod": "9"})))
    assert (status, reason) == ("True", "AcceptedWithWarnings")
    golden.check(message)


IRIS = model(current="1")


@pytest.mark.parametrize(
    ("alias_of", "first", "serving", "told", "answers", "reason"),
    [
        ("iris", IRIS, (served("1"),), None, "iris", "Accepted"),
        ("iris", IRIS, (), None, None, "Accepted"),
        ("iris", IRIS, (), "rose", "rose", "Accepted"),
        ("iris:2", IRIS, (served("1"), served("2")), "rose", "iris:2", "Accepted"),
        ("iris:v2", IRIS, (served("2"),), None, "iris:2", "Accepted"),
        ("iris:2", IRIS, (served("1"),), "iris:1", "iris:1", "Accepted"),
        ("iris:9", IRIS, (served("1"),), "iris", "iris", "VersionNotFound"),
        ("iris", model(), (served("1"),), None, None, "Accepted"),
        ("iris", None, (), "iris", "iris", "ModelNotFound"),
        ("iris", model(deleting=True), (), None, None, "ModelNotFound"),
        ("iris", model(aliasOf="rose"), (served("1"),), None, None, "AliasChain"),
        ("lily", model("lily"), (), None, None, "InvalidSpec"),
        ("Not A Name", None, (), "iris", "iris", "InvalidSpec"),
    ],
)
def test_a_second_name_answers_like_the_first_once_that_does(
    alias_of: str, first: Resource | None, serving: tuple[Resource, ...], told: str | None, answers: str | None,
    reason: str,
) -> None:  # fmt: skip
    resource = with_status(model("lily", aliasOf=alias_of), **({"aliasOf": told} if told else {}))
    decision = decide(resource, *serving, first=first)
    assert status_of(decision).alias_of == answers
    assert accepted(decision)[1] == reason
    assert status_of(decision).current is None


def test_a_spec_that_cannot_be_read_keeps_what_answers() -> None:
    broken = with_status(model(current="1", track=7), aliases={"prod": "1"})
    decision = decide(broken, served("1"), served("2"))
    assert accepted(decision)[:2] == ("False", "InvalidSpec")
    assert (status_of(decision).aliases, status_of(decision).highest_version) == ({"prod": "1"}, 9)


def test_what_happens_to_a_model_wakes_its_second_names() -> None:
    async def main() -> None:
        store, models = MemoryStore(), Models(Context())
        second = await store.create(model("lily", aliasOf="iris"), "ann")
        iris = Ref("Model", "iris")
        facts = await models.load(store, second.ref)
        assert facts is not None
        assert facts.aliased is None
        assert list(models.keys(model())) == [iris, second.ref]
        assert list(models.keys(inference_model())) == [iris, second.ref]
        await store.delete(second.ref, "ann")
        assert await models.load(store, second.ref) is None
        assert list(models.keys(model())) == [iris]

    virtual.run(main())


def test_a_promotion_is_refused_when_what_was_to_be_promoted_has_gone() -> None:
    async def main() -> None:
        store = MemoryStore()
        serving = served("1")
        stored = await store.create(serving, "ann")
        await store.update_status(replace(stored, status=serving.status), "ann")
        await store.create(version("1"), "ann")
        guard = decide(model(), serving).guard
        assert guard is not None
        await store.check(guard)
        await store.delete(serving.ref, "ann")
        with pytest.raises(Conflict, match="is no longer served"):
            await store.check(guard)
        await store.delete(Ref("ModelVersion", "iris.1"), "ann")
        with pytest.raises(NotFound):
            await store.check(guard)

    virtual.run(main())
