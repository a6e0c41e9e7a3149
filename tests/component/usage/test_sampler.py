"""The sampler over real files and real processes."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from mizzen.usage.processes import SUPERVISOR, Processes
from tests.support.supervised import supervised


def test_processes_are_those_of_the_supervisor_from_one_to_the_next(tmp_path: Path) -> None:
    async def look() -> None:
        processes = Processes(running.home)
        following = asyncio.create_task(processes.run())
        try:
            await until(lambda: processes.read_usage().keys() == {"one", SUPERVISOR})
            one = processes.read_usage()["one"]
            assert one.pid == running.running("one").pid
            assert one.resident_bytes > 1_000_000
            os.kill(one.pid, 9)
            await until(lambda: processes.restarts().get("one") == 1 and processes.read_usage()["one"].pid != one.pid)
        finally:
            following.cancel()
            await asyncio.wait({following})

    async def until(holds: object) -> None:
        assert callable(holds)
        end = time.monotonic() + 30
        while True:
            try:
                if holds():
                    return
            except KeyError:
                pass
            assert time.monotonic() < end
            await asyncio.sleep(0.05)

    with supervised(tmp_path / "data") as running:
        running.start(running.spec("one"))
        running.running("one")
        asyncio.run(look())
