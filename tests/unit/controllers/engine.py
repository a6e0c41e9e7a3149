"""An Engine whose processes are entries in a dict. The test says what becomes of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

from mizzen.engines.engine import Capability, Observation
from mizzen.kinds.schema.resource import Ref, Resource
from mizzen.kinds.workload import ReplicaStatus, WorkloadSpec


class ScriptedEngine:
    def __init__(self) -> None:
        self.running: dict[str, dict[int, ReplicaStatus]] = {}
        """Replicas by workload uid and index."""
        self.names: dict[str, str] = {}
        self.stopping: set[str] = set()

    @property
    def capabilities(self) -> frozenset[Capability]:
        return frozenset()

    async def apply(self, workload: Resource) -> Observation:
        uid = workload.meta.uid
        assert uid not in self.stopping, "a workload that is being deleted is not started again"
        self.names[uid] = workload.meta.name
        there = self.running.get(uid, {})
        wanted = range(WorkloadSpec.of(workload).replicas)
        self.running[uid] = {index: there.get(index) or _started(uid, index) for index in wanted}
        return Observation(tuple(self.running[uid].values()))

    async def delete(self, workload: Resource) -> bool:
        """Gone when asked for the second time."""
        uid = workload.meta.uid
        if self.running.get(uid) and uid not in self.stopping:
            self.stopping.add(uid)
            return False
        self.running.pop(uid, None)
        return True

    def happen(self, state: str, names: Iterable[str], *, only: frozenset[str]) -> None:
        """Replicas of these workloads that are in one of the states `only` go over to another.

        A name stands for all Workloads of that server and version, whatever their template.
        """
        for uid, replicas in self.running.items():
            if self.names[uid] in self.called(names) and uid not in self.stopping:
                for index, replica in replicas.items():
                    if replica.state in only:
                        crashes = replica.restarts + (state == "waiting")
                        replicas[index] = replica.model_copy(update={"state": state, "restarts": crashes})

    def called(self, names: Iterable[str]) -> set[str]:
        wanted = set(names)
        return {name for name in self.names.values() if name in wanted or name.rpartition("-")[0] in wanted}

    def logs(
        self,
        workload: Resource,
        *,
        tail: int | None = None,
        follow: bool = False,
        places: dict[int, str] | None = None,
        build: bool = False,
    ) -> AsyncIterator[bytes]:
        raise NotImplementedError

    def changes(self) -> AsyncIterator[Ref]:
        raise NotImplementedError


def _started(uid: str, index: int) -> ReplicaStatus:
    return ReplicaStatus.model_validate({"index": index, "state": "starting", "address": f"unix:/{uid}.{index}"})
