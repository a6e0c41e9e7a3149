"""What a call costs beside the framework's own: printed, and written down in docs/performance.md.

Microseconds of processor time. `bare` is the framework called in a loop with an array in and an array out; `adapter`
the model as the runtime loads it; `runtime` and `gateway` are those processes while one caller asks over REST in bytes.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
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

CALLS = 400
BATCHES = (1, 32)


def spent(call: Callable[[], Any], processes: list[psutil.Process] | None = None) -> float:
    """Of this process; of those, when they are named."""

    def used() -> float:
        if processes is None:
            return time.process_time()
        return sum(sum(process.cpu_times()[:2]) for process in processes)

    for _ in range(20):
        call()
    before = used()
    for _ in range(CALLS):
        call()
    return (used() - before) / CALLS * 1e6


def served(plane: planes.TestPlane, name: str, rows: Any) -> tuple[float, float]:
    ask = asking.prepared(plane, name, {"x": rows})
    listed = json.loads(plane.cli("get", "workloads", "-o", "json").stdout)["items"]
    [workload] = [one for one in listed if one["metadata"]["name"].startswith(f"{name}-1.")]
    runtime = psutil.Process(workload["status"]["replicas"][0]["pid"])
    with httpx2.Client(verify=False) as client:
        of_runtime = spent(lambda: ask(client), [runtime])
        of_gateway = spent(lambda: ask(client), [psutil.Process(plane.pid("gateway-0"))])
    return of_runtime, of_gateway


def test_what_a_call_costs(
    plane: planes.TestPlane,
    saved_model: Path,
    net: making.Net,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    script = making.save_script(net, tmp_path / "net.pt")
    program = making.save_program(net, tmp_path / "net.pt2")
    signature = tf.saved_model.load(str(saved_model)).signatures["serving_default"]
    module, exported = torch.jit.load(str(script)), torch.export.load(str(program)).module()
    spec = (TensorSpec("x", "FP32", (-1, 4)),)
    adapters = {
        "tensorflow": registry.load("tensorflow", "saved_model.pb", saved_model, trusted=False, batch=False),
        "torchscript": registry.load("pytorch", "net.pt", tmp_path, trusted=False, batch=False, inputs=spec),
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
                own = spent(lambda call=call, rows=rows: call(rows))  # type: ignore[misc]
                adapted = spent(lambda name=name, rows=rows: adapters[name].call({"x": rows}, ()))  # type: ignore[misc]
                runtime, gateway = served(plane, f"cost-{name}", rows)
                lines.append(f"{name:<12} {size:>5} {own:>9.0f} {adapted:>9.0f} {runtime:>9.0f} {gateway:>9.0f}")
    with capsys.disabled():
        sys.stdout.write("\n" + "\n".join(lines) + "\n")
