"""LocalEngine: Workloads as processes under the supervisor of this machine.

The supervisor may die and be replaced at any time. That is no error here: what is asked meanwhile gets what was seen
last, and when the new supervisor answers, every workload is hinted at.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Container, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

from mizzen.blobs.file_store import FileBlobs
from mizzen.blobs.fs.remove_tree import remove_tree
from mizzen.engines.engine import Capability, Observation
from mizzen.engines.local import logs
from mizzen.engines.local.environments.lifecycle import NO_ROOM, Environments, Making
from mizzen.engines.local.gpus.allocation import Device
from mizzen.engines.local.gpus.usage import Given, Gpus
from mizzen.engines.local.http_probe import PACE, Pace
from mizzen.engines.local.observation import Sight
from mizzen.engines.local.ports import Ports
from mizzen.engines.local.prepare import Prepared, Preparing, Reveal, no_secrets
from mizzen.engines.local.process_specs import (
    Obstacle,
    Place,
    artifacts_digest,
    due,
    held_up,
    process_of,
    retry_after,
    status_of,
    targets_of,
    threads_of,
    unseen,
)
from mizzen.engines.local.reloads import Reloads
from mizzen.engines.local.training_tasks import Tasks
from mizzen.errors import Invalid, NoRoom, NotFound, Unavailable
from mizzen.kinds.schema.resource import Ref, Resource
from mizzen.kinds.workload import ReplicaStatus, WorkloadSpec, WorkloadStatus
from mizzen.supervisor.client import Client, Refused, SupervisorGone
from mizzen.supervisor.data_dir import Home
from mizzen.supervisor.protocol import ProcessView, State

LONGEST_ANSWER = 65.0
"""Seconds that no request lives: gateways allow none more than 60."""

MAKING = Making()


class LocalEngine:
    """An Engine. It begins to look with the first call, on the loop of that call."""

    def __init__(
        self,
        home: Home,
        blobs: FileBlobs,
        *,
        python: str,
        reveal: Reveal = no_secrets,
        making: Making = MAKING,
        gpus: Sequence[Device] = (),
        pace: Pace = PACE,
        blob_env: Mapping[str, str] | None = None,
        blob_secrets: Mapping[str, str] | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`python` is the interpreter that the command word `python` stands for, in a workload without an environment
        of its own. `reveal` is asked whenever a process may have to be started; what it says goes to the supervisor and
        to that process, and nowhere else. `making`: of environments. `gpus`: those there are to share out. `pace`:
        at which what answers HTTP is asked whether it is ready. `blob_env`, `blob_secrets`: variables by which a runner
        finds the store of blobs. `now` is the supervisor's clock: seconds since 1970."""
        self._home = home
        self._blobs = blobs
        self._python = python
        self._now = now
        self._cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self._gpus = Gpus(home, gpus)
        self._ports = Ports(home)
        self._sight = Sight(home, self._hint, pace)
        self._reloads = Reloads(self._sight, self._hint)
        self._environments = Environments(
            home, self._supervisor, python=python, making=making, room=blobs.room, now=now
        )
        self._preparing = Preparing(self._environments, reveal)
        self._tasks = Tasks(
            home, self._sight, self._gpus, self._supervisor, self._preparing,
            python=python, blob_env=blob_env or {}, blob_secrets=blob_secrets or {},
        )  # fmt: skip
        self._looking: asyncio.Task[None] | None = None
        self._client: Client | None = None
        self._connecting = asyncio.Lock()
        self._refs: dict[str, Ref] = {}
        self._attempts: dict[str, int] = {}
        """How often a replica that had given up was begun anew."""
        self._shares: dict[str, tuple[str, int]] = {}
        """Of each workload: whose it is, and how many replicas it wants."""
        self._laid_out: dict[str, str] = {}
        self._turns: dict[str, asyncio.Lock] = {}
        self._hints: set[asyncio.Queue[Ref | None]] = set()

    @property
    def capabilities(self) -> frozenset[Capability]:
        return frozenset({Capability.GPUS} if self._gpus.devices else ())

    async def apply(self, workload: Resource) -> Observation:
        place, spec = self._begin(workload), WorkloadSpec.of(workload)
        if spec.task is not None and spec.replicas:
            return await self._apply_task(place, spec, workload)
        owner = next((owner.uid for owner in workload.meta.owners), workload.meta.uid)
        self._shares[workload.meta.uid] = (owner, spec.replicas)
        told = {replica.index: replica for replica in WorkloadStatus.of(workload).replicas}
        if spec.purpose in ("answer", "show"):
            place = replace(place, ports=self._ports.of(place, spec.replicas, told))
        self._sight.ask(place.uid, targets_of(spec, place, told))
        async with self._turn(place):
            prepared = await self._prepare(place, spec, workload.meta.namespace)
            obstacle = prepared if isinstance(prepared, Obstacle) else None
            lacking: Mapping[int, Obstacle] = {}
            try:
                with suppress(SupervisorGone):  # what was seen last stands; a new one makes us look again
                    async with self._gpus.shared_out(place, spec, workload.ref) as given:
                        lacking = given.obstacles
                        await self._ask_for(place, spec, told, prepared, gpus=given)
            except Refused as error:
                raise Unavailable(f"the supervisor does not run {workload.ref}: {error}") from error
        wanted = range(spec.replicas)
        seen = {
            index: self._status(place, view, told, wanted) for index, view in self._sight.replicas(place.uid).items()
        }
        for index in wanted:
            in_the_way = obstacle or lacking.get(index)
            if in_the_way is not None:
                seen[index] = held_up(place, index, in_the_way, seen=seen.get(index))
            elif index not in seen:
                seen[index] = unseen(place, index, told=told.get(index))
        self._ports.keep(place, seen)
        if obstacle is None:
            self._reloads.go_on(place, spec, seen)
        seen = self._reloads.told(place, spec, seen, obstacle)
        signature = self._sight.signature(place.uid) or WorkloadStatus.of(workload).signature
        return Observation(tuple(seen[index] for index in sorted(seen)), signature)

    async def _apply_task(self, place: Place, spec: WorkloadSpec, workload: Resource) -> Observation:
        async with self._turn(place):
            self._shares[place.uid] = (place.uid, 1)  # those of one job run beside each other
            threads = threads_of(spec, self._cores, self._replicas())
            replica = await self._tasks.apply(place, workload, spec, threads=threads)
            if replica.state == "ended":
                self._shares.pop(place.uid)
        return Observation((replica,))

    async def delete(self, workload: Resource) -> bool:
        place = self._begin(workload)
        async with self._turn(place):
            try:
                async with self._supervisor() as client:
                    left = [await client.remove(view.key) for view in await client.list(place.prefix)]
            except SupervisorGone:
                return False
            if any(view is not None for view in left):
                return False
            await asyncio.to_thread(_clear, place)
        await self._environments.release(place.uid)
        self._sight.unfollow(place.uid)
        self._reloads.forget(place)
        self._ports.forget(place)
        self._attempts = {key: value for key, value in self._attempts.items() if not key.startswith(place.prefix)}
        for known in (self._refs, self._shares, self._laid_out, self._turns):
            known.pop(place.uid, None)
        return True

    def logs(
        self,
        workload: Resource,
        *,
        tail: int | None = None,
        follow: bool = False,
        places: dict[int, str] | None = None,
        build: bool = False,
    ) -> AsyncIterator[bytes]:
        """Following ends once the workload is deleted."""
        place = self._begin(workload)
        if build:
            wanted = WorkloadSpec.of(workload).environment
            printed = {0: self._environments.log(wanted)} if wanted is not None else {}
            return logs.read(lambda: printed, tail=tail, follow=lambda: follow and place.uid in self._refs)
        return logs.read(place.logs, tail=tail, follow=lambda: follow and place.uid in self._refs, places=places)

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

    async def clear_environments(self, unused: float) -> list[str]:
        """Remove those that no workload has wanted for so many seconds; their keys. Only once all have been applied."""
        return await self._environments.clear(unused)

    async def close(self) -> None:
        """Stops looking. The processes go on."""
        self._reloads.close()
        self._sight.close()
        if self._client is not None:
            self._client.close()
            self._client = None
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

    async def _prepare(self, place: Place, spec: WorkloadSpec, namespace: str) -> Prepared | Obstacle:
        """Files, environment and secrets. What runs has them already, and runs on whatever is missing now."""
        try:
            await self._lay_out(place, spec)
        except (Invalid, NotFound) as error:
            return Obstacle("failed", error.message)
        except NoRoom as error:
            return Obstacle("waiting", error.message, NO_ROOM)
        return await self._preparing.of(place.uid, spec, namespace)

    async def _lay_out(self, place: Place, spec: WorkloadSpec) -> None:
        digest = artifacts_digest(spec)
        if self._laid_out.get(place.uid) != digest:
            if spec.began:
                await asyncio.to_thread(self._reloads.clear, place, self._reloads.in_use(place, spec))
            await asyncio.to_thread(self._blobs.lay_out, spec.artifacts, place.folder(spec, digest))
            self._laid_out[place.uid] = digest

    async def _ask_for(
        self,
        place: Place,
        spec: WorkloadSpec,
        told: Mapping[int, ReplicaStatus],
        prepared: Prepared | Obstacle,
        *,
        gpus: Given,
    ) -> None:
        """Runs what the spec wants, as far as it is due, and nothing else of this workload: nothing new, while there is
        an obstacle. `gpus`: which of them get which."""
        indices = range(spec.replicas)
        threads = threads_of(spec, self._cores, self._replicas())
        keys = {place.key(index) for index in indices}
        cwd = await asyncio.to_thread(_folder, spec.working_dir) if spec.working_dir else None

        def ready(view: ProcessView) -> bool:
            return self._status(place, view, told, indices).state == "ready"

        async with self._supervisor() as client:
            before = await client.list(place.prefix)
            if place.ports is not None:
                await self._leave_lost_ports(client, place, spec, told, before)
            if spec.restart == "Always":
                before = await self._given_another_chance(client, before)
            self._sight.see_only(place.uid, before)
            before = await self._without_foreign(client, before)
            serving = [view for view in before if ready(view)]
            stuck = self._reloads.stuck(place, spec, serving)
            if stuck is not None:
                self._sight.see(await client.remove(stuck.key) or replace(stuck, state=State.GONE, pid=None))
                serving.remove(stuck)
            files = self._reloads.at_start(place, spec, told, serving)
            wanted = [
                process_of(
                    spec, place, index,
                    python=self._python, threads=threads, secrets=prepared.secrets, files=files.get(index),
                    built=prepared.built, gpus=gpus.variables.get(index), cwd=cwd,
                )
                for index in indices
                if not isinstance(prepared, Obstacle) and index not in gpus.obstacles
            ]  # fmt: skip
            for process in due(wanted, {view.key: view for view in before}, ready):
                self._sight.see(await client.apply(process))
            for surplus in (view for view in before if view.key not in keys):
                # One that is too many answers what it has, however long that takes: others run beside it.
                grace = LONGEST_ANSWER if surplus in serving else None
                left = await client.remove(surplus.key, grace)
                self._sight.see(left or replace(surplus, state=State.GONE, pid=None))

    async def _leave_lost_ports(
        self,
        client: Client,
        place: Place,
        spec: WorkloadSpec,
        told: Mapping[int, ReplicaStatus],
        views: Sequence[ProcessView],
    ) -> None:
        """Another port for each replica that has ended, or was never started, while somebody else has its own."""
        lost = self._ports.lost(place, spec.replicas, views)
        # Unless the one who has it is the replica's next process, started since we looked.
        if lost and await client.list(place.prefix) == views:
            self._ports.change(place, lost)
            self._sight.ask(place.uid, targets_of(spec, place, told))

    async def _without_foreign(self, client: Client, views: Sequence[ProcessView]) -> list[ProcessView]:
        """Without those of a release that this one cannot speak to: they end, and are started anew from this one."""
        left = []
        for view in views:
            if self._sight.readiness(view.key) == "foreign":
                ending = await client.remove(view.key) or replace(view, state=State.GONE, pid=None)
                self._sight.see(ending)
                if ending.state is State.GONE:
                    continue
                view = ending  # noqa: PLW2901 - as it is now
            left.append(view)
        return left

    async def _given_another_chance(self, client: Client, views: Sequence[ProcessView]) -> list[ProcessView]:
        """Without those that gave up a while ago, which are begun anew: what they lacked may be there by now."""
        left = []
        for view in views:
            attempt = self._attempts.get(view.key, 0)
            if view.state is State.FAILED and self._now() - (view.exit_time or 0.0) >= retry_after(attempt):
                self._attempts[view.key] = attempt + 1
                await client.remove(view.key)
            else:
                left.append(view)
        return left

    def _replicas(self) -> int:
        """That share this machine. Of those that take each other's place during a switch, one alone counts."""
        most: dict[str, int] = {}
        for owner, replicas in self._shares.values():
            most[owner] = max(replicas, most.get(owner, 0))
        return sum(most.values())

    def _status(
        self, place: Place, view: ProcessView, told: Mapping[int, ReplicaStatus], wanted: Container[int]
    ) -> ReplicaStatus:
        index = place.index(view.key)
        readiness, said, lacks = (
            self._sight.readiness(view.key),
            self._sight.said(view.key),
            self._sight.lacks(view.key),
        )
        return status_of(
            view, readiness, place, index, told=told.get(index), wanted=index in wanted, said=said, lacks=lacks
        )

    @asynccontextmanager
    async def _supervisor(self) -> AsyncIterator[Client]:
        """The one connection for calls. SupervisorGone within makes the next caller connect anew."""
        async with self._connecting:  # else each of those who wait would open one
            if self._client is None:
                self._client = await Client.connect(self._home)
            client = self._client
        try:
            yield client
        except SupervisorGone:
            client.close()
            if self._client is client:  # and not that of the next supervisor already
                self._client = None
            raise


def _folder(path: str) -> str | None:
    return path if os.path.isabs(path) and os.path.isdir(path) else None


def _clear(place: Place) -> None:
    for path in place.sockets():
        path.unlink(missing_ok=True)
    remove_tree(place.work)
    logs.prune(place.home.logs, lambda uid: Place(place.home, uid).work.exists())
