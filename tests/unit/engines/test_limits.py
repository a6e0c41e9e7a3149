from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from mizzen.engines.local.probes.frame_probe import ProbeState
from mizzen.engines.local.process_specs import WorkloadPaths, memory_of, process_of, retry_after, status_of, threads_of
from mizzen.kinds.workload import EXIT_OUT_OF_MEMORY, WorkloadSpec
from mizzen.runtime.limits import memory
from mizzen.supervisor.data_dir import Home
from mizzen.supervisor.protocol import ProcessSpec, ProcessView, State


def spec(**resources: Any) -> WorkloadSpec:
    given = {"purpose": "serve", "command": ["python"]}
    return WorkloadSpec.model_validate(given | ({"resources": resources} if resources else {}))


@pytest.mark.parametrize(
    ("resources", "cores", "replicas", "threads"),
    [
        ({}, 8, 1, 8),
        ({}, 8, 3, 2),
        ({}, 2, 5, 1),
        ({}, 2, 0, 2),
        ({"threads": 4}, 2, 5, 4),
        ({"cpu": "2500m"}, 8, 1, 3),
        ({"cpu": "0.1", "threads": 2}, 8, 1, 2),
    ],
)
def test_threads_are_shared_out(resources: dict[str, Any], cores: int, replicas: int, threads: int) -> None:
    assert threads_of(spec(**resources), cores, replicas) == threads


def test_how_many_others_there_are_makes_no_other_process(tmp_path: Path) -> None:
    place = WorkloadPaths(Home.of(tmp_path), "uid")
    one, two = (process_of(spec(), place, 0, python="python", threads=threads) for threads in (1, 2))
    assert (one.varying["MIZZEN_THREADS"], two.varying["OMP_NUM_THREADS"]) == ("1", "2")
    assert one.fingerprint == two.fingerprint
    assert ProcessSpec.from_json(json.loads(json.dumps(one.to_wire()))) == one
    assert process_of(spec(memory="1Gi"), place, 0, python="python").fingerprint != one.fingerprint


def test_memory_is_limited_where_it_is_asked_for(tmp_path: Path) -> None:
    assert memory_of(spec()) is None
    process = process_of(spec(memory="64Mi"), WorkloadPaths(Home.of(tmp_path), "uid"), 0, python="python")
    assert (process.memory, process.env["MIZZEN_MEMORY"]) == (64 << 20, str(64 << 20))


def test_an_end_for_want_of_memory_is_told_as_such(tmp_path: Path) -> None:
    assert memory.EXIT_OUT_OF_MEMORY == EXIT_OUT_OF_MEMORY
    place = WorkloadPaths(Home.of(tmp_path), "uid")
    for code, reason in ((EXIT_OUT_OF_MEMORY, "OutOfMemory"), (1, "")):
        view = ProcessView("uid.0", State.WAITING, "f", exit_code=code, exit_time=time.time(), message="why")
        seen = status_of(view, ProbeState(), place, 0, reported=None, wanted=True)
        assert (seen.reason, seen.message) == (reason, "why")


def test_what_gave_up_is_tried_again_ever_more_rarely() -> None:
    assert [retry_after(attempt) for attempt in (0, 1, 2, 9, 5000)] == [60, 120, 240, 3600, 3600]
