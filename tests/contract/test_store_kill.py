"""Acknowledged means durable: what a killed process was told is there, whole, and everything agrees."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import cast

from mizzen.kinds.meta import Ref, Resource
from mizzen.stores.store import Event, Store
from tests.contract.stores import OPENERS, Opener, every_store, model, opened, take

ROUNDS = 4
PROGRAM = Path(__file__).with_name("writes_until_killed.py")


@every_store
def test_kill_9_loses_nothing_acknowledged(opener: Opener, tmp_path: Path) -> None:
    said: dict[int, str] = {}
    for round_ in range(ROUNDS):
        lines = random.randint(1, 600)
        said |= write_and_kill(opener, tmp_path, f"r{round_}", lines)
        asyncio.run(check(opener, tmp_path, said, f"after-{round_}"))


def write_and_kill(opener: Opener, folder: Path, first: str, lines: int) -> dict[int, str]:
    """Run the program, kill it when it has said so many lines. Returns all it said: name by version."""
    [name] = [name for name, one in OPENERS.items() if one is opener]
    child = subprocess.Popen(
        [sys.executable, PROGRAM, name, folder, first], stdout=subprocess.PIPE, cwd=PROGRAM.parents[2],
        env={"PYTHONPATH": str(PROGRAM.parents[2])},
    )  # fmt: skip
    assert child.stdout is not None
    try:
        heard = [child.stdout.readline() for _ in range(lines)]
        assert all(heard), "it ended by itself"
    finally:
        child.kill()
        heard += child.stdout.readlines()
        child.stdout.close()
        child.wait()
    whole = [line.decode().split() for line in heard if line.endswith(b"\n")]
    return {int(version): name for name, version in whole}


async def check(opener: Opener, folder: Path, said: dict[int, str], next_name: str) -> None:
    async with opened(opener, folder, keep_events=1_000_000) as store:
        listing = await store.list("Model")
        last = int(listing.resource_version)
        watch = cast("AsyncGenerator[Event, None]", store.watch(None, "0"))
        async with aclosing(watch):
            events = await take(watch, last)

        assert [int(event.resource.meta.resource_version) for event in events] == list(range(1, last + 1))
        missing = {version for version, name in said.items() if events[version - 1].resource.meta.name != name}
        assert not missing

        present: dict[str, Resource] = {}
        for event in events:
            if event.type == "DELETED":
                del present[event.resource.meta.name]
            else:
                present[event.resource.meta.name] = event.resource
        assert {item.meta.name: item for item in listing.items} == present
        await check_history(store, events)

        made = await store.create(model(next_name), "ann")
        assert made.meta.resource_version == str(last + 1)
        said[last + 1] = next_name


async def check_history(store: Store, events: list[Event]) -> None:
    """Each creation, changed spec, decision and deletion has its revision, and there are no others."""
    wanted: Counter[tuple[str, str]] = Counter()
    before: dict[str, Resource] = {}
    for event in events:
        now = event.resource
        was = before.get(now.meta.name)
        if was is None:
            wanted[now.meta.name, "created"] += 1
        else:
            wanted[now.meta.name, "updated"] += now.meta.generation != was.meta.generation
            wanted[now.meta.name, "reported"] += now.status != was.status
            wanted[now.meta.name, "deleted"] += now.deleting and not was.deleting
        before[now.meta.name] = now
    found: Counter[tuple[str, str]] = Counter()
    for name in before:
        history = await store.history(Ref("Model", name))
        assert [revision.number for revision in history] == [i + 1 for i in range(len(history))]
        found.update((name, revision.action) for revision in history)
    assert found == +wanted
