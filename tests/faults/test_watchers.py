"""100 watchers and 1,000 changes: each of them is told what the log of events says of its selection, and nothing else.

In order, once, whatever it asks for: a namespace, labels, tables, all there is in the beginning, to go on where it was.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import httpx2
import uvloop

from tests.support import planes, watches
from tests.support.watches import ROOT, Told, Watch, Watching

WATCHERS = 100
WRITERS = 8
OBJECTS = 25
"""Of each writer; each is changed five times."""
NAMESPACES = ("north", "south", "east", "west")
TIERS = ("gold", "lead", "tin")
LAST = "zz-last"

Labels = Mapping[str, str]
SELECTORS: dict[str, Callable[[Labels], bool]] = {
    "": lambda _: True,
    "tier=gold": lambda labels: labels.get("tier") == "gold",
    "tier in (gold, tin),odd": lambda labels: labels.get("tier") in ("gold", "tin") and "odd" in labels,
    "tier!=lead": lambda labels: labels.get("tier") != "lead",
}

told = lru_cache(maxsize=None)(watches.told)
"""Most lines are the same for many."""


@dataclass(slots=True)
class Watcher:
    """One of the hundred, and what it was told."""

    number: int
    namespace: str = ""
    selector: str = ""
    table: bool = False
    whole: bool = False
    """All there is comes first."""
    leaves_after: tuple[int, ...] = ()
    """It goes on, where it was, after so many lines."""
    lines: list[bytes] = field(default_factory=list)

    @property
    def tls(self) -> bool:
        return self.number % 3 == 0

    @classmethod
    def of(cls, number: int) -> Watcher:
        namespace, selectors = NAMESPACES[number // 10 % 4], tuple(SELECTORS)
        match number % 10:
            case 0:
                return cls(number)
            case 1 | 2 | 3:
                return cls(number, namespace)
            case 4 | 5:
                return cls(number, namespace if number % 2 else "", selectors[1 + number // 10 % 3])
            case 6:
                return cls(number, "" if number < 30 else namespace, table=True)
            case 7:
                return cls(number, namespace, selectors[1 + number // 10 % 3], table=True)
            case 8:
                return cls(number, selector=selectors[number // 10 % 4], whole=True)
        leaves = (7, 1, 30 + number, 1, 40)
        within = namespace if number < 50 else ""
        return cls(number, within, selectors[number // 10 % 4], table=number % 4 == 3, leaves_after=leaves)

    async def run(self, watching: Watching, since: str, ready: asyncio.Event) -> None:
        leaves = iter(self.leaves_after)
        while True:
            params = {"labelSelector": self.selector, "resourceVersion": since}
            if self.whole:
                params |= {"sendInitialEvents": "true", "allowWatchBookmarks": "true", "resourceVersion": ""}
            watch = await watching.open(params, self.namespace, table=self.table, tls=self.tls)
            ready.set()
            try:
                if await self._read(watch, next(leaves, None)):
                    return
            finally:
                watch.close()
            since = str(told(self.lines[-1]).version)

    async def _read(self, watch: Watch, most: int | None) -> bool:
        """True: it has seen the last one."""
        last = (f'"name":"{LAST}"'.encode(), f'"namespace":"{self.namespace or NAMESPACES[-1]}"'.encode())
        while most is None or most > 0:
            line = await watch.line()
            assert line is not None
            self.lines.append(line)
            if all(part in line for part in last):
                return True
            most = None if most is None else most - 1
        return False


def test_a_hundred_watchers_are_told_of_a_thousand_changes(plane: planes.TestPlane) -> None:
    watchers = [Watcher.of(number) for number in range(WATCHERS)]
    uvloop.run(change_and_watch(plane, watchers))
    log = [*logged(plane)]
    assert len(log) >= WRITERS * OBJECTS * 5
    for watcher in watchers:
        seen = [told(line) for line in watcher.lines]
        check = check_whole if watcher.whole else check_changes
        check(watcher, seen, [*selected(watcher, log)])


def check_changes(watcher: Watcher, seen: list[Told], expected: list[Told]) -> None:
    assert seen == expected, watcher
    if not watcher.table:
        assert [one.object for one in seen] == [one.object for one in expected]
    elif not watcher.leaves_after:
        assert [bool(one.columns) for one in seen] == [True, *(False for _ in seen[1:])]


def check_whole(watcher: Watcher, seen: list[Told], expected: list[Told]) -> None:
    [mark] = [at for at, one in enumerate(seen) if one.type == "BOOKMARK"]
    begin, since = seen[:mark], seen[mark].version
    assert all(one.type == "ADDED" for one in begin)
    shown = {one.place: one for one in begin}
    assert len(shown) == len(begin)
    by_version = {one.version: one for one in expected}
    assert [one.object for one in begin] == [by_version[one.version].object for one in begin]
    # What was written while all there is was read may have come with it.
    later = [one for one in expected if one.version > since]
    assert seen[mark + 1 :] == [
        one for one in later if one.place not in shown or one.version > shown[one.place].version
    ]
    assert after(seen) == after(expected), watcher


def after(changes: list[Told]) -> dict[tuple[str, str], int]:
    """What there is after all of them, and in which version."""
    there: dict[tuple[str, str], int] = {}
    for one in changes:
        if one.type == "DELETED":
            there.pop(one.place, None)
        elif one.type != "BOOKMARK":
            there[one.place] = one.version
    return there


async def change_and_watch(plane: planes.TestPlane, watchers: list[Watcher]) -> None:
    changes, headers = Changes(), {"authorization": f"Bearer {plane.token()}"}
    client = httpx2.AsyncClient(base_url=plane.control_url, headers=headers, timeout=60, trust_env=False)
    async with client:
        listing = (await client.get(f"{ROOT}/models")).json()
        since = listing["metadata"]["resourceVersion"]
        ready = {watcher.number: asyncio.Event() for watcher in watchers}

        async def run(watcher: Watcher) -> None:
            if watcher.whole:  # each of them begins amid the changes, at another time
                ready[watcher.number].set()
                await changes.until(watcher.number * 5)
            await watcher.run(watching, since, ready[watcher.number])

        with Watching(plane) as watching:
            async with asyncio.TaskGroup() as group:
                for watcher in watchers:
                    group.create_task(run(watcher))
                await asyncio.gather(*(event.wait() for event in ready.values()))
                async with asyncio.TaskGroup() as writers:
                    for number in range(WRITERS):
                        writers.create_task(changes.write(client, number))
                for namespace in NAMESPACES:
                    labels = {"tier": "gold", "odd": "yes"}
                    await changes.send(
                        client, "POST", f"{ROOT}/namespaces/{namespace}/models", model(LAST, labels), 201
                    )


class Changes:
    """What is written, by several at once."""

    def __init__(self) -> None:
        self._done = 0
        self._news = asyncio.Condition()

    async def until(self, count: int) -> None:
        async with self._news:
            await self._news.wait_for(lambda: self._done >= count)

    async def write(self, client: httpx2.AsyncClient, writer: int) -> None:
        for number in range(OBJECTS):
            here = f"{ROOT}/namespaces/{NAMESPACES[(writer + number) % 4]}/models"
            name, tiers = f"m-{writer}-{number}", [TIERS[(number + step) % 3] for step in range(3)]
            one = f"{here}/{name}"
            labels = {"tier": tiers[0]} | ({"odd": "yes"} if number % 2 else {})
            await self.send(client, "POST", here, model(name, labels), 201)
            await self.send(client, "PATCH", one, {"metadata": {"labels": {"tier": tiers[1]}}})
            await self.send(client, "PATCH", f"{one}/status", {"status": {"highestVersion": number + 1}})
            await self.send(client, "PATCH", one, {"metadata": {"annotations": {"note": f"of {writer}"}}})
            if number % 2:
                await self.send(client, "DELETE", one, None)
            else:
                await self.send(client, "PATCH", one, {"metadata": {"labels": {"tier": tiers[2]}}})

    async def send(
        self, client: httpx2.AsyncClient, method: str, path: str, body: dict[str, Any] | None, code: int = 200
    ) -> None:
        headers = {"content-type": "application/merge-patch+json" if method == "PATCH" else "application/json"}
        answer = await client.request(method, path, content=json.dumps(body) if body else None, headers=headers)
        assert answer.status_code == code, f"{method} {path}: {answer.status_code} {answer.text}"
        async with self._news:
            self._done += 1
            self._news.notify_all()


def model(name: str, labels: Labels) -> dict[str, Any]:
    metadata = {"name": name, "labels": dict(labels)}
    return {"apiVersion": "mizzen.dev/v1alpha1", "kind": "Model", "metadata": metadata, "spec": {"framework": "onnx"}}


def logged(plane: planes.TestPlane) -> Iterator[Told]:
    """All that happened to models, as the store has it on disk."""
    connection = sqlite3.connect(f"file:{plane.data_dir / 'mizzen.db'}?mode=ro", uri=True)
    try:
        [(horizon,)] = connection.execute("SELECT horizon FROM state")
        assert horizon == 0, "nothing was compacted"
        found = connection.execute(
            "SELECT type, rv, namespace, name, body FROM events WHERE kind = 'Model' ORDER BY rv"
        )
        for type_, version, namespace, name, body in found:
            yield Told(type_, version, (namespace, name), json.loads(body))
    finally:
        connection.close()


def selected(watcher: Watcher, log: list[Told]) -> Iterator[Told]:
    """What the watcher is to be told, up to the last one that it waits for."""
    matches = SELECTORS[watcher.selector]
    matched: set[tuple[str, str]] = set()
    end = (watcher.namespace or NAMESPACES[-1], LAST)
    for event in log:
        if watcher.namespace not in ("", event.place[0]):
            continue
        now = event.type != "DELETED" and matches(event.object["metadata"].get("labels", {}))
        before = event.place in matched
        (matched.add if now else matched.discard)(event.place)
        if now or before:
            type_ = "DELETED" if not now else "MODIFIED" if before else "ADDED"
            yield Told(type_, event.version, event.place, event.object)
        if event.place == end:
            return
