"""The allocator of this machine's GPUs. It reads the current holdings from the records of running processes each time.

Allocation is serialized: no other allocation may happen between reading what is free and starting the process.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from mizzen.engines.local.gpus import allocation
from mizzen.engines.local.gpus.allocation import Device, Holding
from mizzen.engines.local.process_specs import Obstacle, WorkloadPaths
from mizzen.kinds.schema.resource import Ref
from mizzen.kinds.workload import WorkloadSpec
from mizzen.supervisor.data_dir import Home, read_json
from mizzen.supervisor.protocol import State

_ENDED = frozenset({State.FAILED, State.GONE})


@dataclass(frozen=True, slots=True)
class GpuAssignment:
    """For each replica of a workload, the variables of its GPUs, or why it gets none."""

    variables: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    obstacles: Mapping[int, Obstacle] = field(default_factory=dict)


class GpuAllocator:
    def __init__(self, home: Home, devices: Sequence[Device]) -> None:
        self._home = home
        self.devices = devices
        self._turn = asyncio.Lock()

    @asynccontextmanager
    async def assign(self, paths: WorkloadPaths, spec: WorkloadSpec, ref: Ref) -> AsyncIterator[GpuAssignment]:
        """Start the replicas within this context: from then on their records show what they hold."""
        indices = range(spec.replicas)
        if spec.gpu is None:
            hidden = dict.fromkeys(indices, allocation.HIDDEN) if self.devices else {}
            yield GpuAssignment(hidden)
            return
        async with self._turn:
            yield self._assign(paths, spec.gpu, f"{ref.namespace}/{ref.name}", indices)

    def _assign(self, paths: WorkloadPaths, gpu: float, holder: str, indices: Iterable[int]) -> GpuAssignment:
        if not self.devices:
            nothing = Obstacle("waiting", "it requests a GPU, but this machine has none", "NoGpu")
            return GpuAssignment(obstacles=dict.fromkeys(indices, nothing))
        records = self._read_records()
        running = {key: held for key, (held, ended) in records.items() if not ended}
        variables, obstacles = {}, {}
        for index in indices:
            key = paths.key(index)
            own = records.get(key)
            others = [held for one, held in running.items() if one != key]
            found = allocation.assign(self.devices, others, gpu, before=own[0].devices if own else ())
            if found is None:
                shortage = allocation.explain_shortage(self.devices, others, gpu)
                obstacles[index] = Obstacle("waiting", shortage, "GpusTaken")
                continue
            variables[index] = allocation.build_env(self.devices, found, gpu, holder)
            held_now = Holding.of(key, variables[index])
            assert held_now is not None
            running[key] = held_now
        return GpuAssignment(variables, obstacles)

    def _read_records(self) -> dict[str, tuple[Holding, bool]]:
        """The holding of each process, and whether it has ended for good."""
        found = {}
        for file in self._home.processes.glob("*.json"):
            spec, view = _split_record(read_json(file))
            held = Holding.of(file.stem, spec.get("env", {}))
            if held is not None:
                found[file.stem] = held, view.get("state") in _ENDED
        return found


def _split_record(record: Any) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    if not isinstance(record, dict):
        return {}, {}
    spec, view = record.get("spec"), record.get("view")
    return (spec if isinstance(spec, dict) else {}), (view if isinstance(view, dict) else {})
