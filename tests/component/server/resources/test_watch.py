"""Watches over real HTTP: from the start, resumed, filtered, expired, and ending with the plane."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest

from mizzen.kinds import catalog
from mizzen.kinds.schema.resource import Meta, Ref, Resource
from mizzen.server.app import begin_stop
from mizzen.server.resources import tables
from mizzen.server.resources import watch as watches
from mizzen.server.resources.representation import Representation
from mizzen.stores.sqlite.store import SqliteStore
from mizzen.stores.store import EVERYTHING, Listing, Where
from tests.component.server.resources.test_routes import model
from tests.support.server.harness import HERE, ROOT, Harness, serving

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@contextmanager
def watching(client: httpx2.Client, path: str = f"{HERE}/models", **params: Any) -> Iterator[Iterator[dict[str, Any]]]:
    with client.stream("GET", path, params={"watch": "true", **params}) as response:
        assert response.status_code == 200
        yield (json.loads(line) for line in response.iter_lines())


def told(event: dict[str, Any]) -> tuple[str, str]:
    return event["type"], event["object"]["metadata"]["name"]


def test_without_a_version_all_there_is_comes_first(plane: Harness, admin: httpx2.Client) -> None:
    admin.post(f"{HERE}/models", json=model("a"))
    admin.post(f"{ROOT}/namespaces/other/models", json=model("b"))
    with watching(plane.client()) as events:
        assert told(next(events)) == ("ADDED", "a")
        admin.post(f"{ROOT}/namespaces/other/models", json=model("c"))
        admin.put(f"{HERE}/models/a", json=model("a", spec={"framework": "python"}))
        admin.delete(f"{HERE}/models/a")
        seen = [told(next(events))]
        while seen[-1][0] == "MODIFIED":  # by its author, and then marked as deleted
            seen.append(told(next(events)))
        assert (seen[0], seen[-1]) == (("MODIFIED", "a"), ("DELETED", "a"))


@pytest.mark.own_plane
def test_a_watch_goes_on_where_it_was_left(plane: Harness, admin: httpx2.Client) -> None:
    for name in ("a", "b", "c"):
        admin.post(f"{HERE}/models", json=model(name))
    with watching(plane.client(), f"{ROOT}/models") as events:
        seen = next(events)
    since = seen["object"]["metadata"]["resourceVersion"]
    with watching(plane.client(), resourceVersion=since) as events:
        assert [told(next(events)) for _ in range(2)] == [("ADDED", "b"), ("ADDED", "c")]


def test_a_place_no_longer_kept_is_an_error_line_with_410(tmp_path: Path) -> None:
    with serving(tmp_path, keep_events=2) as plane:
        admin = plane.client()
        for name in ("a", "b", "c", "d"):
            admin.post(f"{HERE}/models", json=model(name))
        with watching(plane.client(), resourceVersion="1") as events:
            [only] = list(events)
    assert only["type"] == "ERROR"
    assert (only["object"]["code"], only["object"]["reason"]) == (410, "Expired")


def test_an_old_page_is_410(tmp_path: Path) -> None:
    with serving(tmp_path, keep_events=2) as plane:
        admin = plane.client()
        for name in ("a", "b", "c"):
            admin.post(f"{HERE}/models", json=model(name))
        token = admin.get(f"{HERE}/models?limit=1").json()["metadata"]["continue"]
        for name in ("d", "e", "f", "g"):
            admin.post(f"{HERE}/models", json=model(name))
        assert admin.get(f"{HERE}/models", params={"limit": 1, "continue": token}).status_code == 410


def test_an_object_that_ceases_to_match_is_told_as_deleted(plane: Harness, admin: httpx2.Client) -> None:
    def put(**labels: str) -> str:
        sent = model("a", metadata={"labels": labels})
        return str(admin.put(f"{HERE}/models/a", json=sent).json()["metadata"]["resourceVersion"])

    admin.post(f"{HERE}/models", json=model("a"))
    with watching(plane.client(), labelSelector="tier=gold") as events:
        put(tier="gold")
        assert told(next(events)) == ("ADDED", "a")
        put(tier="gold", more="yes")
        assert told(next(events)) == ("MODIFIED", "a")
        since = put(tier="lead")
        assert told(next(events)) == ("DELETED", "a")
        put(tier="tin")
        put(tier="gold")
        assert told(next(events)) == ("ADDED", "a")
    # Who goes on is told what it would have been told, and nothing of objects that were never theirs.
    with watching(plane.client(), labelSelector="tier=gold", resourceVersion=since) as events:
        assert told(next(events)) == ("ADDED", "a")
    with watching(plane.client(), labelSelector="tier=gold", resourceVersion=str(int(since) - 1)) as events:
        assert [told(next(events)) for _ in range(2)] == [("DELETED", "a"), ("ADDED", "a")]


def test_an_object_whose_fields_cease_to_match_is_told_as_deleted(plane: Harness, admin: httpx2.Client) -> None:
    def put(note: str, **spec: str) -> None:
        sent = model("b", spec=spec, metadata={"annotations": {"note": note}})
        assert admin.put(f"{HERE}/models/b", json=sent).status_code == 200

    since = admin.post(f"{HERE}/models", json=model("a")).json()["metadata"]["resourceVersion"]
    admin.post(f"{HERE}/models", json=model("b", spec={}))
    put("a second name", aliasOf="a")
    put("of the same model", aliasOf="a")
    put("a name of its own")
    put("as before")
    admin.post(f"{HERE}/models", json=model("c", spec={"aliasOf": "a"}))
    with watching(plane.client(), fieldSelector="spec.aliasOf=a", resourceVersion=since) as events:
        assert [told(next(events)) for _ in range(4)] == [
            ("ADDED", "b"), ("MODIFIED", "b"), ("DELETED", "b"), ("ADDED", "c"),
        ]  # fmt: skip
    with watching(plane.client(), fieldSelector="spec.framework=python", resourceVersion=since) as events:
        [only] = list(events)
    assert (only["type"], only["object"]["code"]) == ("ERROR", 400)


def test_what_is_not_to_be_is_no_part_of_a_watch(plane: Harness, admin: httpx2.Client) -> None:
    for name in ("a", "b"):
        admin.post(f"{HERE}/models", json=model(name, spec={}))
    with watching(plane.client(), fieldSelector="metadata.name!=a,spec.aliasOf!=c") as events:
        assert told(next(events)) == ("ADDED", "b")
        admin.put(f"{HERE}/models/a", json=model("a"))
        admin.put(f"{HERE}/models/b", json=model("b", spec={"aliasOf": "c"}))
        assert told(next(events)) == ("DELETED", "b")


def test_a_watch_ends_after_its_time(plane: Harness) -> None:
    with watching(plane.client(), timeoutSeconds=1) as events:
        assert list(events) == []


@pytest.mark.own_plane
def test_watches_end_when_the_plane_stops(plane: Harness, admin: httpx2.Client) -> None:
    admin.post(f"{HERE}/models", json=model("a"))
    with watching(plane.client()) as events:
        next(events)
        plane.loop.call_soon_threadsafe(begin_stop, plane.app)
        assert list(events) == []


@pytest.mark.own_plane
def test_a_client_that_leaves_leaves_nothing_behind(plane: Harness, admin: httpx2.Client) -> None:
    admin.post(f"{HERE}/models", json=model("a"))
    with watching(plane.client()) as events:
        next(events)
        assert len(plane.store._feed._waiting) <= 1
    while plane.store._feed._waiting:
        admin.get("/healthz")


def test_a_change_is_encoded_once_for_all_who_watch(tmp_path: Path) -> None:
    async def main() -> None:
        ids = itertools.count()
        store = await SqliteStore.open(tmp_path / "mizzen.db", clock=lambda: NOW, new_id=lambda: str(next(ids)))
        streams = [
            watches.stream_lines(store, "Model", Where(), watches.WatchOptions("0"), lambda _: True) for _ in range(20)
        ]
        try:
            waiting = [asyncio.ensure_future(anext(stream)) for stream in streams]
            while len(store._feed._waiting) < len(streams):  # noqa: ASYNC110 - until each of them waits
                await asyncio.sleep(0)
            await store.create(Resource("Model", Meta("a")), "ann")
            lines = await asyncio.gather(*waiting)
            assert told(json.loads(lines[0])) == ("ADDED", "a")
            assert len({id(line) for line in lines}) == 1
            for number in range(3 * watches.MAX_LINES):
                await store.create(Resource("Model", Meta(f"b-{number}")), "ann")
            assert len(watches._line_cache._lines) <= watches.MAX_LINES
            again = [json.loads(await anext(streams[0])) for _ in range(3 * watches.MAX_LINES)]
            assert [told(event) for event in again] == [
                ("ADDED", f"b-{number}") for number in range(3 * watches.MAX_LINES)
            ]
        finally:
            for stream in streams:
                await stream.aclose()
            await store.close()

    asyncio.run(main())


def test_tables_are_encoded_once_for_all_who_watch_at_a_time(tmp_path: Path) -> None:
    async def main() -> None:
        ids = itertools.count()
        store = await SqliteStore.open(tmp_path / "mizzen.db", clock=lambda: NOW, new_id=lambda: str(next(ids)))
        now = NOW
        kind = catalog.BY_NAME["Model"]
        whole = Representation(tables.layout_of(kind, "Object"), lambda: now)
        forms = [Representation(tables.layout_of(kind), lambda: now).watch_forms() for _ in range(3)]
        streams = [
            watches.stream_lines(store, "Model", Where(), watches.WatchOptions("0"), lambda _: True, forms=form)
            for form in (*forms, whole.watch_forms())
        ]
        try:
            for name in ("a", "b"):
                waiting = [asyncio.ensure_future(anext(stream)) for stream in streams]
                while len(store._feed._waiting) < len(streams):  # noqa: ASYNC110 - until each of them waits
                    await asyncio.sleep(0)
                await store.create(Resource("Model", Meta(name)), "ann")
                *lines, other = await asyncio.gather(*waiting)
                assert len({id(line) for line in lines}) == 1
                assert other != lines[0], "it shows more"
                assert bool(json.loads(lines[0])["object"]["columnDefinitions"]) == (name == "a")
            await store.create(Resource("Model", Meta("c")), "ann")
            early = await anext(streams[0])
            now += timedelta(minutes=5)
            late = await anext(streams[1])
            age = [one.name for one in tables.layout_of(kind).definitions].index("Age")
            ages = [json.loads(line)["object"]["rows"][0]["cells"][age] for line in (early, late)]
            assert ages == ["0s", "5m"]
        finally:
            for stream in streams:
                await stream.aclose()
            await store.close()

    asyncio.run(main())


class Paged(SqliteStore):
    """Counts what is listed for a watch, and may do something before each page."""

    before: Callable[[int], Awaitable[object]] | None = None

    async def list(
        self, kind: str, where: Where = EVERYTHING, *, limit: int | None = None, after: str | None = None
    ) -> Listing:
        self.pages = getattr(self, "pages", 0) + 1
        if self.before is not None:
            await self.before(self.pages)
        return await super().list(kind, where, limit=limit, after=after)


def test_what_there_is_in_the_beginning_is_read_as_it_is_taken(tmp_path: Path) -> None:
    """And what changes meanwhile is told once, in the order of the changes."""
    many = 2 * watches.PAGE + 10

    async def main() -> None:
        ids = itertools.count()
        store = await Paged.open(tmp_path / "mizzen.db", clock=lambda: NOW, new_id=lambda: str(next(ids)))
        for number in range(many):
            await store.create(Resource("Model", Meta(f"m{number:04}")), "ann")

        async def change(page: int) -> None:
            if page == 2:
                for name in ("m0000", f"m{many - 1:04}"):  # one that was shown, one that comes with the last page
                    await store.update(Resource("Model", Meta(name), {"framework": "python"}), "ann")
                await store.create(Resource("Model", Meta("z")), "ann")
                await store.delete(Ref("Model", f"m{many - 2:04}"), "ann")

        store.before = change
        lines = watches.stream_lines(store, "Model", Where(), watches.WatchOptions(), lambda _: True)
        try:
            first = [told(json.loads(await anext(lines))) for _ in range(watches.PAGE)]
            assert store.pages == 1
            rest = [json.loads(await anext(lines)) for _ in range(many - watches.PAGE)]
            names = [name for kind, name in (*first, *map(told, rest)) if kind == "ADDED"]
            gone = f"m{many - 2:04}"
            assert names == [*(f"m{number:04}" for number in range(many) if f"m{number:04}" != gone), "z"]
            assert rest[-2]["object"]["spec"] == {"framework": "python"}
            assert [told(json.loads(await anext(lines))) for _ in range(2)] == [
                ("MODIFIED", "m0000"),
                ("DELETED", gone),
            ]
        finally:
            await lines.aclose()
            await store.close()

    asyncio.run(main())


def test_long_lines_are_not_kept(tmp_path: Path) -> None:
    async def main() -> None:
        ids = itertools.count()
        store = await SqliteStore.open(tmp_path / "mizzen.db", clock=lambda: NOW, new_id=lambda: str(next(ids)))
        lines = watches.stream_lines(store, "Model", Where(), watches.WatchOptions("0"), lambda _: True)
        try:
            for number in range(8):
                await store.create(Resource("Model", Meta(f"m{number}"), {"notes": "x" * (1 << 20)}), "ann")
                assert told(json.loads(await anext(lines))) == ("ADDED", f"m{number}")
            assert sum(len(line) for _, line in watches._line_cache._lines.values()) <= watches.MAX_LINE_BYTES
        finally:
            await lines.aclose()
            await store.close()

    asyncio.run(main())


def test_a_list_that_goes_on_as_a_watch_says_where_it_ends(plane: Harness, admin: httpx2.Client) -> None:
    """As newer clients of Kubernetes read lists."""
    admin.post(f"{HERE}/models", json=model("a"))
    asked = {"sendInitialEvents": "true", "allowWatchBookmarks": "true", "resourceVersionMatch": "NotOlderThan"}
    with watching(plane.client(), **asked) as events:
        assert told(next(events)) == ("ADDED", "a")
        mark = next(events)
        assert (mark["type"], mark["object"]["kind"]) == ("BOOKMARK", "Model")
        assert mark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        admin.post(f"{HERE}/models", json=model("b"))
        assert told(next(events)) == ("ADDED", "b")
    since = mark["object"]["metadata"]["resourceVersion"]
    with watching(plane.client(), resourceVersion=since) as events:
        assert told(next(events)) == ("ADDED", "b")


def test_who_wants_nothing_of_what_there_is_gets_changes_only(plane: Harness, admin: httpx2.Client) -> None:
    admin.post(f"{HERE}/models", json=model("a"))
    with watching(plane.client(), sendInitialEvents="false") as events:
        admin.post(f"{HERE}/models", json=model("b"))
        assert told(next(events)) == ("ADDED", "b")


def test_bookmarks_come_to_those_who_ask_when_nothing_happens(tmp_path: Path) -> None:
    async def main() -> None:
        ids = itertools.count()
        store = await SqliteStore.open(tmp_path / "mizzen.db", clock=lambda: NOW, new_id=lambda: str(next(ids)))
        begin = watches.WatchOptions("0", bookmarks=True)
        lines = watches.stream_lines(store, "Model", Where(), begin, lambda _: False, bookmarks=0.01)
        try:
            for _ in range(2):
                line = json.loads(await anext(lines))
                assert (line["type"], line["object"]["metadata"]["resourceVersion"]) == ("BOOKMARK", "0")
        finally:
            await lines.aclose()
            await store.close()

    asyncio.run(main())
