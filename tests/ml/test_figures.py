"""What a call costs beside the framework's own: printed, and written down in docs/performance.md.

Microseconds of processor time. `bare` is the framework called in a loop with an array in and an array out; `adapter`
the model as the runtime loads it; `runtime` and `gateway` are those processes while one caller asks over REST in bytes.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import psutil
import pytest
import tensorflow as tf
import torch

from mizzen.runtime.frameworks import registry
from mizzen.runtime.signature import TensorSpec
from tests.ml import asking, making
from tests.support import planes

CALLS, ROUNDS = 500, 3
BATCHES = (1, 32)


def spent(call: Callable[[], Any], *used: Callable[[], float]) -> list[float]:
    """Per call, by each of these clocks: the least of some rounds, for others are busy here, too."""
    found = []
    for _ in range(100):
        call()
    for _ in range(ROUNDS):
        before = [one() for one in used]
        for _ in range(CALLS):
            call()
        found.append([(one() - was) / CALLS * 1e6 for one, was in zip(used, before, strict=True)])
    return [min(each) for each in zip(*found, strict=True)]


def served(plane: planes.TestPlane, name: str, rows: Any) -> list[float]:
    ask = asking.prepared(plane, name, {"x": rows})
    listed = json.loads(plane.cli("get", "workloads", "-o", "json").stdout)["items"]
    [workload] = [one for one in listed if one["metadata"]["name"].startswith(f"{name}-1.")]
    pids = (workload["status"]["replicas"][0]["pid"], plane.pid("gateway-0"))
    with httpx2.Client(verify=False) as client:
        return spent(lambda: ask(client), *(_clock(psutil.Process(pid)) for pid in pids))


def _clock(process: psutil.Process) -> Callable[[], float]:
    def used() -> float:
        times = process.cpu_times()
        return float(times.user + times.system)

    return used


@pytest.mark.timeout(900)
def test_what_a_call_costs(
    plane: planes.TestPlane,
    saved_model: Path,
    net: making.Net,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    torch.set_num_threads(1)  # as in a runtime beside others: threads that wait for each other cost more than they do
    script = making.save_script(net, tmp_path / "net.pt")
    program = making.save_program(net, tmp_path / "net.pt2")
    signature = tf.saved_model.load(str(saved_model)).signatures["serving_default"]
    module, exported = torch.jit.load(str(script)), torch.export.load(str(program)).module()
    spec = (TensorSpec("x", "FP32", (-1, 4)),)
    adapters = {
        "tensorflow": registry.load("tensorflow", "saved_model.pb", saved_model, trusted=True, batch=False),
        "torchscript": registry.load("pytorch", "net.pt", tmp_path, trusted=True, batch=False, inputs=spec),
        "exported": registry.load("pytorch", "net.pt2", tmp_path, trusted=True, batch=False),
    }
    bare: dict[str, Callable[[Any], Any]] = {
        "tensorflow": lambda rows: signature(x=tf.constant(rows))["output_0"].numpy(),
        "torchscript": lambda rows: module(torch.from_numpy(rows)).numpy(),
        "exported": lambda rows: exported(torch.from_numpy(rows)).numpy(),
    }
    for name, files in {"tensorflow": saved_model, "torchscript": script, "exported": program}.items():
        plane.cli("deploy", str(files), "--name", f"cost-{name}")
    lines = ["model         rows      bare   adapter   runtime   gateway"]
    with torch.inference_mode():
        for name, call in bare.items():
            for size in BATCHES:
                rows = np.ascontiguousarray(making.ROWS[:size])
                [own] = spent(partial(call, rows), time.process_time)
                [adapted] = spent(partial(adapters[name].call, {"x": rows}, ()), time.process_time)
                runtime, gateway = served(plane, f"cost-{name}", rows)
                lines.append(f"{name:<12} {size:>5} {own:>9.0f} {adapted:>9.0f} {runtime:>9.0f} {gateway:>9.0f}")
    with capsys.disabled():
        sys.stdout.write("\n" + "\n".join(lines) + "\n")
