"""A task as a runner, and what is seen of it as the status of a replica."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mizzen.engines.local import runner_specs
from mizzen.engines.local.process_specs import BuiltEnvironment, Obstacle, WorkloadPaths
from mizzen.engines.local.runner_specs import (
    SAVE_GRACE,
    AttemptFiles,
    attempt_in,
    read_attempt,
    runner_of,
    status_of,
    task_of,
)
from mizzen.kinds.workload import ReplicaStatus, WorkloadSpec
from mizzen.runs import records
from mizzen.runs.records import Exit, File, Phase, Report, Task
from mizzen.supervisor.data_dir import Home
from mizzen.supervisor.protocol import ProcessSpec, ProcessView, State

NOON = 1_700_000_000.0
RUNNING = ProcessView("uid.0", State.RUNNING, "print", pid=7, start="s")
KILLED = ProcessView("uid.0", State.FAILED, "print", exit_code=137, exit_time=NOON)


def spec(**fields: Any) -> WorkloadSpec:
    task = {"job": "iris-3-ab1cd", "jobUid": "job-uid", "model": "iris", "version": "3", "replica": "worker-1"}
    given = {"purpose": "train", "command": ["python", "train.py"], "restart": "Never", "graceSeconds": 5}
    return WorkloadSpec.model_validate({**given, **fields, "task": {**task, **fields.get("task", {})}})


def place(tmp_path: Path) -> WorkloadPaths:
    return WorkloadPaths(Home.of(tmp_path), "uid")


def runner(tmp_path: Path, given: WorkloadSpec, **fields: Any) -> ProcessSpec:
    return runner_of(given, place(tmp_path), python="/ours/python", **fields)


def report(phase: Phase, message: str = "") -> Report:
    return Report(attempt=2, phase=phase, message=message, pid=9, started=None if phase == "fetching" else NOON)


def status(found: AttemptFiles = AttemptFiles(), view: ProcessView | None = RUNNING, **known: Any) -> ReplicaStatus:  # noqa: B008
    return status_of(2, found, view, **{"current": True, **known})


def test_a_runner_is_ours_whatever_its_command_runs_in(tmp_path: Path) -> None:
    built = BuiltEnvironment(key="e1", python="/theirs/python", parts="/parts", safe_path=True)
    process = runner(tmp_path, spec(env={"PYTHONPATH": "/wrong", "A": "1"}), built=built)
    assert process.argv == ("/ours/python", "-P", "-m", "mizzen.runner")
    assert process.varying["MIZZEN_PYTHON"] == "/theirs/python"
    assert process.varying["MIZZEN_COMMAND_PYTHONPATH"] == "/parts"
    assert not {"PYTHONPATH", "A"} & {*process.env, *process.varying}, "these are its command's"
    assert runner(tmp_path, spec()).varying["MIZZEN_PYTHON"] == "/ours/python"
    assert (process.restart, process.lasting, process.grace) == ("never", True, 5 + SAVE_GRACE)
    assert process.cwd == str(place(tmp_path).work)


def test_only_another_attempt_is_another_process(tmp_path: Path) -> None:
    built = BuiltEnvironment(key="e2", python="/other", parts="/next-release", safe_path=True)
    first = runner(tmp_path, spec(), threads=1)
    same = runner(
        tmp_path, spec(task={"hyperparameters": {"a": 1}}), threads=2, built=built, blob_env={"MIZZEN_BLOB_STORE": "s3"}
    )
    assert same.fingerprint == first.fingerprint
    assert same.varying["MIZZEN_BLOB_STORE"] == "s3"
    assert runner(tmp_path, spec(task={"attempt": 1})).fingerprint != first.fingerprint
    assert attempt_in({"spec": runner(tmp_path, spec(task={"attempt": 1})).to_json()}) == 1
    assert attempt_in({"spec": {"env": {}}}) is None
    assert attempt_in(None) is None


def test_a_runner_gets_all_secrets_and_its_command_those_of_the_job(tmp_path: Path) -> None:
    names = ("API_KEY", "MIZZEN_DATASET_ACCESS_KEY_ID", "MIZZEN_TASK")
    given = spec(secretEnv={name: {"name": "s", "key": "k"} for name in names})
    process = runner(tmp_path, given, secrets=dict.fromkeys(names, "x"), blob_secrets={"MIZZEN_BLOB_STORE_SECRET": "y"})
    assert process.secrets == {
        "API_KEY": "x", "MIZZEN_DATASET_ACCESS_KEY_ID": "x", "MIZZEN_BLOB_STORE_SECRET": "y",
    }  # fmt: skip
    assert set(process.secret_names) == process.secrets.keys()
    assert task_of(given, "default").secret_names == ("API_KEY",)
    assert not runner(tmp_path, given, blob_secrets={"MIZZEN_BLOB_STORE_SECRET": "y"}).complete


def test_gpus_and_memory_are_as_of_all_others(tmp_path: Path) -> None:
    visible = {"CUDA_VISIBLE_DEVICES": "1"}
    process = runner(tmp_path, spec(gpu=1, resources={"memory": "1Gi"}), gpus=visible)
    assert process.env["CUDA_VISIBLE_DEVICES"] == "1", "its record tells who has which"
    assert (process.memory, process.env["MIZZEN_MEMORY"]) == (None, str(1 << 30)), "it is for the command alone"
    assert runner(tmp_path, spec(), gpus={"CUDA_VISIBLE_DEVICES": ""}).varying["CUDA_VISIBLE_DEVICES"] == ""


def test_a_task_says_all_that_the_workload_does(tmp_path: Path) -> None:
    digest = "sha256:" + "0" * 64
    given = spec(
        env={"A": "1"},
        artifacts=[{"path": "train.py", "digest": digest, "size": 3}],
        workingDir="/srv",
        task={
            "attempt": 2, "cluster": {"worker": ["127.0.0.1:1", "127.0.0.1:2"]}, "hyperparameters": {"lr": 0.1},
            "dataset": {"http": {"url": "http://127.0.0.1/d.tar.gz"}}, "trusted": True, "versionUid": "v",
        },
    )  # fmt: skip
    task = task_of(given, "lab")
    assert (task.namespace, task.job, task.version_uid, task.attempt) == ("lab", "iris-3-ab1cd", "v", 2)
    assert (task.command, task.env, task.working_dir) == (("python", "train.py"), {"A": "1"}, "/srv")
    assert task.files == (File("train.py", digest, 3),)
    assert task.dataset == {"http": {"url": "http://127.0.0.1/d.tar.gz"}}
    assert (task.type, task.index, task.several, task.trusted, task.grace) == ("worker", 1, True, True, 5)
    runner_specs.write_task(place(tmp_path), given, "lab")
    where = runner_specs.paths_of(place(tmp_path), given)
    assert Task.from_json(records.read(where.task) or {}) == task
    written = where.task.stat()
    runner_specs.write_task(place(tmp_path), given, "lab")
    assert where.task.stat() == written, "it is written only when it is another one"


def test_what_a_runner_before_it_reported_is_forgotten_at_a_start(tmp_path: Path) -> None:
    given, home = spec(task={"attempt": 2}), place(tmp_path)
    where = runner_specs.paths_of(home, given)
    records.write(where.report, report("running").to_json())
    assert read_attempt(where, 2).report == report("running")
    assert read_attempt(where, 3).report is None, "it is of another attempt"
    runner_specs.write_task(home, given, "default")
    assert read_attempt(where, 2) == AttemptFiles()


def test_what_lies_there_is_found(tmp_path: Path) -> None:
    where = runner_specs.paths_of(place(tmp_path), spec())
    assert read_attempt(where, 0) == AttemptFiles()
    end = Exit(0, code=3, ended=NOON)
    records.write(where.exit(0), end.to_json())
    where.path_of_stopped(1).touch()
    assert read_attempt(where, 0) == AttemptFiles(exit=end)
    assert read_attempt(where, 1) == AttemptFiles(stopped=True)
    records.write(where.exit(1), {"attempt": 1, "unheard": "of"})
    assert read_attempt(where, 1).exit is None


def test_an_attempt_from_its_start_to_its_end() -> None:
    assert status().state == "starting"
    fetching = status(AttemptFiles(report("fetching", "312 of 900 MB")))
    assert (fetching.state, fetching.message, fetching.attempt, fetching.pid) == ("starting", "312 of 900 MB", 2, 7)
    running = status(AttemptFiles(report("running")))
    assert (running.state, running.started) == ("ready", "2023-11-14T22:13:20.000000Z")
    assert status(AttemptFiles(report("keeping"))).state == "ready"
    end = Exit(2, code=3, message="in words", started=NOON, ended=NOON + 1, last_lines="Traceback")
    over = status(AttemptFiles(report("keeping"), end))
    assert (over.state, over.exit_code, over.message, over.reason, over.retry) == ("ended", 3, "in words", "", False)
    assert "Traceback" not in over.model_dump_json(), "what was printed is not for everybody"
    assert (over.started, over.ended) == ("2023-11-14T22:13:20.000000Z", "2023-11-14T22:13:21.000000Z")
    assert status(AttemptFiles(exit=end), None) == over, "also without its process"


def test_the_record_of_an_end_is_the_truth_of_it() -> None:
    unavailable = Exit(2, code=1, reason="DatasetUnavailable", message="404", ended=NOON)
    over = status(AttemptFiles(exit=unavailable), KILLED)
    assert (over.exit_code, over.reason, over.started) == (1, "DatasetUnavailable", None)


@pytest.mark.parametrize(("seen", "told"), [(137, 137), (143, 143), (1, 1), (None, 137), (0, 137)])
def test_a_runner_that_ended_without_a_record_was_lost(seen: int | None, told: int) -> None:
    lost = status(AttemptFiles(report("running")), replace(KILLED, exit_code=seen))
    assert (lost.state, lost.exit_code, lost.reason, lost.retry) == ("ended", told, "RunnerLost", True)
    assert (lost.started, lost.ended) == ("2023-11-14T22:13:20.000000Z",) * 2
    assert "killed" in lost.message
    assert status(AttemptFiles(), replace(KILLED, message="no such task")).message == "no such task"


def test_what_a_command_saved_is_put_away_once_more_before_its_runner_is_lost() -> None:
    first = status(AttemptFiles(report("running"), begun=True), KILLED)
    assert first.state == "starting", "it is to be started anew"
    again = status(AttemptFiles(begun=True, lost=True))
    assert (again.state, again.message) == ("ready", "its runner was killed; saving its results")
    waits = status(AttemptFiles(report("keeping", "the store is away"), begun=True, lost=True))
    assert (waits.state, waits.message) == ("ready", "its runner was killed; the store is away")
    twice = status(AttemptFiles(begun=True, lost=True), KILLED)
    assert (twice.state, twice.reason) == ("ended", "RunnerLost")


def test_one_that_was_told_to_stop_has_not_ended() -> None:
    assert status(AttemptFiles(stopped=True), KILLED).state == "starting"


def test_the_process_of_an_attempt_before_says_nothing_of_this_one() -> None:
    assert status(AttemptFiles(), KILLED, current=False).state == "starting"
    secret = Obstacle("waiting", "no secret", "SecretNotFound")
    held = status(AttemptFiles(), KILLED, current=False, obstacle=secret)
    assert (held.state, held.reason, held.message) == ("waiting", "SecretNotFound", "no secret")


def test_what_runs_minds_no_obstacle() -> None:
    assert status(AttemptFiles(report("running")), obstacle=Obstacle("waiting", "no secret")).state == "ready"


def test_without_a_supervisor_what_was_told_of_this_attempt_stands() -> None:
    ready = status(AttemptFiles(report("running")))
    assert status(AttemptFiles(), None, reported=ready) == ready
    assert status(AttemptFiles(), None).state == "waiting"
    assert status(AttemptFiles(), None, reported=ready.model_copy(update={"attempt": 1})).state == "waiting"


def test_an_end_that_was_told_is_of_one_attempt() -> None:
    over = status(AttemptFiles(exit=Exit(2, code=0)))
    assert runner_specs.has_ended(over, 2)
    assert not runner_specs.has_ended(over, 3)
    assert not runner_specs.has_ended(status(), 2)
    assert not runner_specs.has_ended(None, 2)
