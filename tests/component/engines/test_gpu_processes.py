"""GPUs shared out by the local engine to real processes. There is no GPU here: two are declared."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil

from mizzen.blobs.file_store import FileBlobs
from mizzen.engines.engine import Capability, Observation
from mizzen.engines.local.engine import LocalEngine
from mizzen.engines.local.gpus.allocation import Device
from mizzen.kinds.schema.resource import Meta, Resource
from mizzen.kinds.workload import WorkloadStatus
from tests.component.engines.test_local_engine import HELLO
from tests.support.supervised import Supervised, supervised

TWO = (Device(0, 16 << 30), Device(1, 16 << 30))


def wants(name: str, gpu: float | None, replicas: int = 1) -> Resource:
    uid = f"5e0f1a2b-3c4d-4e5f-8a6b-{sum(map(ord, name)):012x}"
    spec = {"purpose": "serve", "command": ["python", "-c", HELLO], "replicas": replicas}
    return Resource("Workload", Meta(name, uid=uid), {**spec, **({"gpu": gpu} if gpu is not None else {})})


class Machine:
    """Engines of one machine, one after the other: as planes that are restarted."""

    def __init__(self, plane: Supervised, devices: tuple[Device, ...]) -> None:
        self._plane = plane
        self._devices = devices
        self.engine = self._new()

    async def restart(self) -> None:
        await self.engine.close()
        self.engine = self._new()

    async def until(self, workload: Resource, condition: Callable[[Observation], bool]) -> Observation:
        seen = Observation()
        async with asyncio.timeout(60):
            while True:
                status = WorkloadStatus(replicas=seen.replicas)
                seen = await self.engine.apply(workload.with_status(status) if seen.replicas else workload)
                if condition(seen):
                    return seen
                await asyncio.sleep(0.02)

    async def ready(self, workload: Resource) -> list[dict[str, str]]:
        """The variables of its processes."""
        seen = await self.until(workload, lambda seen: all(one.state == "ready" for one in seen.replicas))
        return [psutil.Process(one.pid).environ() for one in seen.replicas]

    async def gone(self, workload: Resource) -> None:
        async with asyncio.timeout(60):
            while not await self.engine.delete(workload):  # noqa: ASYNC110 - it has to be asked
                await asyncio.sleep(0.02)

    def _new(self) -> LocalEngine:
        blobs = FileBlobs(self._plane.home.data_dir / "blobs")
        return LocalEngine(self._plane.home, blobs, python=sys.executable, gpus=self._devices)


def test_shares_are_given_kept_over_a_restart_and_freed(tmp_path: Path) -> None:
    async def body(plane: Supervised) -> None:
        machine = Machine(plane, TWO)
        try:
            assert machine.engine.capabilities == {Capability.GPUS}
            [half] = await machine.ready(wants("half", 0.5))
            told = {"CUDA_VISIBLE_DEVICES": "0", "MIZZEN_GPU_MEMORY_SHARE": "0.5", "MIZZEN_GPU_MEMORY": str(8 << 30)}
            assert told.items() <= half.items()
            [whole] = await machine.ready(wants("whole", 1))
            assert whole["CUDA_VISIBLE_DEVICES"] == "1"
            [none] = await machine.ready(wants("none", None))
            assert none["CUDA_VISIBLE_DEVICES"] == "", "who asks for none sees none"

            # A new plane knows who has what before it has looked at any of them.
            await machine.restart()
            large = wants("large", 0.75)
            seen = await machine.until(large, lambda seen: bool(seen.replicas[0].reason))
            assert (seen.replicas[0].state, seen.replicas[0].reason) == ("waiting", "GpusTaken")
            assert seen.replicas[0].message == (
                "it requests 0.75 of a GPU: GPU 0 has 0.5 free (default/half 0.5); GPU 1 has 0 free (default/whole 1)"
            )
            again = await machine.ready(wants("half", 0.5))
            assert again == [half], "what runs is left alone"

            await machine.gone(wants("whole", 1))
            [given] = await machine.ready(large)
            assert given["CUDA_VISIBLE_DEVICES"] == "1"
        finally:
            await machine.engine.close()

    with supervised(tmp_path / "d") as plane:
        plane.start()
        asyncio.run(body(plane))


def test_many_at_once_never_get_more_than_there_is(tmp_path: Path) -> None:
    async def body(plane: Supervised) -> None:
        machine = Machine(plane, TWO)
        try:
            asked = [wants(f"m{at}", 0.6) for at in range(4)] + [wants("several", 0.2, replicas=3)]
            for _ in range(3):
                seen = await asyncio.gather(*(machine.engine.apply(one) for one in asked))
            waiting = [one for each in seen for one in each.replicas if one.reason == "GpusTaken"]
            # Two of 0.6 fit on two devices, and three of 0.2 beside them; or one, where those three came first.
            assert len(waiting) in (2, 3)
            scaled = replace(asked[-1], spec={**asked[-1].spec, "replicas": 4})
            seen_last = await machine.until(scaled, lambda seen: len(seen.replicas) == 4)
            assert all(one.reason != "GpusTaken" for one in seen_last.replicas), "0.2 beside each 0.6, or four on one"
        finally:
            await machine.engine.close()

    with supervised(tmp_path / "d") as plane:
        plane.start()
        asyncio.run(body(plane))


def test_what_a_spec_sets_neither_takes_a_gpu_nor_shows_one(tmp_path: Path) -> None:
    async def body(plane: Supervised) -> None:
        machine = Machine(plane, TWO)
        odd = {"CUDA_VISIBLE_DEVICES": "0", "MIZZEN_GPU_MEMORY_SHARE": "1e9", "MIZZEN_GPU_HOLDER": "default/other"}
        asked = (wants("plain", None), wants("shared", 0.5))
        plain, shared = (replace(one, spec={**one.spec, "env": odd}) for one in asked)
        try:
            [of_plain], [of_shared] = await machine.ready(plain), await machine.ready(shared)
            assert of_plain["CUDA_VISIBLE_DEVICES"] == ""
            assert of_plain.keys().isdisjoint(odd.keys() - {"CUDA_VISIBLE_DEVICES"})
            assert (of_shared["MIZZEN_GPU_MEMORY_SHARE"], of_shared["MIZZEN_GPU_HOLDER"]) == ("0.5", "default/shared")
            [whole] = await machine.ready(wants("whole", 1.0))
            assert whole["CUDA_VISIBLE_DEVICES"] == "1"
        finally:
            await machine.engine.close()

    with supervised(tmp_path / "d") as plane:
        plane.start()
        asyncio.run(body(plane))


def test_without_any_nothing_is_started(tmp_path: Path) -> None:
    async def body(plane: Supervised) -> None:
        machine = Machine(plane, ())
        try:
            assert machine.engine.capabilities == frozenset()
            seen = await machine.engine.apply(wants("half", 0.5))
            assert (seen.replicas[0].state, seen.replicas[0].reason) == ("waiting", "NoGpu")
            [plain] = await machine.ready(wants("none", None))
            assert "CUDA_VISIBLE_DEVICES" not in plain
        finally:
            await machine.engine.close()

    with supervised(tmp_path / "d") as plane:
        plane.start()
        asyncio.run(body(plane))
