"""LocalEngine: Workloads as processes under the supervisor of this machine.

The supervisor may die and be replaced at any time. That is no error here: what is asked meanwhile gets the last
observation, and when the new supervisor answers, every workload is hinted at.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from dataclasses import replace

from mizzen.blobs.files import FileBlobs
from mizzen.engines.engine import Capability, Observation
from mizzen.engines.local import logs
from mizzen.engines.local.replicas import Place, artifacts_digest, process_of, status_of
from mizzen.engines.local.sight import Sight
from mizzen.errors import Unavailable
from mizzen.kinds.meta import Ref, Resource
from mizzen.kinds.workload import WorkloadSpec
from mizzen.supervisor.client import Client, Refused, SupervisorGone
from mizzen.supervisor.home import Home
from mizzen.supervisor.protocol import State

_HELLO_WAIT = 0.25
"""Seconds a replica that ran before gets to say hello, so that a restarted plane does not report it as starting."""


class LocalEngine:
    """An Engine. It begins to look with the first call, on the loop of that call."""

    def __init__(self, home: Home, blobs: FileBlobs, *, python: str) -> None:
        """`python` is the interpreter that the command word `python` stands for."""
        self._home = home
        self._blobs = blobs
        self._python = python
        self._sight = Sight(home, self._hint)
        self._looking: asyncio.Task[None] | None = None
        self._client: Client | None = None
        self._refs: dict[str, Ref] = {}
        self._laid_out: dict[str, str] = {}
        self._applied: set[str] = set()
        self._turns: dict[str, asyncio.Lock] = {}
        self._hints: set[asyncio.Queue[Ref | None]] = set()

    @property
    def capabilities(self) -> frozenset[Capability]:
        return frozenset()

    async def apply(self, workload: Resource) -> Observation:
        place, spec = self._begin(workload), WorkloadSpec.of(workload)
        async with self._turn(place):
            await self._lay_out(place, spec)
            try:
                await self._ask_for(place, spec)
            except SupervisorGone:
                self._disconnect()
            except Refused as error:
                raise Unavailable(f"the supervisor does not run {workload.ref}: {error}") from error
        seen = self._sight.replicas(place.uid)
        return Observation(
            tuple(
                status_of(seen.get(index), self._sight.readiness(place.key(index)), place, index)
                for index in sorted({*range(spec.replicas), *seen})
            )
        )

    async def delete(self, workload: Resource) -> bool:
        place = self._begin(workload)
        async with self._turn(place):
            try:
                client = await self._connected()
                left = [await client.remove(view.key) for view in await client.list(place.prefix)]
            except SupervisorGone:
                self._disconnect()
                return False
            if any(view is not None for view in left):
                return False
            await asyncio.to_thread(_clear, place)
        self._sight.unfollow(place.uid)
        self._applied.discard(place.uid)
        for known in (self._refs, self._laid_out, self._turns):
            known.pop(place.uid, None)
        return True

    def logs(self, workload: Resource, *, tail: int | None = None, follow: bool = False) -> AsyncIterator[bytes]:
        """Following ends once the workload is deleted."""
        place = self._begin(workload)
        return logs.read(place.logs, tail=tail, follow=lambda: follow and place.uid in self._refs)

    async def changes(self) -> AsyncIterator[Ref]:
        """Begins with every workload known. Raises what ended the looking, should anything do so."""
        looking = self._look()
        queue: asyncio.Queue[Ref | None] = asyncio.Queue()
        self._hints.add(queue)
        try:
            for ref in tuple(self._refs.values()):
                yield ref
            while (ref_or_end := await queue.get()) is not None:
                yield ref_or_end
            await looking
        finally:
            self._hints.discard(queue)

    async def close(self) -> None:
        """Stops looking. The processes go on."""
        self._sight.close()
        self._disconnect()
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait({self._looking})

    def _begin(self, workload: Resource) -> Place:
        self._refs[workload.meta.uid] = workload.ref
        self._sight.follow(workload.meta.uid)
        self._look()
        return Place(self._home, workload.meta.uid)

    def _look(self) -> asyncio.Task[None]:
        if self._looking is None:
            self._looking = asyncio.create_task(self._sight.run())
            self._looking.add_done_callback(lambda _: self._tell(None))
        return self._looking

    def _hint(self, uid: str) -> None:
        if uid in self._refs:
            self._tell(self._refs[uid])

    def _tell(self, ref: Ref | None) -> None:
        for queue in self._hints:
            queue.put_nowait(ref)

    def _turn(self, place: Place) -> asyncio.Lock:
        """One at a time for each workload: its folder is laid out and removed by whoever has the turn."""
        return self._turns.setdefault(place.uid, asyncio.Lock())

    async def _lay_out(self, place: Place, spec: WorkloadSpec) -> None:
        digest = artifacts_digest(spec)
        if self._laid_out.get(place.uid) != digest:
            await asyncio.to_thread(self._blobs.lay_out, spec.artifacts, place.files)
            self._laid_out[place.uid] = digest

    async def _ask_for(self, place: Place, spec: WorkloadSpec) -> None:
        """Runs what the spec wants and nothing else of this workload."""
        client = await self._connected()
        before = await client.list(place.prefix)
        self._sight.see_only(place.uid, before)
        wanted = [process_of(spec, place, index, python=self._python) for index in range(spec.replicas)]
        for process in wanted:
            self._sight.see(await client.apply(process))
        keys = {process.key for process in wanted}
        for surplus in (view for view in before if view.key not in keys):
            self._sight.see(await client.remove(surplus.key) or replace(surplus, state=State.GONE, pid=None))
        if place.uid not in self._applied:
            self._applied.add(place.uid)
            await self._sight.settled((view.key for view in before), _HELLO_WAIT)

    async def _connected(self) -> Client:
        if self._client is None:
            self._client = await Client.connect(self._home)
        return self._client

    def _disconnect(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None


def _clear(place: Place) -> None:
    for path in place.sockets():
        path.unlink(missing_ok=True)
    if place.work.exists():
        shutil.rmtree(place.work)
