"""Processes that write to a store as fast as they can and say each write that was acknowledged, until they are killed.

Usage: writes_until_killed.py <opener> <folder>. For each line `<round>` it reads, it forks one such process and says
`pid <n>`; when that is dead, it says `dead`. What is acknowledged is said as
`object <name> <resource version>`, `principal <name>`, `token <id>`, `revoked <id>`, `secret <name> <count>` and
`audit <actor> <group> <entries>`.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from mizzen.kinds.schema.resource import Meta, OwnerReference, Resource
from mizzen.stores.records.protocol import AuditEntry, Principal, SealedSecret, Token
from tests.contract.stores import OPENERS, Home, model, version, with_meta

WRITERS = 6
NAMES = 4
"""Of each writer: they are used again and again, so what is present stays small while history grows."""
KEPT = 2_000


def main() -> None:
    opener, folder = sys.argv[1:]
    for line in sys.stdin:
        child = os.fork()  # of a process without threads, that has everything imported
        if child == 0:
            asyncio.run(write_all(opener, Path(folder), int(line)))
        os.waitpid(child, 0)
        say("dead")


async def write_all(opener: str, folder: Path, round_: int) -> None:
    say("pid", os.getpid())
    store = await OPENERS[opener](folder, keep_events=KEPT)
    await asyncio.gather(
        *(write_objects(store, writer, round_) for writer in range(WRITERS)),
        write_identities(store, round_),
        write_secrets(store),
        write_audit(store, round_),
    )


async def write_objects(store: Home, writer: int, round_: int) -> None:
    """Lives of objects one after the other. Whatever an earlier round left of them is taken up."""
    present = {one.meta.name: one for one in (await store.list("Model")).items}
    present |= {one.meta.name: one for one in (await store.list("ModelVersion")).items}
    for i in itertools.count():
        name = f"w{writer}-{i % NAMES}"
        new = version(name, "1") if i % 2 else model(name, aliasOf=f"other-{i % 3}")
        owner = OwnerReference("Model", name, f"owner-{i % 2}")
        made = present.pop(new.meta.name, None)
        if made is None:
            meta = {"finalizers": ("test/held",), "labels": {"round": str(round_)}, "owners": (owner,)}
            made = tell(await store.create(with_meta(new, **meta), "ann"))
        for n in range(3):
            if made.deleting:
                break
            labels = {"round": str(round_), "n": str(n)}
            spec = {**new.spec, "aliasOf": f"other-{n}", "filler": "x" * 300, "count": [round_, i, n]}
            made = tell(await store.update(with_meta(replace(made, spec=spec), labels=labels), "ann"))
            made = tell(await store.update_status(replace(made, status={"n": n, "i": i}), "ann", decision="noted"))
        marked = made if made.deleting else await store.delete(made.ref, "ann")
        assert marked is not None
        if not made.deleting:
            tell(marked)
        tell(await store.update(with_meta(marked, finalizers=()), "ann"))


async def write_identities(store: Home, round_: int) -> None:
    for i in itertools.count():
        name = f"p{round_}-{i}"
        await store.identities.add_principal(Principal(name, now(), "ann"))
        say("principal", name)
        await store.identities.add_token(Token(name, name, f"digest-{name}", now(), "ann"))
        say("token", name)
        if i % 2:
            await store.identities.revoke_token(name, now())
            say("revoked", name)


async def write_secrets(store: Home) -> None:
    """Counts on from what is there, in two secrets."""
    found = {secret.name: int(secret.keys[0]) for secret in await store.secrets.list("default")}
    for i in itertools.count(max(found.values(), default=0) + 1):
        name = f"s{i % 2}"
        await store.secrets.put(SealedSecret("default", name, (str(i),), f"{i} ".encode() * 200, now(), "ann"))
        say("secret", name, i)


async def write_audit(store: Home, round_: int) -> None:
    for i in itertools.count():
        entry = AuditEntry(now(), f"round-{round_}", "write", "Model", "default", f"g{i}", i % 4 > 0, "test")
        await store.audit.record_all([entry] * (i % 3 + 1))
        say("audit", entry.actor, entry.name, i % 3 + 1)


def tell(acknowledged: Resource) -> Resource:
    meta: Meta = acknowledged.meta
    say("object", meta.name, meta.resource_version)
    return acknowledged


def say(*words: object) -> None:
    os.write(sys.stdout.fileno(), (" ".join(map(str, words)) + "\n").encode())  # at once, and as a whole


def now() -> datetime:
    return datetime.now(UTC)


if __name__ == "__main__":
    main()
