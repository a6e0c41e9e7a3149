"""Tasks of training jobs: one runner process per attempt, started under the supervisor and observed until its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import replace

from mizzen.engines.local import confinements, runner_specs
from mizzen.engines.local.confinements import ConfinementPolicy
from mizzen.engines.local.environments.lifecycle import NO_ROOM
from mizzen.engines.local.gpus.usage import GpuAllocator
from mizzen.engines.local.observation import ProcessObserver
from mizzen.engines.local.prepare import Preparer, ProcessInputs
from mizzen.engines.local.process_specs import Obstacle, WorkloadPaths
from mizzen.engines.local.runner_specs import INDEX
from mizzen.errors import Unavailable
from mizzen.kinds.schema.resource import Resource
from mizzen.kinds.workload import ReplicaStatus, WorkloadSpec, WorkloadStatus
from mizzen.supervisor.client import Client, Refused, SupervisorGone
from mizzen.supervisor.data_dir import Home, read_json
from mizzen.supervisor.protocol import ProcessSpec, ProcessView, State


class TrainingTasks:
    def __init__(
        self,
        home: Home,
        observer: ProcessObserver,
        gpus: GpuAllocator,
        supervisor: Callable[[], AbstractAsyncContextManager[Client]],
        preparer: Preparer,
        *,
        python: str,
        blob_env: Mapping[str, str],
        blob_secrets: Mapping[str, str],
        confining: ConfinementPolicy,
    ) -> None:
        """`python`: our own interpreter. `blob_env`, `blob_secrets`: variables that tell a runner where the blob store
        is."""
        self._home = home
        self._observer = observer
        self._gpus = gpus
        self._supervisor = supervisor
        self._preparer = preparer
        self._python = python
        self._blob_env = blob_env
        self._blob_secrets = blob_secrets
        self._confining = confining

    async def apply(
        self, paths: WorkloadPaths, workload: Resource, spec: WorkloadSpec, *, threads: int
    ) -> ReplicaStatus:
        """The caller holds the lock of this workload. Raises Unavailable."""
        self._observer.set_targets(paths.uid, None)
        attempt = runner_specs.task_of_spec(spec).attempt
        reported = next(iter(WorkloadStatus.of(workload).replicas), None)
        if reported is not None and runner_specs.has_ended(reported, attempt):
            await self._remove_runner(paths)
            return reported
        found = await asyncio.to_thread(runner_specs.read_attempt, runner_specs.paths_of(paths, spec), attempt)
        process, obstacle = None, None
        if found.exit is not None:
            await self._remove_runner(paths)
        else:
            try:
                process, obstacle = await self._run(paths, workload, spec, threads)
            except Refused as error:
                if reported is not None and not self._home.info.exists():
                    return reported  # the plane is being stopped, which does not end the task: it continues later
                raise Unavailable(f"the supervisor does not run {workload.ref}: {error}") from error
        view = self._observer.replicas(paths.uid).get(INDEX)
        current = view is not None and self._is_runner_of(view, process, attempt)
        if found.exit is None:  # the exit may have been written since, or another runner started
            found = await asyncio.to_thread(runner_specs.read_attempt, runner_specs.paths_of(paths, spec), attempt)
        return runner_specs.status_of(attempt, found, view, current=current, reported=reported, obstacle=obstacle)

    async def _run(
        self, paths: WorkloadPaths, workload: Resource, spec: WorkloadSpec, threads: int
    ) -> tuple[ProcessSpec | None, Obstacle | None]:
        """The requested process, or the obstacle to it."""
        prepared = await self._preparer.prepare(paths.uid, spec, workload.meta.namespace)
        process, obstacle = None, None
        with suppress(SupervisorGone):  # the last observation holds; a new supervisor triggers another call
            async with self._gpus.assign(paths, spec, workload.ref) as assignment, self._supervisor() as client:
                if isinstance(prepared, Obstacle):
                    obstacle = prepared
                elif INDEX in assignment.obstacles:
                    obstacle = assignment.obstacles[INDEX]
                else:
                    process = runner_specs.runner_of(
                        spec, paths,
                        python=self._python, threads=threads, secrets=prepared.secrets, built=prepared.built,
                        gpus=assignment.variables.get(INDEX),
                        blob_env=self._blob_env, blob_secrets=self._blob_secrets, pids=self._confining.pids,
                    )  # fmt: skip
                view = await self._refresh_runner(client, paths, process, spec)
                if process is None:
                    return None, obstacle
                if view is None or view.fingerprint != process.fingerprint:
                    try:
                        namespace = workload.meta.namespace
                        built = prepared.built if isinstance(prepared, ProcessInputs) else None
                        confinement = confinements.of_command(self._confining, spec, paths, namespace, built=built)
                        await asyncio.to_thread(runner_specs.write_task, paths, spec, namespace, confinement)
                    except OSError as error:
                        return None, Obstacle("waiting", f"its task cannot be written: {error}", NO_ROOM)
                self._observer.observe(await client.apply(process))
        return process, obstacle

    async def _refresh_runner(
        self, client: Client, paths: WorkloadPaths, process: ProcessSpec | None, spec: WorkloadSpec
    ) -> ProcessView | None:
        """Its runner. A runner that was stopped from outside, not by the supervisor, is started again. So is a killed
        one, once: it still has to save the checkpoints of its command."""
        views = await client.list(paths.prefix)
        self._observer.observe_all(paths.uid, views)
        view = self._observer.replicas(paths.uid).get(INDEX)
        attempt, where = runner_specs.task_of_spec(spec).attempt, runner_specs.paths_of(paths, spec)
        if view is None or view.state is not State.FAILED or not self._is_runner_of(view, process, attempt):
            return view
        found = await asyncio.to_thread(runner_specs.read_attempt, where, attempt)
        if not runner_specs.should_restart(found):
            return view
        if not found.stopped and not await asyncio.to_thread(runner_specs.mark_lost, where, attempt):
            return view
        await client.remove(view.key)
        self._observer.observe(replace(view, state=State.GONE))
        return None

    async def _remove_runner(self, paths: WorkloadPaths) -> None:
        """Remove the runner of an attempt whose end is known. A runner that is still stopping is left alone."""
        with suppress(SupervisorGone):
            async with self._supervisor() as client:
                views = await client.list(paths.prefix)
                self._observer.observe_all(paths.uid, views)
                for view in views:
                    if view.state in (State.FAILED, State.WAITING):
                        await client.remove(view.key)
                        self._observer.observe(replace(view, state=State.GONE))

    def _is_runner_of(self, view: ProcessView, process: ProcessSpec | None, attempt: int) -> bool:
        """Whether it is the runner of this attempt."""
        if process is not None:
            return view.fingerprint == process.fingerprint
        return runner_specs.attempt_in(read_json(self._home.processes / f"{view.key}.json")) == attempt
