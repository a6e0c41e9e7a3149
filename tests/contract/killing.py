"""Rounds of kill -9: a process writes to a store, is killed at some moment, and what it left behind is looked at.

One store over all rounds, so each begins with what a killed one left. What was checked once is not read again: the next
check takes up the watches where the last one ended, as a client would.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import aclosing
from pathlib import Path
from types import TracebackType
from typing import Self

from mizzen.kinds.schema.resource import Resource
from mizzen.stores.records.protocol import AuditQuery
from mizzen.stores.store import Where
from tests.contract.stores import INSPECTIONS, OPENERS, Home, model, opened, take, watching
from tests.contract.writes_until_killed import KEPT

PROGRAM = Path(__file__).with_name("writes_until_killed.py")
ROOT = PROGRAM.parents[2]


class Rounds:
    """Of one store. `play` is a round: write, kill, look."""

    def __init__(self, opener: str, folder: Path, rng: random.Random) -> None:
        self._opener = opener
        self._folder = folder
        self._rng = rng
        self._round = 0
        self._seen = 0
        """The last version that was checked."""
        self._present: dict[tuple[str, str], Resource] = {}
        self._numbers: Counter[tuple[str, str]] = Counter()
        """How many revisions each name has."""
        self._secrets: dict[str, int] = {}

    def __enter__(self) -> Self:
        self._server = subprocess.Popen(
            [sys.executable, PROGRAM, self._opener, self._folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", "")))},
        )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is not None:
            self._server.kill()
        self._server.communicate(timeout=60)  # the end of its input is its end

    def play(self, most_lines: int) -> None:
        self._round += 1
        said = self._write_and_kill(self._rng.randint(1, most_lines))
        INSPECTIONS[self._opener](self._folder, self._seen)
        asyncio.run(self._look(said))

    def _write_and_kill(self, lines: int) -> list[list[str]]:
        """Let it say so many lines, and a moment later kill it. Returns all it said."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(f"{self._round}\n".encode())
        self._server.stdin.flush()
        word, pid = self._server.stdout.readline().split()
        assert word == b"pid"
        said: list[list[str]] = []
        try:
            said += (self._line() for _ in range(lines))
            # Not to wait for anything: so that the kill falls anywhere, not just behind an acknowledgement.
            time.sleep(self._rng.uniform(0, 0.004))
        finally:
            os.kill(int(pid), signal.SIGKILL)
        while (line := self._line()) != ["dead"]:
            said.append(line)
        return said

    def _line(self) -> list[str]:
        assert self._server.stdout is not None
        line = self._server.stdout.readline().decode()
        assert line.endswith("\n"), "it ended by itself"
        return line.split()

    async def _look(self, said: list[list[str]]) -> None:
        async with opened(OPENERS[self._opener], self._folder, keep_events=KEPT) as store:
            await self._look_at_objects(store, {int(line[2]): line[1] for line in said if line[0] == "object"})
            await look_at_identities(store, said)
            await self._look_at_secrets(store, said)
            await look_at_audit(store, f"round-{self._round}", said)
            # And it goes on without a hole.
            made = await store.create(model(f"after-{self._round}"), "ann")
            assert made.meta.resource_version == str(self._seen + 1)
            await store.delete(made.ref, "ann")
            self._seen += 2

    async def _look_at_objects(self, store: Home, said: dict[int, str]) -> None:
        listings = [await store.list(kind) for kind in ("Model", "ModelVersion")]
        last = int(listings[0].resource_version)
        async with aclosing(watching(store, None, str(self._seen))) as watch:
            events = await take(watch, last - self._seen)
        versions = [int(event.resource.meta.resource_version) for event in events]
        assert versions == [*range(self._seen + 1, last + 1)], "a resumed watch has no gap"
        names = {version: event.resource.meta.name for version, event in zip(versions, events, strict=True)}
        assert not {version for version, name in said.items() if names.get(version) != name}, "acknowledged, but lost"

        revised: list[tuple[int, str]] = []
        for event in events:
            self._follow(event.type, event.resource, revised)
        present = {(one.kind, one.meta.name): one for listing in listings for one in listing.items}
        assert present == self._present, "the objects are those that the events tell of"

        async with aclosing(watching(store, "Revision", str(self._seen))) as watch:
            revisions = await take(watch, len(revised)) if revised else []
        assert [(int(one.resource.meta.resource_version), one.resource.meta.name) for one in revisions] == revised
        for one in self._present.values():
            found = await store.list(one.kind, Where(fields={"metadata.name": one.meta.name}))
            assert found.items == (one,)
        self._seen = last

    def _follow(self, type_: str, now: Resource, revised: list[tuple[int, str]]) -> None:
        """Note the object as it is after an event, and the revision that the event must have."""
        key = (now.kind, now.meta.name)
        was = self._present.get(key)
        if (
            was is None
            or now.meta.generation != was.meta.generation
            or now.status != was.status
            or now.deleting != was.deleting
        ):
            self._numbers[key] += 1
            revised.append((int(now.meta.resource_version), f"{key[0].lower()}.{key[1]}.{self._numbers[key]}"))
        if type_ == "DELETED":
            del self._present[key]
        else:
            self._present[key] = now

    async def _look_at_secrets(self, store: Home, said: list[list[str]]) -> None:
        self._secrets |= {line[1]: int(line[2]) for line in said if line[0] == "secret"}
        for name, acknowledged in self._secrets.items():
            secret = await store.secrets.get("default", name)
            count = int(secret.keys[0])
            assert count >= acknowledged
            assert secret.sealed == f"{count} ".encode() * 200
            self._secrets[name] = count


async def look_at_identities(store: Home, said: list[list[str]]) -> None:
    principals = {principal.name for principal in await store.identities.principals()}
    assert {line[1] for line in said if line[0] == "principal"} <= principals
    for word, name in ((line[0], line[1]) for line in said if line[0] in ("token", "revoked")):
        token = store.identities.find_token(f"digest-{name}")
        assert token is not None
        assert token.principal == name
        assert word != "revoked" or token.revoked is not None
    assert {token.principal for token in await store.identities.tokens()} <= principals


async def look_at_audit(store: Home, actor: str, said: list[list[str]]) -> None:
    entries = await store.audit.entries(AuditQuery(actor=actor), limit=100_000)
    found = Counter(entry.name for entry in entries)
    acknowledged = {line[2]: int(line[3]) for line in said if line[0] == "audit"}
    assert all(found[group] == size for group, size in acknowledged.items())
    assert all(count == int(group[1:]) % 3 + 1 for group, count in found.items()), "all of a group or none"
