"""LocalEngine: Workloads as processes under the supervisor of this machine.

The supervisor may die and be replaced at any time. That is not an error here: calls in between return the last
observation, and when the new supervisor is up, a hint is sent for every workload.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Container, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

from mizzen.blobs.file_store import FileBlobs
from mizzen.blobs.fs.remove_tree import remove_tree
from mizzen.engines.engine import Capability, Observation
from mizzen.engines.local import confinements, logs
from mizzen.engines.local.confinements import DEFAULT_CONFINEMENT, ConfinementPolicy
from mizzen.engines.local.environments.lifecycle import NO_ROOM, BuildSettings, Environments
from mizzen.engines.local.gpus.allocation import Device
from mizzen.engines.local.gpus.usage import GpuAllocator, GpuAssignment
from mizzen.engines.local.observation import ProcessObserver
from mizzen.engines.local.ports import ReplicaPorts
from mizzen.engines.local.prepare import Preparer, ProcessInputs, Reveal, no_secrets
from mizzen.engines.local.probes.http_probe import DEFAULT_INTERVALS, ProbeIntervals
from mizzen.engines.local.process_specs import (
    Obstacle,
    WorkloadPaths,
    artifacts_digest,
    choose_due,
    process_of,
    retry_after,
    split_key,
    status_of,
    status_of_blocked,
    status_of_unobserved,
    targets_of,
    threads_of,
)
from mizzen.engines.local.reloads import ReloadCoordinator
from mizzen.engines.local.training_tasks import TrainingTasks
from mizzen.errors import Invalid, NoRoom, NotFound, Unavailable
from mizzen.kinds.schema.resource import Ref, Resource
from mizzen.kinds.workload import ReplicaStatus, WorkloadSpec, WorkloadStatus
from mizzen.supervisor.client import Client, Refused, SupervisorGone
from mizzen.supervisor.data_dir import Home
from mizzen.supervisor.protocol import ProcessView, State

MAX_REQUEST_SECONDS = 65.0
"""No request takes longer: gateways limit them to 60 seconds."""

DEFAULT_BUILD = BuildSettings()


class LocalEngine:
    """An Engine. It starts to observe processes with the first call, on the event loop of that call."""

    def __init__(
        self,
        home: Home,
        blobs: FileBlobs,
        *,
        python: str,
        reveal: Reveal = no_secrets,
        build_settings: BuildSettings = DEFAULT_BUILD,
        gpus: Sequence[Device] = (),
        intervals: ProbeIntervals = DEFAULT_INTERVALS,
        blob_env: Mapping[str, str] | None = None,
        blob_secrets: Mapping[str, str] | None = None,
        confining: ConfinementPolicy = DEFAULT_CONFINEMENT,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`python` replaces the command word `python` in a workload without its own environment. `reveal` returns
        secrets and is called whenever a process may have to be started; their values go to the supervisor and to that
        process, and nowhere else. `build_settings`: for environments. `gpus`: the devices to allocate. `intervals`: of
        HTTP readiness probes. `confining`: how users' code is confined. `blob_env`, `blob_secrets`: variables that tell
        a runner where the blob store is. `now` is the supervisor's clock: seconds since 1970."""
        self._home = home
        self._blobs = blobs
        self._python = python
        self._now = now
        self._cores = count_cores()
        self._gpus = GpuAllocator(home, gpus)
        self._confining = confining
        self._ports = ReplicaPorts(home)
        self._observer = ProcessObserver(home, self._hint, intervals)
        self._reloads = ReloadCoordinator(self._observer, self._hint)
        self._environments = Environments(
            home,
            self._supervisor,
            python=python,
            build_settings=build_settings,
            room=blobs.room,
            confining=confining,
            now=now,
        )
        self._preparer = Preparer(self._environments, reveal)
        self._tasks = TrainingTasks(
            home, self._observer, self._gpus, self._supervisor, self._preparer,
            python=python, blob_env=blob_env or {}, blob_secrets=blob_secrets or {}, confining=confining,
        )  # fmt: skip
        self._observer_task: asyncio.Task[None] | None = None
        self._client: Client | None = None
        self._connecting = asyncio.Lock()
        self._refs: dict[str, Ref] = {}
        self._attempts: dict[str, int] = {}
        """How often a failed replica was started again."""
        self._wanted_replicas: dict[str, tuple[str, int]] = {}
        """By workload: its owner, and the number of replicas that it wants."""
        self._laid_out: dict[str, str] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._hints: set[asyncio.Queue[Ref | None]] = set()

    @property
    def capabilities(self) -> frozenset[Capability]:
        return frozenset({Capability.GPUS} if self._gpus.devices else ())

    async def apply(self, workload: Resource) -> Observation:
        paths, spec = self._track(workload), WorkloadSpec.of(workload)
        if spec.task is not None and spec.replicas:
            return await self._apply_task(paths, spec, workload)
        owner = next((owner.uid for owner in workload.meta.owners), workload.meta.uid)
        self._wanted_replicas[workload.meta.uid] = (owner, spec.replicas)
        reported = {replica.index: replica for replica in WorkloadStatus.of(workload).replicas}
        if spec.purpose in ("answer", "show"):
            paths = replace(paths, ports=self._ports.assign(paths, spec.replicas, reported))
        self._observer.set_targets(paths.uid, targets_of(spec, paths, reported))
        async with self._lock_of(paths):
            prepared = await self._prepare(paths, spec, workload.meta.namespace)
            obstacle = prepared if isinstance(prepared, Obstacle) else None
            lacking: Mapping[int, Obstacle] = {}
            try:
                with suppress(SupervisorGone):  # the last observation holds; a new supervisor triggers another call
                    async with self._gpus.assign(paths, spec, workload.ref) as assignment:
                        lacking = assignment.obstacles
                        await self._apply_processes(paths, spec, reported, prepared, gpus=assignment)
            except Refused as error:
                raise Unavailable(f"the supervisor does not run {workload.ref}: {error}") from error
        wanted = range(spec.replicas)
        views = self._observer.replicas(paths.uid)
        seen = {index: self._status(paths, view, reported, wanted) for index, view in views.items()}
        for index in wanted:
            reason = obstacle or lacking.get(index)
            if reason is not None:
                seen[index] = status_of_blocked(paths, index, reason, seen=seen.get(index))
            elif index not in seen:
                seen[index] = status_of_unobserved(paths, index, reported=reported.get(index))
        self._ports.keep_only(paths, seen)
        if obstacle is None:
            self._reloads.start_next(paths, spec, seen)
        seen = self._reloads.add_refusals(paths, spec, seen, obstacle)
        signature = self._observer.signature(paths.uid) or WorkloadStatus.of(workload).signature
        return Observation(tuple(seen[index] for index in sorted(seen)), signature)

    async def _apply_task(self, paths: WorkloadPaths, spec: WorkloadSpec, workload: Resource) -> Observation:
        async with self._lock_of(paths):
            self._wanted_replicas[paths.uid] = (paths.uid, 1)  # replicas of one job run at the same time
            threads = threads_of(spec, self._cores, self._count_replicas())
            replica = await self._tasks.apply(paths, workload, spec, threads=threads)
            if replica.state == "ended":
                self._wanted_replicas.pop(paths.uid)
        return Observation((replica,))

    async def delete(self, workload: Resource) -> bool:
        paths = self._track(workload)
        async with self._lock_of(paths):
            try:
                async with self._supervisor() as client:
                    left = [await client.remove(view.key) for view in await client.list(paths.prefix)]
            except SupervisorGone:
                return False
            if any(view is not None for view in left):
                return False
            await asyncio.to_thread(_remove_files, paths)
        await self._environments.release(paths.uid)
        self._observer.unfollow(paths.uid)
        self._reloads.forget(paths)
        self._ports.release(paths)
        self._attempts = {key: value for key, value in self._attempts.items() if not key.startswith(paths.prefix)}
        for known in (self._refs, self._wanted_replicas, self._laid_out, self._locks):
            known.pop(paths.uid, None)
        return True

    async def end_unknown(self, known: Callable[[], Awaitable[Container[str]]]) -> list[str]:
        """End the replicas and jobs of workloads that do not exist, and return their keys. `known` returns the uids of
        all workloads; it is called after the processes were listed, so a workload that is created meanwhile is safe."""
        try:
            async with self._supervisor() as client:
                running = {view.key: found[0] for view in await client.list() if (found := split_key(view.key))}
            uids = await known() if running else ()
            unknown = [key for key, uid in running.items() if uid not in uids]
            async with self._supervisor() as client:
                for key in unknown:
                    await client.remove(key)
        except SupervisorGone:
            return []
        return unknown

    def logs(
        self,
        workload: Resource,
        *,
        tail: int | None = None,
        follow: bool = False,
        places: dict[int, str] | None = None,
        build: bool = False,
    ) -> AsyncIterator[bytes]:
        """`follow` ends once the workload is deleted."""
        paths = self._track(workload)
        if build:
            wanted = WorkloadSpec.of(workload).environment
            paths_of_build = {0: self._environments.log_path(wanted)} if wanted is not None else {}
            return logs.read(lambda: paths_of_build, tail=tail, follow=lambda: follow and paths.uid in self._refs)
        return logs.read(paths.logs, tail=tail, follow=lambda: follow and paths.uid in self._refs, places=places)

    async def changes(self) -> AsyncIterator[Ref]:
        """Begins with every known workload. Raises the error that ended the observer, if any."""
        observing = self._start_observer()
        queue: asyncio.Queue[Ref | None] = asyncio.Queue()
        self._hints.add(queue)
        try:
            for ref in tuple(self._refs.values()):
                yield ref
            while (ref_or_end := await queue.get()) is not None:
                yield ref_or_end
            await observing
        finally:
            self._hints.discard(queue)

    async def clear_environments(self, unused: float) -> list[str]:
        """Remove those that no workload has wanted for so many seconds, and return their keys. Call this only when all
        workloads have been applied."""
        return await self._environments.clear(unused)

    async def close(self) -> None:
        """Stop observing. The processes keep running."""
        self._reloads.close()
        self._observer.close()
        if self._client is not None:
            self._client.close()
            self._client = None
        if self._observer_task is not None:
            self._observer_task.cancel()
            await asyncio.wait({self._observer_task})

    def _track(self, workload: Resource) -> WorkloadPaths:
        self._refs[workload.meta.uid] = workload.ref
        self._observer.follow(workload.meta.uid)
        self._start_observer()
        return WorkloadPaths(self._home, workload.meta.uid)

    def _start_observer(self) -> asyncio.Task[None]:
        if self._observer_task is None:
            self._observer_task = asyncio.create_task(self._observer.run())
            self._observer_task.add_done_callback(lambda _: self._notify(None))
        return self._observer_task

    def _hint(self, uid: str) -> None:
        if uid in self._refs:
            self._notify(self._refs[uid])

    def _notify(self, ref: Ref | None) -> None:
        for queue in self._hints:
            queue.put_nowait(ref)

    def _lock_of(self, paths: WorkloadPaths) -> asyncio.Lock:
        """One lock per workload: its holder lays out and removes the workload's folder."""
        return self._locks.setdefault(paths.uid, asyncio.Lock())

    async def _prepare(self, paths: WorkloadPaths, spec: WorkloadSpec, namespace: str) -> ProcessInputs | Obstacle:
        """Files, environment and secrets. Running processes have them already, and continue if any is missing now."""
        try:
            await self._lay_out(paths, spec)
        except (Invalid, NotFound) as error:
            return Obstacle("failed", error.message)
        except NoRoom as error:
            return Obstacle("waiting", error.message, NO_ROOM)
        return await self._preparer.prepare(paths.uid, spec, namespace)

    async def _lay_out(self, paths: WorkloadPaths, spec: WorkloadSpec) -> None:
        digest = artifacts_digest(spec)
        if self._laid_out.get(paths.uid) != digest:
            if spec.began:
                await asyncio.to_thread(self._reloads.remove_unused, paths, self._reloads.files_in_use(paths, spec))
            await asyncio.to_thread(self._blobs.lay_out, spec.artifacts, paths.folder(spec, digest))
            self._laid_out[paths.uid] = digest

    async def _apply_processes(
        self,
        paths: WorkloadPaths,
        spec: WorkloadSpec,
        reported: Mapping[int, ReplicaStatus],
        prepared: ProcessInputs | Obstacle,
        *,
        gpus: GpuAssignment,
    ) -> None:
        """Start the processes of the spec that are due, and stop all others of this workload. Nothing new starts while
        there is an obstacle. `gpus`: the GPUs of each replica."""
        indices = range(spec.replicas)
        threads = threads_of(spec, self._cores, self._count_replicas())
        keys = {paths.key(index) for index in indices}
        cwd = await asyncio.to_thread(_existing_folder, spec.working_dir) if spec.working_dir else None

        def ready(view: ProcessView) -> bool:
            return self._status(paths, view, reported, indices).state == "ready"

        async with self._supervisor() as client:
            _make_own_folders(paths)
            before = await client.list(paths.prefix)
            if paths.ports is not None:
                await self._replace_lost_ports(client, paths, spec, reported, before)
            if spec.restart == "Always":
                before = await self._retry_failed(client, before)
            self._observer.observe_all(paths.uid, before)
            before = await self._stop_foreign(client, before)
            serving = [view for view in before if ready(view)]
            stuck = self._reloads.find_stuck(paths, spec, serving)
            if stuck is not None:
                self._observer.observe(await client.remove(stuck.key) or _as_gone(stuck))
                serving.remove(stuck)
            files = self._reloads.files_at_start(paths, spec, reported, serving)
            wanted = [
                process_of(
                    spec, paths, index,
                    python=self._python, threads=threads, secrets=prepared.secrets, files=files.get(index),
                    built=prepared.built, gpus=gpus.variables.get(index), cwd=cwd,
                    confinement=confinements.of_replica(self._confining, spec, paths, built=prepared.built, cwd=cwd),
                    pids=self._confining.pids,
                )
                for index in indices
                if not isinstance(prepared, Obstacle) and index not in gpus.obstacles
            ]  # fmt: skip
            for process in choose_due(wanted, {view.key: view for view in before}, ready):
                self._observer.observe(await client.apply(process))
            for surplus in (view for view in before if view.key not in keys):
                # A surplus process may finish its requests, however long they take: others keep serving.
                grace = MAX_REQUEST_SECONDS if surplus in serving else None
                self._observer.observe(await client.remove(surplus.key, grace) or _as_gone(surplus))

    async def _replace_lost_ports(
        self,
        client: Client,
        paths: WorkloadPaths,
        spec: WorkloadSpec,
        reported: Mapping[int, ReplicaStatus],
        views: Sequence[ProcessView],
    ) -> None:
        """Assign another port to each replica without a process whose port another program has taken."""
        lost = self._ports.find_lost(paths, spec.replicas, views)
        # Unless the port belongs to the replica's next process, which has started since.
        if lost and await client.list(paths.prefix) == views:
            self._ports.reassign(paths, lost)
            self._observer.set_targets(paths.uid, targets_of(spec, paths, reported))

    async def _stop_foreign(self, client: Client, views: Sequence[ProcessView]) -> list[ProcessView]:
        """Stop processes of a release that this one cannot communicate with; they are restarted with this release.
        Returns the other processes."""
        left = []
        for view in views:
            if self._observer.state(view.key).readiness == "foreign":
                ending = await client.remove(view.key) or _as_gone(view)
                self._observer.observe(ending)
                if ending.state is State.GONE:
                    continue
                view = ending  # noqa: PLW2901 - as it is now
            left.append(view)
        return left

    async def _retry_failed(self, client: Client, views: Sequence[ProcessView]) -> list[ProcessView]:
        """Remove processes that failed a while ago, so that they start again: the cause may have passed. Returns the
        other processes."""
        left = []
        for view in views:
            attempt = self._attempts.get(view.key, 0)
            if view.state is State.FAILED and self._now() - (view.exit_time or 0.0) >= retry_after(attempt):
                self._attempts[view.key] = attempt + 1
                await client.remove(view.key)
            else:
                left.append(view)
        return left

    def _count_replicas(self) -> int:
        """Replicas that share this machine. During a switch, a replica and its replacement count as one."""
        most: dict[str, int] = {}
        for owner, replicas in self._wanted_replicas.values():
            most[owner] = max(replicas, most.get(owner, 0))
        return sum(most.values())

    def _status(
        self, paths: WorkloadPaths, view: ProcessView, reported: Mapping[int, ReplicaStatus], wanted: Container[int]
    ) -> ReplicaStatus:
        index = paths.index(view.key)
        state = self._observer.state(view.key)
        return status_of(view, state, paths, index, reported=reported.get(index), wanted=index in wanted)

    @asynccontextmanager
    async def _supervisor(self) -> AsyncIterator[Client]:
        """The single connection for calls. After SupervisorGone within it, the next caller reconnects."""
        async with self._connecting:  # otherwise each waiting caller would open one
            if self._client is None:
                self._client = await Client.connect(self._home)
            client = self._client
        try:
            yield client
        except SupervisorGone:
            client.close()
            if self._client is client:  # and not already that of the next supervisor
                self._client = None
            raise


def count_cores() -> int:
    """The CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _as_gone(view: ProcessView) -> ProcessView:
    return replace(view, state=State.GONE, pid=None)


def _existing_folder(path: str) -> str | None:
    return path if os.path.isabs(path) and os.path.isdir(path) else None


def _make_own_folders(paths: WorkloadPaths) -> None:
    for folder in (paths.work, paths.scratch, paths.socket_folder):
        folder.mkdir(mode=0o700, parents=folder == paths.work, exist_ok=True)


def _remove_files(paths: WorkloadPaths) -> None:
    remove_tree(paths.socket_folder)
    remove_tree(paths.work)
    logs.prune(paths.home.logs, lambda uid: WorkloadPaths(paths.home, uid).work.exists())
