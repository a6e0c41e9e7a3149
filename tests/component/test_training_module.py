"""mizzen.training, as the code of a job uses it: with the variables that a runner sets, and without any."""

from __future__ import annotations

import ast
import json
import math
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from mizzen import training

SOURCE = Path(training.__file__)


@pytest.fixture(autouse=True)
def outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No job, and nothing reported yet."""
    for name in ("PARAMS", "PROGRESS", "CHECKPOINT_DIR", "LOG_DIR", "DATASET_DIR"):
        monkeypatch.delenv(f"MIZZEN_{name}", raising=False)
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(training, "_last", {})
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """As in a job."""
    monkeypatch.setenv("MIZZEN_CHECKPOINT_DIR", str(tmp_path / "job" / "checkpoints"))
    monkeypatch.setenv("MIZZEN_LOG_DIR", str(tmp_path / "job" / "events"))
    monkeypatch.setenv("MIZZEN_PROGRESS", str(tmp_path / "job" / "progress.json"))
    return tmp_path / "job"


def progress(job: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((job / "progress.json").read_text())
    return found


def described(checkpoint: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((checkpoint.parent / f".{checkpoint.name}.meta.json").read_text())
    return found


def entries(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_parameters_are_those_of_the_job_over_the_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    assert training.params(rate=0.1, epochs=3) == {"rate": 0.1, "epochs": 3}
    monkeypatch.setenv("MIZZEN_PARAMS", '{"rate": 0.5, "more": [1]}')
    assert training.params(rate=0.1, epochs=3) == {"rate": 0.5, "epochs": 3, "more": [1]}


def test_a_report_is_what_is_shown_last_and_a_line_of_metrics(job: Path) -> None:
    training.report(1, total=2, loss=0.5)
    training.report(2, total=2, message="done", loss=np.float32(0.25), right=np.array([1]).sum(), off=math.nan)
    shown = progress(job)
    assert shown.pop("time")
    assert shown == {"step": 2, "total": 2, "message": "done", "metrics": {"loss": 0.25, "right": 1.0, "off": None}}
    lines = [json.loads(line) for line in (job / "events" / "metrics.jsonl").read_text().splitlines()]
    assert [(line["step"], line["metrics"]["loss"]) for line in lines] == [(1, 0.5), (2, 0.25)]
    assert all(line["time"] > 0 for line in lines)
    assert entries(job) == ["events", "progress.json"], "nothing half-written stays"


def test_a_metric_that_is_no_number_is_refused_by_name(job: Path) -> None:
    with pytest.raises(TypeError, match="'loss' must be a number, not str"):
        training.report(1, loss="small")
    assert not job.exists()


def test_outside_of_a_job_a_report_is_a_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    training.report(3, total=10, loss=0.25, off=math.inf, message="warming up")
    training.report(4)
    assert capsys.readouterr().out == "step 3/10 loss=0.25 off=nan warming up\nstep 4\n"
    assert entries(tmp_path) == []


def test_what_a_function_writes_is_a_checkpoint_when_it_is_whole(job: Path) -> None:
    seen: list[list[str]] = []

    def write(path: Path) -> None:
        path.write_text("weights")
        seen.append([name for name in entries(job / "checkpoints") if not name.startswith(".")])

    saved = training.save_checkpoint(write, "model.joblib", step=3, loss=np.float64(0.5))
    assert saved == job / "checkpoints" / "model-3.joblib"
    assert (saved.read_text(), seen) == ("weights", [[]])
    assert described(saved) == {"step": 3, "metrics": {"loss": 0.5}}
    assert entries(job / "checkpoints") == [".model-3.joblib.meta.json", "model-3.joblib"]


def test_a_function_that_fails_leaves_nothing(job: Path) -> None:
    def fail(path: Path) -> None:
        path.write_text("half")
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="disk is full"):
        training.save_checkpoint(fail, "model.joblib")
    with pytest.raises(ValueError, match="nothing was written"):
        training.save_checkpoint(lambda path: None)
    assert entries(job / "checkpoints") == []
    assert training.latest_checkpoint() is None


def test_files_and_folders_are_copied(job: Path, tmp_path: Path) -> None:
    (tmp_path / "weights.bin").write_bytes(b"\0\1")
    (tmp_path / "saved" / "variables").mkdir(parents=True)
    (tmp_path / "saved" / "variables" / "v.bin").write_bytes(b"\2")
    file = training.save_checkpoint(tmp_path / "weights.bin")
    folder = training.save_checkpoint(str(tmp_path / "saved"), step=7)
    assert (file.name, file.read_bytes()) == ("weights.bin", b"\0\1")
    assert (folder.name, (folder / "variables" / "v.bin").read_bytes()) == ("saved-7", b"\2")
    assert (tmp_path / "weights.bin").exists()
    assert described(folder) == {"step": 7, "metrics": {}}
    assert not (job / "checkpoints" / ".weights.bin.meta.json").exists(), "nothing is known of it"


def test_writers_that_choose_their_own_names_are_understood(job: Path) -> None:
    one = training.save_checkpoint(lambda path: np.savez(path, a=np.zeros(2)), "weights")
    assert one.name == "weights.npz"

    def several(path: Path) -> None:
        path.with_name(f"{path.name}.index").write_text("i")
        path.with_name(f"{path.name}.data").write_text("d")

    many = training.save_checkpoint(several, "ckpt-2", step=2)
    assert many.name == "ckpt-2", "the step is in its name already"
    assert entries(many) == ["ckpt-2.data", "ckpt-2.index"]


@pytest.mark.parametrize("times", [1, 3])
def test_the_same_name_takes_the_place_of_the_one_before(job: Path, times: int) -> None:
    for number in range(times):

        def folder(path: Path, number: int = number) -> None:
            path.mkdir()
            (path / f"{number}.bin").write_text("x")

        saved = training.save_checkpoint(folder, "latest")
        plain = training.save_checkpoint(partial(Path.write_text, data=str(number)), "plain")
    assert entries(saved) == [f"{times - 1}.bin"]
    assert plain.read_text() == str(times - 1)
    assert entries(job / "checkpoints") == ["latest", "plain"]


def test_metrics_that_are_not_given_are_those_reported_for_the_step(job: Path) -> None:
    training.report(4, loss=0.125)
    assert described(training.save_checkpoint(lambda path: path.touch(), step=4)) == {
        "step": 4, "metrics": {"loss": 0.125},
    }  # fmt: skip
    assert described(training.save_checkpoint(lambda path: path.touch())) == {"step": 4, "metrics": {"loss": 0.125}}
    assert described(training.save_checkpoint(lambda path: path.touch(), step=5)) == {"step": 5, "metrics": {}}


@pytest.mark.parametrize("name", [".hidden", "model.tmp", "model.part", "a/b", ""])
def test_names_that_never_are_checkpoints_are_refused(job: Path, name: str) -> None:
    with pytest.raises(ValueError, match="is not a valid checkpoint name"):
        training.save_checkpoint(lambda path: path.touch(), name)


def test_the_latest_checkpoint_is_the_one_that_was_saved_last(job: Path) -> None:
    old = job / "old.bin"
    old.parent.mkdir()
    old.write_text("x")
    os.utime(old, (1, 1))
    training.save_checkpoint(lambda path: path.write_text("a"), "a", step=9)
    last = training.save_checkpoint(old, "b")
    (job / "checkpoints" / "c.tmp").write_text("half")
    (job / "checkpoints" / ".d").write_text("hidden")
    assert training.latest_checkpoint() == last


def test_what_a_killed_attempt_left_is_removed(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    folder = training.checkpoint_dir()
    for name in (f".saving-0-{ended.pid}-x", f".saving-1-{ended.pid}-x", f".saving-0-{os.getppid()}-x"):
        (folder / name).mkdir()
    training.save_checkpoint(lambda path: path.touch(), "a")
    left = [name for name in entries(folder) if name.startswith(".saving")]
    assert left == sorted([f".saving-1-{ended.pid}-x", f".saving-0-{os.getppid()}-x"]), "others may be at work there"


def test_places_and_ranks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert (training.rank(), training.world_size(), training.dataset_dir()) == (0, 1, None)
    assert training.dataset_dir("data") == Path("data")
    assert training.log_dir() == Path("logs")
    assert training.checkpoint_dir() == Path("checkpoints")
    monkeypatch.setenv("RANK", "2")
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("MIZZEN_DATASET_DIR", str(tmp_path))
    assert (training.rank(), training.world_size(), training.dataset_dir("data")) == (2, 4, tmp_path)


def test_two_processes_that_report_at_once_do_not_mix_their_lines(job: Path) -> None:
    code = "from mizzen import training\nfor step in range(300): training.report(step, **{'m' * 200: step})"
    running = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(2)]
    assert [process.wait() for process in running] == [0, 0]
    lines = (job / "events" / "metrics.jsonl").read_text().splitlines()
    assert sorted(json.loads(line)["step"] for line in lines) == sorted([*range(300)] * 2)


def test_it_needs_nothing_but_the_standard_library(tmp_path: Path) -> None:
    package = tmp_path / "mizzen"
    package.mkdir()
    for name in ("__init__.py", "training.py"):
        (package / name).write_bytes((SOURCE.parent / name).read_bytes())
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from mizzen import training\n"
        "assert training.__file__.startswith(sys.argv[1])\n"
        "print(training.params(a=1), sorted(name for name in sys.modules if name.startswith('mizzen')))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "{'a': 1} ['mizzen', 'mizzen.training']\n"


def test_it_is_read_by_python_3_9() -> None:
    for name in ("__init__.py", "training.py"):
        ast.parse((SOURCE.parent / name).read_text(), feature_version=(3, 9))
