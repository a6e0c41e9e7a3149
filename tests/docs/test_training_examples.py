"""The examples of training run as any program does, without a plane; `docs/training.md` runs them under one."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import joblib
import numpy as np
import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "training"
ROW = [[5.1, 3.5, 1.4, 0.2]]


def run(script: str, folder: Path, **environ: str) -> subprocess.Popen[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MIZZEN_")}
    command = [sys.executable, str(EXAMPLES / script)]
    return subprocess.Popen(command, cwd=folder, env={**clean, **environ}, stdout=subprocess.PIPE, text=True)


def printed(process: subprocess.Popen[str]) -> str:
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0, out
    return out


def test_iris_is_learnt_and_gone_on_with(tmp_path: Path) -> None:
    first = printed(run("iris/train.py", tmp_path, MIZZEN_PARAMS='{"rounds": 3}'))
    assert "step 3/3 accuracy=" in first
    assert "going on" not in first
    second = printed(run("iris/train.py", tmp_path, MIZZEN_PARAMS='{"rounds": 10}'))
    assert second.startswith("going on after round 3\nround 4: ")
    last = joblib.load(tmp_path / "checkpoints" / "model-10.joblib")
    assert last.predict(ROW).tolist() == [0]


def test_the_plain_one_leaves_what_a_plane_reads(tmp_path: Path) -> None:
    printed(
        run("iris/plain.py", tmp_path, MIZZEN_CHECKPOINT_DIR=str(tmp_path), MIZZEN_PROGRESS=str(tmp_path / "p.json"))
    )
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["model.joblib", "p.json"]
    told = json.loads((tmp_path / "p.json").read_text())
    assert (told["step"], told["total"]) == (20, 20)
    assert told["metrics"]["accuracy"] > 0.9


@pytest.mark.parametrize("world", [1, 3])
def test_processes_find_the_line_of_all_their_rows(tmp_path: Path, world: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    together = {"WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    running = [run("exchange/exchange.py", tmp_path, RANK=str(rank), **together) for rank in range(world)]
    ends = [printed(process).splitlines()[-1].partition(": ")[2] for process in running]
    assert len(set(ends)) == 1, "each of them knows what the others had"
    slope, offset = np.load(tmp_path / "checkpoints" / "line-200.npy")
    # The last of an odd number of processes has rows that lie lower, as the first has.
    assert slope == pytest.approx(3, abs=0.1)
    assert offset == pytest.approx(0.5 if world == 1 else 1 - 0.5 / 3, abs=0.1)
