"""Who of this machine's replicas has which GPU: read from the records of what runs, each time anew.

One at a time: between looking at what is free and starting what takes it nobody else may look.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from mizzen.engines.local.gpus import allocation
from mizzen.engines.local.gpus.allocation import Device, Holding
from mizzen.engines.local.process_specs import Obstacle, Place
from mizzen.kinds.schema.resource import Ref
from mizzen.kinds.workload import WorkloadSpec
from mizzen.supervisor.data_dir import Home, read_json
from mizzen.supervisor.protocol import State

_ENDED = frozenset({State.FAILED, State.GONE})


@dataclass(frozen=True, slots=True)
class Given:
    """For each replica of a workload the variables that say what it may use, or why it gets nothing."""

    variables: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    obstacles: Mapping[int, Obstacle] = field(default_factory=dict)


class Gpus:
    def __init__(self, home: Home, devices: Sequence[Device]) -> None:
        self._home = home
        self.devices = devices
        self._turn = asyncio.Lock()

    @asynccontextmanager
    async def shared_out(self, place: Place, spec: WorkloadSpec, ref: Ref) -> AsyncIterator[Given]:
        """Within it, the replicas that were given some are to be started: from then on their records tell."""
        indices = range(spec.replicas)
        if spec.gpu is None:
            hidden = dict.fromkeys(indices, allocation.HIDDEN) if self.devices else {}
            yield Given(hidden)
            return
        async with self._turn:
            yield self._given(place, spec.gpu, f"{ref.namespace}/{ref.name}", indices)

    def _given(self, place: Place, gpu: float, who: str, indices: Iterable[int]) -> Given:
        if not self.devices:
            nothing = Obstacle("waiting", "it asks for a GPU, and this machine has none", "NoGpu")
            return Given(obstacles=dict.fromkeys(indices, nothing))
        records = self._records()
        running = {key: held for key, (held, ended) in records.items() if not ended}
        variables, obstacles = {}, {}
        for index in indices:
            key = place.key(index)
            own = records.get(key)
            others = [held for one, held in running.items() if one != key]
            found = allocation.assigned(self.devices, others, gpu, before=own[0].devices if own else ())
            if found is None:
                obstacles[index] = Obstacle("waiting", allocation.shortage(self.devices, others, gpu), "GpusTaken")
                continue
            variables[index] = allocation.environment(self.devices, found, gpu, who)
            held_now = Holding.of(key, variables[index])
            assert held_now is not None
            running[key] = held_now
        return Given(variables, obstacles)

    def _records(self) -> dict[str, tuple[Holding, bool]]:
        """What each process was started with, and whether it has ended for good."""
        found = {}
        for file in self._home.processes.glob("*.json"):
            spec, view = _parts(read_json(file))
            held = Holding.of(file.stem, spec.get("env", {}))
            if held is not None:
                found[file.stem] = held, view.get("state") in _ENDED
        return found


def _parts(record: Any) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    if not isinstance(record, dict):
        return {}, {}
    spec, view = record.get("spec"), record.get("view")
    return (spec if isinstance(spec, dict) else {}), (view if isinstance(view, dict) else {})
