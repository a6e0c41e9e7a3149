"""Other files for processes that take them without a restart, one replica of a workload after the other.

A process is told with its next start only what it has proved to take: one that ends while it loads comes back with what
it had. Who refuses goes on with that, and it is said why; but where another replica has taken the files, they are good,
and the one that refused is started anew with them.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

from mizzen.engines.local.frame_probe import Probe
from mizzen.engines.local.observation import Sight
from mizzen.engines.local.process_specs import Obstacle, Place, artifacts_digest
from mizzen.kinds.workload import RELOAD_REFUSED, ReplicaStatus, WorkloadSpec
from mizzen.supervisor.protocol import ProcessView

PATIENCE = 600.0
"""Seconds after which a process that still loads counts as one that refuses."""


class Reloads:
    """Of all workloads. Those whose spec does not say what their processes `began` with are none of its business."""

    def __init__(self, sight: Sight, changed: Callable[[str], None]) -> None:
        """`changed` is called with a workload's uid when one of its replicas has taken other files, or has not."""
        self._sight = sight
        self._changed = changed
        self._under_way: dict[str, asyncio.Task[None]] = {}
        """By workload: one replica at a time."""
        self._refused: dict[str, tuple[str, str]] = {}
        """By replica: which files, and why."""

    def at_start(
        self, place: Place, spec: WorkloadSpec, told: Mapping[int, ReplicaStatus], ready: Sequence[ProcessView]
    ) -> dict[int, str]:
        """By index, the files that each is to begin with when it is started next; absent: those of the spec."""
        wanted = artifacts_digest(spec)
        if not spec.began:
            return {}
        proved = any(self._has(view.key) == wanted for view in ready)
        answering = {view.key for view in ready}
        files = {}
        for index in range(spec.replicas):
            known = told[index].files if index in told else ""
            has = self._has(place.key(index)) or known
            safe = place.key(index) in answering or not proved
            if has and has != wanted and safe and place.folder(spec, has).exists():
                files[index] = has
        return files

    def go_on(self, place: Place, spec: WorkloadSpec, replicas: Mapping[int, ReplicaStatus]) -> None:
        """Begin with the next replica that answers with other files than the spec wants."""
        wanted = artifacts_digest(spec)
        if not spec.began or place.uid in self._under_way:
            return
        ready = [place.key(index) for index, replica in sorted(replicas.items()) if replica.state == "ready"]
        outdated = [key for key in ready if self._outdated(key, wanted)]
        # Whoever wants it decides first what is to become of what one of them refused.
        if not outdated or any(self._refusal(key, wanted) for key in outdated):
            return
        probe = self._sight.probe(outdated[0])
        assert isinstance(probe, Probe)
        answer = probe.reload(place.folder(spec, wanted), wanted)
        self._under_way[place.uid] = asyncio.create_task(self._await(answer, place.uid, outdated[0], wanted))

    def told(
        self, place: Place, spec: WorkloadSpec, replicas: Mapping[int, ReplicaStatus], obstacle: Obstacle | None
    ) -> dict[int, ReplicaStatus]:
        """Of those that do not take the files, or cannot be given them, why."""
        wanted = artifacts_digest(spec)
        told = dict(replicas)
        if not spec.began or any(each.state == "ready" and each.files == wanted for each in replicas.values()):
            return told
        for index, replica in replicas.items():
            key = place.key(index)
            why = obstacle.message if obstacle is not None else self._refusal(key, wanted)
            if why and replica.state == "ready" and self._outdated(key, wanted):
                told[index] = replica.model_copy(update={"reason": RELOAD_REFUSED, "message": why})
        return told

    def stuck(self, place: Place, spec: WorkloadSpec, ready: Sequence[ProcessView]) -> ProcessView | None:
        """One that refused what another has taken, when all are there: it is to be started anew."""
        wanted = artifacts_digest(spec)
        taken = any(self._has(view.key) == wanted for view in ready)
        if not spec.began or len(ready) < spec.replicas or not taken or place.uid in self._under_way:
            return None
        outdated = (view for view in ready if self._outdated(view.key, wanted) and self._refusal(view.key, wanted))
        return next(outdated, None)

    def in_use(self, place: Place, spec: WorkloadSpec) -> frozenset[str] | None:
        """Files that processes may read; None when that is not known of one."""
        used = {artifacts_digest(spec)}
        for view in self._sight.replicas(place.uid).values():
            said = self._sight.said(view.key)
            if not said.files:
                return None
            used |= {said.files, said.began}
        return frozenset(used)

    @staticmethod
    def clear(place: Place, used: Collection[str] | None) -> None:
        """Remove the folders of files that nobody has any more. That which processes began with stays."""
        if used is None:
            return
        for folder in place.work.glob("files-*"):
            if folder.name.removeprefix("files-") not in used:
                folder.with_name(f".{folder.name}.laid").unlink(missing_ok=True)
                shutil.rmtree(folder)

    def forget(self, place: Place) -> None:
        self._refused = {key: value for key, value in self._refused.items() if not key.startswith(place.prefix)}
        if place.uid in self._under_way:
            self._under_way.pop(place.uid).cancel()

    def close(self) -> None:
        for task in self._under_way.values():
            task.cancel()

    async def _await(self, answer: Awaitable[str], uid: str, key: str, files: str) -> None:
        try:
            why = await asyncio.wait_for(answer, PATIENCE)
        except TimeoutError:
            why = f"it has not loaded them within {PATIENCE / 60:g} minutes"
        if why:
            self._refused[key] = files, why
        self._under_way.pop(uid, None)
        self._changed(uid)

    def _has(self, key: str) -> str:
        return self._sight.said(key).files

    def _outdated(self, key: str, wanted: str) -> bool:
        """Known for sure: it has said so."""
        return self._sight.readiness(key) == "ready" and self._has(key) not in ("", wanted)

    def _refusal(self, key: str, wanted: str) -> str:
        files, why = self._refused.get(key, ("", ""))
        return why if files == wanted else ""
