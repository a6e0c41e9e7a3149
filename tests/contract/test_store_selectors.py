"""What every store promises about labels and fields: a selection is what a look at every object would find."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mizzen.errors import BadRequest
from mizzen.kinds import catalog
from mizzen.kinds.schema.resource import Meta, OwnerReference, Resource
from mizzen.kinds.text import selectors
from mizzen.kinds.text.selectors import Requirement, parse
from mizzen.stores.store import Store, Where
from tests.contract.stores import Opener, every_store, model, on_every_store, opened, version, with_meta

NAMESPACES = ("a", "b", "c")
VALUES = ("x", "y", "")
KEYS = ("k", "l.m/n")


def population() -> list[Resource]:
    """Versions of three models in three namespaces, with all mixtures of labels and two owners."""
    mixtures = [
        {key: value for key, value in zip(KEYS, values, strict=True) if value is not None}
        for values in itertools.product((*VALUES, None), repeat=2)
    ]
    owners: list[tuple[OwnerReference, ...]] = [(), (OwnerReference("Model", "o", "u1"),)]
    owners.append((*owners[1], OwnerReference("Model", "p", "u2")))
    made = []
    for i, labels in enumerate(mixtures * 3):
        one = version(f"m{i % 3}", str(i % 7), NAMESPACES[i // len(mixtures)])
        one = with_meta(one, name=f"{one.meta.name}-{i % 16}", labels=labels, owners=owners[i % 5 % 3])
        made.append(one)
    return made


EVERYBODY = population()


def taken(where: Where, one: Resource) -> bool:
    fields = {"metadata.name": one.meta.name, "metadata.namespace": one.meta.namespace}
    return (
        where.namespace in (None, one.meta.namespace)
        and selectors.holds(where.labels, one.meta.labels)
        and (where.owner is None or where.owner in {owner.uid for owner in one.meta.owners})
        and all((fields.get(path) or catalog.field(one, path)) == value for path, value in where.fields.items())
    )


def requirements() -> st.SearchStrategy[Requirement]:
    many = frozenset(map(str, range(40)))
    values = st.one_of(st.frozensets(st.sampled_from((*VALUES, "none"))), st.sampled_from([many, many | {"x", "y"}]))
    keys = st.sampled_from((*KEYS, "none"))
    return st.one_of(
        st.builds(Requirement, keys, st.sampled_from(["in", "notin"]), values),
        st.builds(Requirement, keys, st.sampled_from(["exists", "absent"])),
    )


def selections() -> st.SearchStrategy[Where]:
    some = [None, *NAMESPACES, "none"]
    fields = st.fixed_dictionaries(
        {},
        optional={
            "metadata.name": st.sampled_from([EVERYBODY[0].meta.name, EVERYBODY[20].meta.name, "none"]),
            "metadata.namespace": st.sampled_from(NAMESPACES),
            "spec.modelName": st.sampled_from(["m0", "m1", "none"]),
        },
    )
    return st.builds(
        Where,
        namespace=st.sampled_from(some),
        labels=st.lists(requirements(), max_size=3).map(tuple),
        fields=fields,
        owner=st.sampled_from([None, None, "u1", "u2", "none"]),
    )


@every_store
def test_a_selection_is_what_a_look_at_everything_would_find(opener: Opener, tmp_path: Path) -> None:
    with asyncio.Runner() as runner:
        store = runner.run(opener(tmp_path))
        for one in EVERYBODY:
            runner.run(store.create(one, "ann"))

        async def pages(where: Where, limit: int) -> list[tuple[str, str]]:
            page = await store.list("ModelVersion", where, limit=limit)
            found = [*page.items]
            while page.next is not None:
                page = await store.list("ModelVersion", where, limit=limit, after=page.next)
                assert 0 < len(page.items) <= limit
                found += page.items
            return [(one.meta.namespace, one.meta.name) for one in found]

        @settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
        @given(where=selections(), limit=st.sampled_from([1, 3, 100]))
        def agrees(where: Where, limit: int) -> None:
            wanted = sorted((one.meta.namespace, one.meta.name) for one in EVERYBODY if taken(where, one))
            assert runner.run(pages(where, limit)) == wanted

        try:
            agrees()
        finally:
            runner.run(store.close())


async def names(store: Store, where: Where, kind: str = "Model") -> list[str]:
    return [one.meta.name for one in (await store.list(kind, where)).items]


@on_every_store
async def test_second_names_are_found_by_the_model_they_name(store: Store) -> None:
    texts = {
        "a": "rose",
        "b": "rose:1",
        "c": "rose:v01",
        "d": "rose:beta",
        "e": "lily",
        "f": "rose@prod",
        "g": "rosemary",
    }
    for name, text in texts.items():
        await store.create(model(name, aliasOf=text), "ann")
    await store.create(model("h", aliasOf=7), "ann")
    of_rose = Where(fields={catalog.ALIASED_MODEL: "rose"})
    assert await names(store, of_rose) == ["a", "b", "c", "d"]
    await store.update(model("b", aliasOf="lily:1"), "ann")
    assert await names(store, of_rose) == ["a", "c", "d"]


@on_every_store
async def test_what_is_found_follows_every_change(store: Store) -> None:
    team, alias = Where(labels=parse("team=red")), Where(fields={"spec.aliasOf": "rose"})
    made = await store.create(with_meta(model("iris", aliasOf="rose"), labels={"team": "red"}), "ann")
    assert (await names(store, team), await names(store, alias)) == (["iris"], ["iris"])
    made = await store.update(with_meta(made, labels={"team": "blue"}), "ann")
    assert (await names(store, team), await names(store, alias)) == ([], ["iris"])
    made = await store.update(with_meta(model("iris", aliasOf="lily"), labels={"team": "red"}), "ann")
    assert (await names(store, team), await names(store, alias)) == (["iris"], [])
    await store.update(with_meta(model("iris", aliasOf=["rose"]), labels={"team": "red"}), "ann")
    assert await names(store, alias) == [], "only text is found"
    await store.delete(made.ref, "ann")
    assert (await names(store, team), await names(store, alias)) == ([], [])


@on_every_store
async def test_one_kind_is_not_found_as_another(store: Store) -> None:
    for kind in ("Model", "TrainingJob"):
        one = with_meta(Resource(kind, Meta("iris"), {"modelName": "iris"}), labels={"a": "b"})
        await store.create(one, "ann")
    for where in (Where(labels=parse("a=b")), Where(labels=parse("a")), Where(fields={"metadata.name": "iris"})):
        assert await names(store, where, "Model") == await names(store, where, "TrainingJob") == ["iris"]
    assert await names(store, Where(fields={"spec.modelName": "iris"}), "Monitor") == []


@on_every_store
async def test_a_field_that_is_not_indexed_is_refused_with_those_that_are(store: Store) -> None:
    for kind, path in (("Model", "spec.modelName"), ("ModelVersion", "spec.version"), ("Node", "")):
        with pytest.raises(BadRequest, match=f"{kind} cannot be selected by '{path}'") as refused:
            await store.list(kind, Where(fields={path: "x"}))
        for valid in ("metadata.name", "metadata.namespace", *catalog.BY_NAME[kind].indexed):
            assert valid in refused.value.hint


@on_every_store
async def test_a_token_continues_its_own_selection_only(store: Store) -> None:
    for name in "abc":
        await store.create(with_meta(model(name, aliasOf="x"), labels={"l": "1"}), "ann")
    selected = Where(labels=parse("l=1, m!=2"), fields={"spec.aliasOf": "x"})
    token = (await store.list("Model", selected, limit=1)).next
    assert token is not None
    turned = Where(labels=parse("m!=2,l in (1)"), fields={"spec.aliasOf": "x"})
    assert len((await store.list("Model", turned, after=token)).items) == 2, "the order does not matter"
    for other in (Where(), Where(labels=parse("l=1")), Where(labels=parse("l=1, m!=2"), fields={"spec.aliasOf": "y"})):
        with pytest.raises(BadRequest):
            await store.list("Model", other, after=token)


@every_store
def test_labels_are_found_after_a_restart(opener: Opener, tmp_path: Path) -> None:
    async def body() -> None:
        async with opened(opener, tmp_path) as store:
            await store.create(with_meta(model("iris", aliasOf="x"), labels={"l": "1"}), "ann")
        async with opened(opener, tmp_path) as store:
            assert await names(store, Where(labels=parse("l=1"), fields={"spec.aliasOf": "x"})) == ["iris"]

    asyncio.run(body())
