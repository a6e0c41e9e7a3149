"""Tasks of job sets, run by runners under the supervisor: begun once for each attempt, and followed to their end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import replace

from mizzen.engines.local import runner_specs
from mizzen.engines.local.environments.lifecycle import NO_ROOM
from mizzen.engines.local.gpus.usage import Gpus
from mizzen.engines.local.observation import Sight
from mizzen.engines.local.prepare import Preparing
from mizzen.engines.local.process_specs import Obstacle, Place
from mizzen.engines.local.runner_specs import INDEX
from mizzen.errors import Unavailable
from mizzen.kinds.schema.resource import Resource
from mizzen.kinds.workload import ReplicaStatus, WorkloadSpec, WorkloadStatus
from mizzen.supervisor.client import Client, Refused, SupervisorGone
from mizzen.supervisor.data_dir import Home, read_json
from mizzen.supervisor.protocol import ProcessSpec, ProcessView, State


class Tasks:
    def __init__(
        self,
        home: Home,
        sight: Sight,
        gpus: Gpus,
        supervisor: Callable[[], AbstractAsyncContextManager[Client]],
        preparing: Preparing,
        *,
        python: str,
        blob_env: Mapping[str, str],
        blob_secrets: Mapping[str, str],
    ) -> None:
        """`python`: our own interpreter. `blob_env`, `blob_secrets`: how a runner finds the store of blobs."""
        self._home = home
        self._sight = sight
        self._gpus = gpus
        self._supervisor = supervisor
        self._preparing = preparing
        self._python = python
        self._blob_env = blob_env
        self._blob_secrets = blob_secrets

    async def apply(self, place: Place, workload: Resource, spec: WorkloadSpec, *, threads: int) -> ReplicaStatus:
        """Whoever calls it has the turn of this workload. Unavailable."""
        self._sight.ask(place.uid, None)
        attempt = runner_specs.of(spec).attempt
        told = next(iter(WorkloadStatus.of(workload).replicas), None)
        if told is not None and runner_specs.ended(told, attempt):
            await self._forget(place)
            return told
        found = await asyncio.to_thread(runner_specs.look, runner_specs.place_of(place, spec), attempt)
        process, obstacle = None, None
        if found.exit is not None:
            await self._forget(place)
        else:
            try:
                process, obstacle = await self._run(place, workload, spec, threads)
            except Refused as error:
                if told is not None and not self._home.info.exists():
                    return told  # everything is being stopped, and that is no end: it goes on after the next start
                raise Unavailable(f"the supervisor does not run {workload.ref}: {error}") from error
        view = self._sight.replicas(place.uid).get(INDEX)
        current = view is not None and self._is_of(view, process, attempt)
        if found.exit is None:  # it may have written it since we looked, or be another runner now
            found = await asyncio.to_thread(runner_specs.look, runner_specs.place_of(place, spec), attempt)
        return runner_specs.status_of(attempt, found, view, current=current, told=told, obstacle=obstacle)

    async def _run(
        self, place: Place, workload: Resource, spec: WorkloadSpec, threads: int
    ) -> tuple[ProcessSpec | None, Obstacle | None]:
        """What was asked for, if nothing is in the way."""
        prepared = await self._preparing.of(place.uid, spec, workload.meta.namespace)
        process, obstacle = None, None
        with suppress(SupervisorGone):  # what was seen last stands; a new one makes us look again
            async with self._gpus.shared_out(place, spec, workload.ref) as given, self._supervisor() as client:
                if isinstance(prepared, Obstacle):
                    obstacle = prepared
                elif INDEX in given.obstacles:
                    obstacle = given.obstacles[INDEX]
                else:
                    process = runner_specs.runner_of(
                        spec, place,
                        python=self._python, threads=threads, secrets=prepared.secrets, built=prepared.built,
                        gpus=given.variables.get(INDEX),
                        blob_env=self._blob_env, blob_secrets=self._blob_secrets,
                    )  # fmt: skip
                view = await self._looked(client, place, process, spec)
                if process is None:
                    return None, obstacle
                if view is None or view.fingerprint != process.fingerprint:
                    try:
                        await asyncio.to_thread(runner_specs.write, place, spec, workload.meta.namespace)
                    except OSError as error:
                        return None, Obstacle("waiting", f"its task cannot be written: {error}", NO_ROOM)
                self._sight.see(await client.apply(process))
        return process, obstacle

    async def _looked(
        self, client: Client, place: Place, process: ProcessSpec | None, spec: WorkloadSpec
    ) -> ProcessView | None:
        """Its runner. One that ended because somebody told it to, and not the supervisor, is begun anew; one that was
        killed, once: what its command had saved is still to be put away."""
        views = await client.list(place.prefix)
        self._sight.see_only(place.uid, views)
        view = self._sight.replicas(place.uid).get(INDEX)
        attempt, where = runner_specs.of(spec).attempt, runner_specs.place_of(place, spec)
        if view is None or view.state is not State.FAILED or not self._is_of(view, process, attempt):
            return view
        found = await asyncio.to_thread(runner_specs.look, where, attempt)
        if not runner_specs.starts_again(found):
            return view
        if not found.stopped and not await asyncio.to_thread(runner_specs.note_lost, where, attempt):
            return view
        await client.remove(view.key)
        self._sight.see(replace(view, state=State.GONE))
        return None

    async def _forget(self, place: Place) -> None:
        """The runner of an attempt whose end is known. One that still ends is left to do so."""
        with suppress(SupervisorGone):
            async with self._supervisor() as client:
                views = await client.list(place.prefix)
                self._sight.see_only(place.uid, views)
                for view in views:
                    if view.state in (State.FAILED, State.WAITING):
                        await client.remove(view.key)
                        self._sight.see(replace(view, state=State.GONE))

    def _is_of(self, view: ProcessView, process: ProcessSpec | None, attempt: int) -> bool:
        """Is it the runner of this attempt?"""
        if process is not None:
            return view.fingerprint == process.fingerprint
        return runner_specs.attempt_in(read_json(self._home.processes / f"{view.key}.json")) == attempt
