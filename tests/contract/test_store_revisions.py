"""What every store promises about Revision: history as objects, to get, list and watch, but never to write."""

from __future__ import annotations

import asyncio
import hashlib
import json
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest

from mizzen.errors import BadRequest, Expired, Forbidden, NotFound
from mizzen.kinds.revision import RevisionSpec, revision_name
from mizzen.kinds.schema.resource import Meta, Ref, Resource, format_time
from mizzen.kinds.text.selectors import equal, parse
from mizzen.stores.store import Present, Store, Where
from tests.contract.stores import Opener, every_store, model, on_every_store, opened, take, version, watching


def names(resources: tuple[Resource, ...]) -> list[str]:
    return [f"{one.meta.namespace}/{one.meta.name}" for one in resources]


@on_every_store
async def test_an_entry_of_history_is_an_object(store: Store) -> None:
    made = await store.create(model("iris", b=1, a={"d": 1.0, "c": "é"}), "ann")
    changed = await store.update(replace(made, spec={"n": 2}), "bob")
    first, second = await store.history(made.ref)
    revision = await store.get(Ref("Revision", "model.iris.1"))
    assert revision.meta == Meta(
        "model.iris.1", uid=revision.meta.uid, resource_version="1", generation=1, created=first.time
    )
    spec = RevisionSpec.of(revision)
    assert (spec.kind, spec.name, spec.uid, spec.model, spec.number) == ("Model", "iris", made.meta.uid, "iris", 1)
    assert (spec.action, spec.actor, spec.time) == ("created", "ann", format_time(first.time))
    assert (spec.before, spec.after) == (None, made.spec)
    canonical = json.dumps(made.spec, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert spec.hash == hashlib.sha256(canonical.encode()).hexdigest()
    later = await store.get(Ref("Revision", "model.iris.2"))
    assert (later.meta.resource_version, later.meta.created) == (changed.meta.resource_version, second.time)
    assert later.meta.uid != revision.meta.uid
    assert (later.spec["before"], later.spec["after"]) == (made.spec, {"n": 2})
    assert await store.get(revision.ref) == revision, "also its uid stays"


@on_every_store
async def test_the_history_of_a_namespace_stands_in_it(store: Store) -> None:
    made = await store.create(Resource("Namespace", Meta("lab", "")), "ann")
    await store.create(Resource("Namespace", Meta("other", "")), "ann")
    await store.create(Resource("Model", Meta("iris", "lab")), "ann")
    await store.delete(made.ref, "bob")
    listed = await store.list("Revision", Where(namespace="lab"))
    assert names(listed.items) == ["lab/model.iris.1", "lab/namespace.lab.1", "lab/namespace.lab.2"]
    assert all(one.meta.namespace for one in (await store.list("Revision")).items)
    for one in listed.items:
        assert await store.get(one.ref) == one
    told = await store.history(made.ref)
    assert [(entry.ref, entry.action, entry.actor) for entry in told] == [
        (made.ref, "created", "ann"), (made.ref, "deleted", "bob"),
    ]  # fmt: skip


@on_every_store
async def test_equal_specs_have_equal_hashes(store: Store) -> None:
    made = await store.create(model("iris", a=1, b=2), "ann")
    await store.update(replace(made, meta=replace(made.meta, resource_version=""), spec={"a": 2}), "ann")
    await store.update(replace(made, meta=replace(made.meta, resource_version=""), spec={"b": 2, "a": 1}), "ann")
    await store.delete(made.ref, "ann")
    hashes = [one.spec.get("hash") for one in (await store.list("Revision")).items]
    assert hashes[0] == hashes[2] != hashes[1]
    assert hashes[3] is None, "nothing is left that could have one"


@on_every_store
async def test_names_with_dots_are_understood(store: Store) -> None:
    await store.create(version("iris", "1"), "ann")
    await store.create(version("iris", "1.2-a"), "ann")
    assert (await store.get(Ref("Revision", "modelversion.iris.1.1"))).spec["name"] == "iris.1"
    assert (await store.get(Ref("Revision", "modelversion.iris.1.2-a.1"))).spec["name"] == "iris.1.2-a"
    for absent in (
        "modelversion.iris.1.2", "modelversion.iris.1", "model.iris.1.1", "modelversion..1", "modelversion", "", ".",
        "modelversion.iris.1.01", "modelversion.iris.1.+1", "modelversion.iris.1.-1", "ModelVersion.iris.1.1",
        "nothing.iris.1.1", "modelversion.iris.1." + "9" * 30, "modelversion.iris.1.¹",
    ):  # fmt: skip
        with pytest.raises(NotFound):
            await store.get(Ref("Revision", absent))
    with pytest.raises(NotFound):
        await store.get(Ref("Revision", "modelversion.iris.1.1", "other"))


@on_every_store
async def test_nobody_writes_them(store: Store) -> None:
    await store.create(model("iris"), "ann")
    revision = await store.get(Ref("Revision", "model.iris.1"))
    for write in (
        store.create(Resource("Revision", Meta("model.iris.9")), "ann"),
        store.update(replace(revision, spec={}), "ann"),
        store.update_status(replace(revision, status={"a": 1}), "ann"),
        store.delete(revision.ref, "ann"),
    ):
        with pytest.raises(Forbidden) as refused:
            await write
        assert refused.value.hint
    assert await store.get(revision.ref) == revision


async def make_some(store: Store) -> None:
    """Twelve revisions of iris, and some of others."""
    await store.create(model("iris", n=0), "ann")
    for n in range(1, 12):
        await store.update(model("iris", n=n), "ann")
    await store.create(version("iris", "1"), "ann")
    await store.create(version("rose", "1"), "ann")
    await store.create(model("iris", "a"), "ann")
    await store.create(Resource("Workload", Meta("iris")), "ann")


IRIS = [f"default/model.iris.{number + 1}" for number in range(12)]
ALL = ["a/model.iris.1", *IRIS, "default/modelversion.iris.1.1", "default/modelversion.rose.1.1",
       "default/workload.iris.1"]  # fmt: skip
SELECTIONS: list[tuple[Where, list[str]]] = [
    (Where(), ALL),
    (Where(namespace="default"), ALL[1:]),
    (Where(fields={"spec.kind": "Model"}), ALL[:13]),
    (Where(namespace="default", fields={"spec.kind": "Model"}), IRIS),
    (Where(fields={"spec.kind": "model"}), []),
    (Where(fields={"spec.name": "iris"}), [*ALL[:13], ALL[-1]]),
    (Where(namespace="a", fields={"spec.name": "iris"}), ALL[:1]),
    (Where(fields={"spec.kind": "Model", "spec.name": "iris"}), ALL[:13]),
    (Where(namespace="default", fields={"spec.kind": "Model", "spec.name": "iris"}), IRIS),
    (Where(fields={"spec.model": "iris"}), ALL[:14]),
    (Where(namespace="default", fields={"spec.model": "iris"}), ALL[1:14]),
    (Where(fields={"spec.model": "iris", "spec.kind": "ModelVersion"}), [ALL[13]]),
    (Where(fields={"spec.model": ""}), []),
    (Where(unlike=frozenset({("spec.kind", "Model")})), ALL[13:]),
    (Where(unlike=frozenset({("spec.model", "iris")})), ALL[14:]),
    (Where(unlike=frozenset({("metadata.name", "no such")}), fields={"spec.kind": "Model"}), ALL[:13]),
    (
        Where(
            unlike=frozenset({("metadata.name", "model.iris.1")}), namespace="default", fields={"spec.kind": "Model"}
        ),
        IRIS[1:],
    ),
    (Where(fields={"metadata.name": "model.iris.1"}), [ALL[0], IRIS[0]]),
    (Where(fields={"metadata.name": "model.iris.1", "metadata.namespace": "a"}), [ALL[0]]),
    (Where(namespace="default", fields={"metadata.namespace": "a"}), []),
    (Where(fields={"metadata.name": "model.iris.1", "spec.kind": "Workload"}), []),
    (Where(fields={"metadata.name": "none"}), []),
    (Where(owner="somebody"), []),
    (Where(labels=equal({"a": "b"})), []),
    (Where(labels=parse("!a, b notin (c)"), namespace="a"), ALL[:1]),
]


@on_every_store
async def test_they_are_listed_by_what_changed_and_by_number(store: Store) -> None:
    await make_some(store)
    for where, wanted in SELECTIONS:
        listing = await store.list("Revision", where)
        assert (names(listing.items), listing.resource_version) == (wanted, "16"), where
    with pytest.raises(BadRequest, match=r"spec\.actor") as refused:
        await store.list("Revision", Where(fields={"spec.actor": "ann"}))
    assert "spec.model" in refused.value.hint


@on_every_store
async def test_their_pages_together_are_the_whole(store: Store) -> None:
    await make_some(store)
    for where, wanted in SELECTIONS:
        for limit in (1, 2, 5):
            page = await store.list("Revision", where, limit=limit)
            seen = names(page.items)
            while page.next is not None:
                page = await store.list("Revision", where, limit=limit, after=page.next)
                assert 0 < len(page.items) <= limit
                seen += names(page.items)
            assert seen == wanted, where


@on_every_store
async def test_a_snapshot_and_a_guard_see_them_too(store: Store) -> None:
    made = await store.create(model("iris", n=1), "ann")

    def guard(now: Present) -> None:
        assert names(now.list("Revision")) == ["default/model.iris.1"]
        assert now.get(Ref("Revision", "model.iris.1")).spec["action"] == "created"

    async with store.snapshot() as moment:
        await store.delete(made.ref, "ann", guard=guard)
        assert names((await moment.list("Revision")).items) == ["default/model.iris.1"]
        with pytest.raises(NotFound):
            await moment.get(Ref("Revision", "model.iris.2"))
    assert (await store.get(Ref("Revision", "model.iris.2"))).spec["action"] == "deleted"


@on_every_store
async def test_a_watch_tells_each_as_added(store: Store) -> None:
    async with aclosing(watching(store, "Revision", "0")) as watch, aclosing(watching(store, None, "0")) as every:
        waiting = asyncio.create_task(take(watch, 1))
        await asyncio.sleep(0.01)
        made = await store.create(model("iris", n=1), "ann")
        [event] = await waiting
        assert (event.type, event.resource) == ("ADDED", await store.get(Ref("Revision", "model.iris.1")))
        made = await store.update_status(replace(made, status={"s": 1}), "ann")
        made = await store.update(replace(made, spec={"n": 2}), "ann")
        await store.delete(made.ref, "ann")
        events = await take(watch, 2)
        assert [(one.resource.meta.name, one.resource.meta.resource_version) for one in events] == [
            ("model.iris.2", "3"), ("model.iris.3", "4"),
        ]  # fmt: skip
        assert [one.resource.kind for one in await take(every, 4)] == ["Model"] * 4, "all kinds but this"


@every_store
def test_a_watch_of_them_can_begin_anywhere(opener: Opener, tmp_path: Path) -> None:
    """History is kept when events are not."""

    async def body() -> None:
        async with opened(opener, tmp_path, keep_events=3) as store:
            for i in range(600):
                await store.create(model(f"m{i}"), "ann")
            for since in (0, 1, 299, 599):
                async with aclosing(watching(store, "Revision", str(since))) as watch:
                    events = await take(watch, 600 - since)
                assert [one.resource.meta.name for one in events] == [
                    revision_name("Model", f"m{i}", 1) for i in range(since, 600)
                ]
            with pytest.raises(Expired):
                await anext(store.watch("Revision", "601"))

    asyncio.run(body())


@on_every_store
async def test_the_position_of_a_kind_moves_with_its_changes(store: Store) -> None:
    assert [store.position(kind) for kind in ("Model", "Workload", "Revision")] == ["0", "0", "0"]
    made = await store.create(model("iris"), "ann")
    assert [store.position(kind) for kind in ("Model", "Workload", "Revision")] == ["1", "0", "1"]
    await store.create(Resource("Workload", Meta("w")), "ann")
    await store.update_status(replace(made, status={"a": 1}), "ann")
    await store.update_status(replace(made, meta=replace(made.meta, resource_version=""), status={"a": 1}), "ann")
    assert [store.position(kind) for kind in ("Model", "Workload", "Revision")] == ["3", "2", "2"]
    await store.delete(made.ref, "ann")
    assert store.position("Model") == "4"


@every_store
def test_the_position_is_never_too_low_after_a_restart(opener: Opener, tmp_path: Path) -> None:
    async def body() -> None:
        async with opened(opener, tmp_path, keep_events=2) as store:
            await store.create(model("iris"), "ann")
            for i in range(5):
                await store.create(Resource("Workload", Meta(f"w{i}")), "ann")
        async with opened(opener, tmp_path, keep_events=2) as store:
            assert 1 <= int(store.position("Model")) <= 6
            assert store.position("Workload") == "6"

    asyncio.run(body())
