"""What every store promises about objects, listings and history."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mizzen.errors import AlreadyExists, BadRequest, Conflict, Expired, Invalid, NotFound, Unavailable
from mizzen.kinds.meta import OwnerReference, Ref, Resource
from mizzen.stores.store import Store, Where
from tests.contract.stores import Opener, every_store, model, on_every_store, opened


def with_meta(resource: Resource, **changes: object) -> Resource:
    return replace(resource, meta=replace(resource.meta, **changes))  # type: ignore[arg-type]


# -- create and get


@on_every_store
async def test_create_fills_in_what_the_store_owns(store: Store) -> None:
    before = datetime.now(UTC)
    made = await store.create(model("iris", track="latest"), "ann")
    assert made.meta.uid
    assert made.meta.generation == 1
    assert made.meta.resource_version == "1"
    assert made.meta.created is not None
    assert before - timedelta(seconds=1) <= made.meta.created <= datetime.now(UTC)
    assert made.meta.deleted is None
    assert await store.get(made.ref) == made


@on_every_store
async def test_create_ignores_what_a_caller_claims(store: Store) -> None:
    claimed = with_meta(model("iris"), uid="mine", generation=9, deleted=datetime.now(UTC), resource_version="77")
    made = await store.create(claimed, "ann")
    assert made.meta.uid != "mine"
    assert (made.meta.generation, made.meta.resource_version, made.deleting) == (1, "1", False)


@on_every_store
async def test_a_name_is_taken_once_for_each_kind_and_namespace(store: Store) -> None:
    await store.create(model("iris"), "ann")
    await store.create(model("iris", "other"), "ann")
    await store.create(replace(model("iris"), kind="Workload"), "ann")
    with pytest.raises(AlreadyExists):
        await store.create(model("iris"), "bob")
    assert (await store.list("Model")).resource_version == "3", "a refused write takes no version"


@on_every_store
async def test_everything_written_is_read_back_exactly(store: Store) -> None:
    spec = {"text": "naïve ∑ \u2028 \x00", "big": 2**70, "float": 1.0, "deep": [{"a": [None, True, -0.5]}], "": {}}
    resource = replace(
        with_meta(
            model("iris"),
            labels={"a.b/c": "d"},
            annotations={"note": 'a "quoted" note'},
            owners=(OwnerReference("Model", "m", "uid-1"),),
            finalizers=("x/y",),
        ),
        spec=spec,
        status={"conditions": []},
    )
    made = await store.create(resource, "ann")
    assert made.spec == spec
    assert type(made.spec["float"]) is float
    assert made.status == {"conditions": []}
    assert (made.meta.labels, made.meta.annotations) == (resource.meta.labels, resource.meta.annotations)
    assert (made.meta.owners, made.meta.finalizers) == (resource.meta.owners, resource.meta.finalizers)
    assert await store.get(made.ref) == made


@on_every_store
async def test_what_a_caller_does_to_their_data_later_does_not_matter(store: Store) -> None:
    spec: dict[str, object] = {"nested": {"a": 1}}
    made = await store.create(replace(model("iris"), spec=spec), "ann")
    spec["nested"] = "changed"
    assert made.spec == {"nested": {"a": 1}}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud800", {1, 2}, datetime.now(UTC), b"x"])
@every_store
def test_what_json_cannot_hold_is_refused(opener: Opener, tmp_path: Path, value: object) -> None:
    async def body() -> None:
        async with opened(opener, tmp_path) as store:
            with pytest.raises(Invalid):
                await store.create(model("iris", value=value), "ann")
            made = await store.create(model("iris", value=None), "ann")
            with pytest.raises(Invalid):
                await store.update(replace(made, spec={"value": value}), "ann")
            with pytest.raises(Invalid):
                await store.update_status(replace(made, status={"value": value}), "ann")
            assert await store.get(made.ref) == made
            assert made.meta.resource_version == "1", "a refused write takes no version"

    asyncio.run(body())


@on_every_store
async def test_what_is_not_there(store: Store) -> None:
    ref = Ref("Model", "none")
    with pytest.raises(NotFound):
        await store.get(ref)
    with pytest.raises(NotFound):
        await store.update(model("none"), "ann")
    with pytest.raises(NotFound):
        await store.update_status(model("none"), "ann")
    with pytest.raises(NotFound):
        await store.delete(ref, "ann")
    assert await store.history(ref) == ()
    assert (await store.list("Model")).items == ()


# -- update


@on_every_store
async def test_generation_moves_with_the_spec_only(store: Store) -> None:
    made = await store.create(model("iris", a=1), "ann")
    labelled = await store.update(with_meta(made, labels={"team": "x"}), "ann")
    assert (labelled.meta.generation, labelled.meta.resource_version) == (1, "2")
    changed = await store.update(replace(labelled, spec={"a": 2}), "ann")
    assert (changed.meta.generation, changed.meta.resource_version) == (2, "3")
    reported = await store.update_status(replace(changed, status={"ok": True}), "ann")
    assert (reported.meta.generation, reported.meta.resource_version) == (2, "4")


@on_every_store
async def test_update_writes_neither_status_nor_what_the_store_owns(store: Store) -> None:
    made = await store.create(replace(model("iris", a=1), status={"kept": 1}), "ann")
    asked = replace(with_meta(made, generation=40, created=None, deleted=datetime.now(UTC)), spec={"a": 2}, status={})
    changed = await store.update(asked, "ann")
    assert changed.status == {"kept": 1}
    assert (changed.meta.uid, changed.meta.created, changed.meta.deleted) == (made.meta.uid, made.meta.created, None)
    assert changed.meta.generation == 2


@on_every_store
async def test_update_status_writes_nothing_else(store: Store) -> None:
    made = await store.create(model("iris", a=1), "ann")
    asked = replace(with_meta(made, labels={"a": "b"}, finalizers=("x/y",)), spec={"a": 2}, status={"n": 1})
    changed = await store.update_status(asked, "ann")
    assert changed == with_meta(replace(made, status={"n": 1}), resource_version="2")


@on_every_store
async def test_a_stale_write_is_a_conflict(store: Store) -> None:
    made = await store.create(model("iris", n=1), "ann")
    newer = await store.update(replace(made, spec={"n": 2}), "ann")
    with pytest.raises(Conflict):
        await store.update(replace(made, spec={"n": 3}), "bob")
    with pytest.raises(Conflict):
        await store.update_status(replace(made, status={"n": 3}), "bob")
    unchecked = await store.update(with_meta(replace(made, spec={"n": 4}), resource_version=""), "bob")
    assert unchecked.meta.resource_version == "3"
    assert await store.get(newer.ref) == unchecked


@on_every_store
async def test_a_write_to_an_object_made_anew_is_a_conflict(store: Store) -> None:
    first = await store.create(model("iris", n=1), "ann")
    await store.delete(first.ref, "ann")
    await store.create(model("iris", n=2), "ann")
    with pytest.raises(Conflict):
        await store.update_status(with_meta(replace(first, status={"n": 1}), resource_version=""), "ann")
    with pytest.raises(Conflict):
        await store.delete(first.ref, "ann", uid=first.meta.uid)


@on_every_store
async def test_a_write_that_changes_nothing_takes_no_version(store: Store) -> None:
    made = await store.create(replace(model("iris", a=1, b={"c": 2, "d": 3}), status={"s": [1]}), "ann")
    assert await store.update(replace(made, spec={"b": {"d": 3, "c": 2}, "a": 1}), "bob") == made
    assert await store.update_status(made, "bob", decision="promoted") == made
    assert (await store.list("Model")).resource_version == "1"
    assert len(await store.history(made.ref)) == 1


@pytest.mark.parametrize(("old", "new"), [(1, True), (1, 1.0), (0, False), (None, {}), ("1", 1)])
@every_store
def test_values_that_python_confuses_are_changes(opener: Opener, tmp_path: Path, old: object, new: object) -> None:
    async def body() -> None:
        async with opened(opener, tmp_path) as store:
            made = await store.create(model("iris", value=old), "ann")
            changed = await store.update(replace(made, spec={"value": new}), "ann")
            assert changed.meta.generation == 2
            assert type(changed.spec["value"]) is type(new)

    asyncio.run(body())


@on_every_store
async def test_every_acknowledged_increment_counts(store: Store) -> None:
    """Many read-change-write loops on one object: compare-and-set loses none of them."""
    made = await store.create(replace(model("iris"), status={"n": 0}), "ann")

    async def increment() -> None:
        while True:
            now = await store.get(made.ref)
            try:
                await store.update_status(replace(now, status={"n": now.status["n"] + 1}), "ann", decision="counted")
            except Conflict:
                continue
            return

    async def worker() -> None:
        for _ in range(10):
            await increment()

    await asyncio.gather(*(worker() for _ in range(20)))
    assert (await store.get(made.ref)).status == {"n": 200}
    assert [revision.after for revision in (await store.history(made.ref))[1:]] == [{"n": n + 1} for n in range(200)]


@on_every_store
async def test_refused_writes_leave_their_neighbours_alone(store: Store) -> None:
    """Good and bad writes at the same moment: the good ones are all there, without a hole in the versions."""
    await store.create(model("taken"), "ann")
    names = [f"m{i}" if i % 3 else "taken" for i in range(60)]
    results = await asyncio.gather(*(store.create(model(name), "ann") for name in names), return_exceptions=True)
    made = [result for result in results if isinstance(result, Resource)]
    assert len(made) == 40
    assert all(isinstance(result, AlreadyExists) for result in results if not isinstance(result, Resource))
    assert sorted(int(one.meta.resource_version) for one in made) == list(range(2, 42))
    assert len((await store.list("Model")).items) == 41


@on_every_store
async def test_a_read_after_a_write_sees_it(store: Store) -> None:
    made = await store.create(model("iris", n=0), "ann")
    for n in range(1, 30):
        made = await store.update(replace(made, spec={"n": n}), "ann")
        assert await store.get(made.ref) == made
        assert (await store.list("Model")).items == (made,)


# -- delete and finalizers


@on_every_store
async def test_without_finalizers_an_object_is_gone_at_once(store: Store) -> None:
    made = await store.create(model("iris"), "ann")
    assert await store.delete(made.ref, "bob", uid=made.meta.uid) is None
    with pytest.raises(NotFound):
        await store.get(made.ref)


@on_every_store
async def test_finalizers_hold_an_object_until_the_last_is_taken_off(store: Store) -> None:
    made = await store.create(with_meta(model("iris"), finalizers=("a/1", "b/2")), "ann")
    marked = await store.delete(made.ref, "bob")
    assert marked is not None
    assert marked.deleting
    assert marked.meta.resource_version == "2"
    assert marked.meta.generation == 1
    assert await store.delete(made.ref, "bob") == marked, "idempotent while marked"

    reported = await store.update_status(replace(marked, status={"still": "here"}), "ann")
    held = await store.update(with_meta(reported, finalizers=("b/2",)), "ann")
    assert held.deleting
    assert await store.get(made.ref) == held

    last = await store.update(with_meta(held, finalizers=()), "ann")
    assert last.meta.resource_version == "5"
    with pytest.raises(NotFound):
        await store.get(made.ref)


@on_every_store
async def test_a_marked_object_takes_no_new_finalizers(store: Store) -> None:
    made = await store.create(with_meta(model("iris"), finalizers=("a/1",)), "ann")
    marked = await store.delete(made.ref, "bob")
    assert marked is not None
    with pytest.raises(Conflict):
        await store.update(with_meta(marked, finalizers=("a/1", "b/2")), "ann")
    with pytest.raises(Conflict):
        await store.update(with_meta(marked, finalizers=("b/2",)), "ann")
    assert await store.get(made.ref) == marked


@on_every_store
async def test_a_name_can_be_used_again_and_versions_go_on(store: Store) -> None:
    first = await store.create(model("iris"), "ann")
    await store.delete(first.ref, "ann")
    second = await store.create(model("iris"), "ann")
    assert second.meta.uid != first.meta.uid
    assert (second.meta.resource_version, second.meta.generation) == ("3", 1)


@every_store
def test_versions_go_on_after_a_restart_and_compaction(opener: Opener, tmp_path: Path) -> None:
    async def body() -> None:
        async with opened(opener, tmp_path, keep_events=1) as store:
            for name in "abc":
                made = await store.create(model(name), "ann")
                await store.delete(made.ref, "ann")
        async with opened(opener, tmp_path, keep_events=1) as store:
            assert (await store.list("Model")).resource_version == "6"
            assert (await store.create(model("d"), "ann")).meta.resource_version == "7"

    asyncio.run(body())


# -- list


@on_every_store
async def test_a_listing_is_ordered_and_filtered(store: Store) -> None:
    owner = await store.create(model("owner"), "ann")
    for namespace, name, label in (("b", "x", "1"), ("a", "z", "1"), ("a", "y", "2"), ("b", "a", "1")):
        child = with_meta(model(name, namespace), labels={"l": label, "n": name}, owners=(owner.as_owner,))
        await store.create(replace(child, kind="Workload"), "ann")

    async def names(where: Where) -> list[str]:
        listing = await store.list("Workload", where)
        assert (listing.resource_version, listing.next) == ("5", None)
        return [f"{item.meta.namespace}/{item.meta.name}" for item in listing.items]

    assert await names(Where()) == ["a/y", "a/z", "b/a", "b/x"]
    assert await names(Where(namespace="b")) == ["b/a", "b/x"]
    assert await names(Where(labels={"l": "1"})) == ["a/z", "b/a", "b/x"]
    assert await names(Where(labels={"l": "1", "n": "x"})) == ["b/x"]
    assert await names(Where(labels={"none": ""})) == []
    assert await names(Where(owner=owner.meta.uid)) == ["a/y", "a/z", "b/a", "b/x"]
    assert await names(Where(namespace="a", owner=owner.meta.uid, labels={"l": "2"})) == ["a/y"]
    assert await names(Where(owner="nobody")) == []


@on_every_store
async def test_owners_are_followed_through_updates_and_deletion(store: Store) -> None:
    one, two = OwnerReference("Model", "one", "uid-1"), OwnerReference("Model", "two", "uid-2")

    async def owned(uid: str) -> int:
        return len((await store.list("Model", Where(owner=uid))).items)

    made = await store.create(with_meta(model("child"), owners=(one, one)), "ann")
    assert (await owned("uid-1"), await owned("uid-2")) == (1, 0)
    made = await store.update(with_meta(made, owners=(two,)), "ann")
    assert (await owned("uid-1"), await owned("uid-2")) == (0, 1)
    await store.delete(made.ref, "ann")
    assert (await owned("uid-1"), await owned("uid-2")) == (0, 0)
    await store.create(with_meta(model("child"), owners=(two,)), "ann")
    assert await owned("uid-2") == 1


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
@every_store
def test_pages_together_are_the_whole(opener: Opener, tmp_path: Path, limit: int) -> None:
    async def body() -> None:
        async with opened(opener, tmp_path) as store:
            for i in range(7):
                labels = {"even": str(i % 2 == 0)}
                await store.create(with_meta(model(f"m{i}", f"ns{i % 3}"), labels=labels), "ann")
            for where in (Where(), Where(namespace="ns0"), Where(labels={"even": "True"})):
                whole = (await store.list("Model", where)).items
                pages: list[Resource] = []
                after: str | None = None
                while True:
                    listing = await store.list("Model", where, limit=limit, after=after)
                    assert 0 < len(listing.items) <= limit
                    pages += listing.items
                    after = listing.next
                    if after is None:
                        break
                    assert set(after) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
                assert tuple(pages) == whole

    asyncio.run(body())


@on_every_store
async def test_pages_neither_skip_nor_repeat_while_others_write(store: Store) -> None:
    for i in range(10):
        await store.create(model(f"m{i}"), "ann")
    seen: Counter[str] = Counter()
    page = await store.list("Model", limit=3)
    first_version = page.resource_version
    while True:
        seen.update(item.meta.name for item in page.items)
        last = page.items[-1].meta.name
        await store.delete(Ref("Model", last), "ann")  # the very place the token stands at
        await store.create(model(f"a-{last}"), "ann")
        if page.next is None:
            break
        page = await store.list("Model", limit=3, after=page.next)
        assert page.resource_version == first_version, "a watch from any page must show what changed in between"
    assert all(seen[f"m{i}"] == 1 for i in range(10))


@on_every_store
async def test_a_token_that_is_none_is_refused(store: Store) -> None:
    for name in "ab":
        await store.create(model(name), "ann")
        await store.create(replace(model(name), kind="Workload"), "ann")
    good = (await store.list("Model", limit=1)).next
    assert good is not None
    for garbage in ("", "x", "!!!", "é", "bm9uc2Vuc2U", good[:-4], "e30", "W10"):
        with pytest.raises(BadRequest):
            await store.list("Model", limit=1, after=garbage)
    with pytest.raises(BadRequest):
        await store.list("Workload", limit=1, after=good)
    with pytest.raises(BadRequest):
        await store.list("Model", Where(namespace="other"), limit=1, after=good)
    with pytest.raises(BadRequest):
        await store.list("Model", limit=0)


@every_store
def test_a_token_from_before_the_horizon_is_expired(opener: Opener, tmp_path: Path) -> None:
    async def body() -> None:
        async with opened(opener, tmp_path, keep_events=3) as store:
            for name in "abc":
                await store.create(model(name), "ann")
            token = (await store.list("Model", limit=1)).next
            for name in "def":
                await store.create(model(name), "ann")
            assert len((await store.list("Model", after=token)).items) == 5
            await store.create(model("g"), "ann")
            with pytest.raises(Expired):
                await store.list("Model", after=token)

    asyncio.run(body())


# -- history


@on_every_store
async def test_history_tells_who_did_what(store: Store) -> None:
    made = await store.create(with_meta(model("iris", n=1), finalizers=("a/1",)), "ann")
    made = await store.update(replace(made, spec={"n": 2}), "bob")
    made = await store.update(with_meta(made, labels={"a": "b"}), "labeller")
    made = await store.update_status(replace(made, status={"seen": 1}), "controller")
    made = await store.update_status(replace(made, status={"current": 7}), "cy", decision="promoted")
    await store.delete(made.ref, "dan")
    await store.delete(made.ref, "dan again")
    marked = await store.get(made.ref)
    await store.update(with_meta(marked, finalizers=()), "controller")
    again = await store.create(model("iris", n=3), "eve")

    history = await store.history(made.ref)
    assert [(r.number, r.action, r.actor, r.before, r.after) for r in history] == [
        (1, "created", "ann", None, {"n": 1}),
        (2, "updated", "bob", {"n": 1}, {"n": 2}),
        (3, "promoted", "cy", {"seen": 1}, {"current": 7}),
        (4, "deleted", "dan", {"n": 2}, None),
        (5, "created", "eve", None, {"n": 3}),
    ]
    assert {r.uid for r in history[:4]} == {made.meta.uid}
    assert history[4].uid == again.meta.uid
    assert history[0].time == made.meta.created
    assert [r.time for r in history] == sorted(r.time for r in history)
    assert await store.history(Ref("Model", "iris", "other")) == ()


@on_every_store
async def test_histories_are_those_of_all_names_that_begin_so(store: Store) -> None:
    for name in ("iris.2", "iris.1", "iris", "iris-1", "iri", "iris.é", "iris_1", "irist"):
        await store.create(model(name, of=name), "ann")
    await store.create(model("iris.1", "other"), "ann")
    await store.create(replace(model("iris.1"), kind="Workload"), "ann")
    await store.delete(Ref("Model", "iris.2"), "bob")

    found = await store.histories("Model", "default", "iris.")
    assert [(r.ref, r.number, r.action, r.actor) for r in found] == [
        (Ref("Model", "iris.2"), 1, "created", "ann"),
        (Ref("Model", "iris.1"), 1, "created", "ann"),
        (Ref("Model", "iris.é"), 1, "created", "ann"),
        (Ref("Model", "iris.2"), 2, "deleted", "bob"),
    ]
    assert tuple(r for r in found if r.ref.name == "iris.2") == await store.history(Ref("Model", "iris.2"))
    assert len(await store.histories("Model", "default")) == 9
    assert await store.histories("Model", "default", "iris%") == ()


@every_store
def test_history_outlives_compaction_and_restart(opener: Opener, tmp_path: Path) -> None:
    async def body() -> None:
        async with opened(opener, tmp_path, keep_events=1) as store:
            made = await store.create(model("iris", n=0), "ann")
            for n in range(1, 10):
                made = await store.update(replace(made, spec={"n": n}), "ann")
        async with opened(opener, tmp_path, keep_events=1) as store:
            assert [r.after for r in await store.history(made.ref)] == [{"n": n} for n in range(10)]
            assert await store.get(made.ref) == made

    asyncio.run(body())


# -- closing


@every_store
def test_a_closed_store_refuses(opener: Opener, tmp_path: Path) -> None:
    async def body() -> None:
        store = await opener(tmp_path)
        made = await store.create(model("iris"), "ann")
        await store.close()
        await store.close()
        with pytest.raises(Unavailable):
            await store.get(made.ref)
        with pytest.raises(Unavailable):
            await store.list("Model")
        with pytest.raises(Unavailable):
            await store.create(model("other"), "ann")

    asyncio.run(body())


@every_store
def test_closing_finishes_what_was_asked_for(opener: Opener, tmp_path: Path) -> None:
    async def body() -> None:
        store = await opener(tmp_path)
        writes = [asyncio.create_task(store.create(model(f"m{i}"), "ann")) for i in range(50)]
        await asyncio.sleep(0)
        await store.close()
        made = await asyncio.gather(*writes)
        async with opened(opener, tmp_path) as again:
            assert (await again.list("Model")).items == tuple(sorted(made, key=lambda one: one.meta.name))

    asyncio.run(body())
