"""A process that writes to a store as fast as it can and says each write that was acknowledged, until it is killed.

Usage: writes_until_killed.py <opener> <folder> <first name>. Lines are `<name> <resource version>`.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
from dataclasses import replace
from pathlib import Path

from mizzen.kinds.meta import Resource
from mizzen.stores.store import Store
from tests.contract.stores import OPENERS, model

WRITERS = 8


async def main() -> None:
    opener, folder, first = sys.argv[1:]
    store = await OPENERS[opener](Path(folder), keep_events=1_000_000)
    await asyncio.gather(*(write(store, f"{first}-{writer}") for writer in range(WRITERS)))


async def write(store: Store, prefix: str) -> None:
    """Lives of objects one after the other: some end, some stay."""
    for i in itertools.count():
        name = f"{prefix}-{i}"
        new = model(name, n=0)
        made = say(await store.create(replace(new, meta=replace(new.meta, finalizers=("test/held",))), "ann"))
        for n in range(1, 4):
            made = say(await store.update(replace(made, spec={"n": n, "filler": "x" * 500}), "ann"))
            made = say(await store.update_status(replace(made, status={"n": n}), "ann", decision="reported"))
        if i % 2:
            marked = await store.delete(made.ref, "ann")
            assert marked is not None
            say(marked)
            say(await store.update(replace(marked, meta=replace(marked.meta, finalizers=())), "ann"))


def say(acknowledged: Resource) -> Resource:
    line = f"{acknowledged.meta.name} {acknowledged.meta.resource_version}\n"
    os.write(sys.stdout.fileno(), line.encode())
    return acknowledged


asyncio.run(main())
