"""Reloads: new files for running processes without a restart, one replica of a workload after the other.

A process starts next time only with files that it has loaded successfully: one that ends during a reload comes back
with its previous files. A replica that refuses keeps its files, and its status says why. If another replica has loaded
the files, they are good, and the one that refused is restarted with them.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

from mizzen.engines.local.observation import ProcessObserver
from mizzen.engines.local.probes.frame_probe import FrameProbe
from mizzen.engines.local.process_specs import Obstacle, WorkloadPaths, artifacts_digest
from mizzen.kinds.workload import RELOAD_REFUSED, ReplicaStatus, WorkloadSpec
from mizzen.supervisor.protocol import ProcessView

RELOAD_TIMEOUT = 600.0
"""Seconds after which a process that is still loading counts as refusing."""


class ReloadCoordinator:
    """The reloads of all workloads. It ignores workloads whose spec has no `began`."""

    def __init__(self, observer: ProcessObserver, on_change: Callable[[str], None]) -> None:
        """`on_change` is called with a workload's uid when one of its replicas has loaded other files, or refused."""
        self._observer = observer
        self._on_change = on_change
        self._running: dict[str, asyncio.Task[None]] = {}
        """By workload: one replica at a time."""
        self._refused: dict[str, tuple[str, str]] = {}
        """By replica: the refused files, and why."""

    def files_at_start(
        self,
        paths: WorkloadPaths,
        spec: WorkloadSpec,
        reported: Mapping[int, ReplicaStatus],
        ready: Sequence[ProcessView],
    ) -> dict[int, str]:
        """By index, the files that a replica starts with next time; absent: those of the spec."""
        wanted = artifacts_digest(spec)
        if not spec.began:
            return {}
        proved = any(self._files_of(view.key) == wanted for view in ready)
        answering = {view.key for view in ready}
        files = {}
        for index in range(spec.replicas):
            known = reported[index].files if index in reported else ""
            has = self._files_of(paths.key(index)) or known
            safe = paths.key(index) in answering or not proved
            if has and has != wanted and safe and paths.folder(spec, has).exists():
                files[index] = has
        return files

    def start_next(self, paths: WorkloadPaths, spec: WorkloadSpec, replicas: Mapping[int, ReplicaStatus]) -> None:
        """Start a reload of the next replica that serves other files than the spec wants."""
        wanted = artifacts_digest(spec)
        if not spec.began or paths.uid in self._running:
            return
        ready = [paths.key(index) for index, replica in sorted(replicas.items()) if replica.state == "ready"]
        outdated = [key for key in ready if self._is_outdated(key, wanted)]
        # After a refusal, the owner of the workload decides first how to continue.
        if not outdated or any(self._refusal_of(key, wanted) for key in outdated):
            return
        probe = self._observer.probe(outdated[0])
        assert isinstance(probe, FrameProbe)
        answer = probe.reload(paths.folder(spec, wanted), wanted)
        self._running[paths.uid] = asyncio.create_task(self._await(answer, paths.uid, outdated[0], wanted))

    def add_refusals(
        self, paths: WorkloadPaths, spec: WorkloadSpec, replicas: Mapping[int, ReplicaStatus], obstacle: Obstacle | None
    ) -> dict[int, ReplicaStatus]:
        """The replicas, with the reason of those that refuse the files or cannot get them."""
        wanted = artifacts_digest(spec)
        reported = dict(replicas)
        if not spec.began or any(each.state == "ready" and each.files == wanted for each in replicas.values()):
            return reported
        for index, replica in replicas.items():
            key = paths.key(index)
            why = obstacle.message if obstacle is not None else self._refusal_of(key, wanted)
            if why and replica.state == "ready" and self._is_outdated(key, wanted):
                reported[index] = replica.model_copy(update={"reason": RELOAD_REFUSED, "message": why})
        return reported

    def find_stuck(self, paths: WorkloadPaths, spec: WorkloadSpec, ready: Sequence[ProcessView]) -> ProcessView | None:
        """A replica that refused files which another one has loaded, when all are ready: it must be restarted."""
        wanted = artifacts_digest(spec)
        taken = any(self._files_of(view.key) == wanted for view in ready)
        if not spec.began or len(ready) < spec.replicas or not taken or paths.uid in self._running:
            return None
        outdated = (
            view for view in ready if self._is_outdated(view.key, wanted) and self._refusal_of(view.key, wanted)
        )
        return next(outdated, None)

    def files_in_use(self, paths: WorkloadPaths, spec: WorkloadSpec) -> frozenset[str] | None:
        """Files that processes may read; None when that is unknown for one of them."""
        used = {artifacts_digest(spec)}
        for view in self._observer.replicas(paths.uid).values():
            report = self._observer.state(view.key).report
            if not report.files:
                return None
            used |= {report.files, report.began}
        return frozenset(used)

    @staticmethod
    def remove_unused(paths: WorkloadPaths, used: Collection[str] | None) -> None:
        """Remove the folders of files that no process uses. The folder that processes began with stays."""
        if used is None:
            return
        for folder in paths.work.glob("files-*"):
            if folder.name.removeprefix("files-") not in used:
                folder.with_name(f".{folder.name}.laid").unlink(missing_ok=True)
                shutil.rmtree(folder)

    def forget(self, paths: WorkloadPaths) -> None:
        self._refused = {key: value for key, value in self._refused.items() if not key.startswith(paths.prefix)}
        if paths.uid in self._running:
            self._running.pop(paths.uid).cancel()

    def close(self) -> None:
        for task in self._running.values():
            task.cancel()

    async def _await(self, answer: Awaitable[str], uid: str, key: str, files: str) -> None:
        try:
            why = await asyncio.wait_for(answer, RELOAD_TIMEOUT)
        except TimeoutError:
            why = f"it did not load them within {RELOAD_TIMEOUT / 60:g} minutes"
        if why:
            self._refused[key] = files, why
        self._running.pop(uid, None)
        self._on_change(uid)

    def _files_of(self, key: str) -> str:
        return self._observer.state(key).report.files

    def _is_outdated(self, key: str, wanted: str) -> bool:
        """True only when the replica has reported its files."""
        return self._observer.state(key).readiness == "ready" and self._files_of(key) not in ("", wanted)

    def _refusal_of(self, key: str, wanted: str) -> str:
        files, why = self._refused.get(key, ("", ""))
        return why if files == wanted else ""
