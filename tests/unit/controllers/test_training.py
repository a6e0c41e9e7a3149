"""How a job set is started, decided from facts alone: what it waits for, what runs, and what is told of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mizzen.controllers.training import decide
from mizzen.controllers.training.admission_queue import Admission
from mizzen.controllers.training.facts import SavedCheckpoints, TrainingFacts
from mizzen.kinds import catalog
from mizzen.kinds.schema.resource import Resource, format_time
from mizzen.kinds.workload import WorkloadSpec
from mizzen.reconcile.controller import Decision
from tests.support.controllers import jobs
from tests.support.controllers.jobs import Set, running
from tests.support.controllers.objects import DIGEST, NOW, meta
from tests.support.golden import Golden


def test_what_a_job_is_given_is_written_down_before_anything_starts() -> None:
    made = Set(jobs.job(replicas=2), ports={"worker-0": 20_000, "worker-1": 20_001})
    decision = made.look()
    assert (decision.children, decision.requeue_after) == ((), 0.0)
    assert (made.status.admitted, made.status.ports) == (True, {"worker-0": 20_000, "worker-1": 20_001})
    assert made.why == ("Queued", "Starting")
    made.look(ports={})
    assert made.running == {"worker-0": 0, "worker-1": 0}


def test_a_job_goes_from_queued_to_running_to_succeeded() -> None:
    made = Set(jobs.job(), admission=Admission(admitted=False, reason="WaitingForShare", message="needs 1 CPU"))
    made.look()
    assert made.why == ("Queued", "WaitingForShare")
    assert made.condition("Created").true
    made.look(admission=jobs.ADMITTED)
    made.look()
    made.sees("worker-0", "waiting", reason="BuildingEnvironment", message="installing numpy")
    made.look()
    assert made.why == ("Queued", "BuildingEnvironment")
    assert made.status.start_time is None
    made.sees("worker-0", "starting", message="fetching code")
    made.look()
    assert made.why == ("Running", "Starting")
    assert made.condition("Running").message == "fetching code"
    made.sees("worker-0", "ready")
    made.look()
    assert made.why == ("Running", "ReplicasRunning")
    made.sees("worker-0", "ended", 0)
    decision = made.look(after=10, saved=SavedCheckpoints(2, "job-2"))
    assert made.why == ("Succeeded", "Succeeded")
    assert decision.children == ()
    assert made.status.condition("NoCheckpoint") is None
    assert (made.status.checkpoints, made.status.newest_checkpoint) == (2, "job-2")
    told = made.status
    assert (told.start_time, told.completion_time) == (format_time(NOW), format_time(made.now))
    assert made.status.ran_seconds == 10
    assert made.status.replicas["Worker"].succeeded == 1


def test_one_that_saved_nothing_says_so_until_something_is_found_after_all() -> None:
    made = running()
    made.sees("worker-0", "ended", 0)
    made.look()
    assert made.condition("NoCheckpoint").true
    assert jobs.phases(made.status) == ["Succeeded"]
    made.look(saved=SavedCheckpoints(1, "late"))
    assert made.status.condition("NoCheckpoint") is None
    assert made.why == ("Succeeded", "Succeeded")


def test_a_failed_job_is_not_told_to_have_no_checkpoint(golden: Golden) -> None:
    made = running()
    made.sees("worker-0", "ended", 1, message="Traceback: no")
    made.look()
    assert made.why == ("Failed", "ReplicaFailed")
    golden.check(made.condition("Failed").message)
    assert made.status.condition("NoCheckpoint") is None


@pytest.mark.parametrize("path", ["train.py", "sub/train.py"])
def test_without_a_command_the_script_at_the_root_of_the_version_runs(path: str) -> None:
    made = Set(jobs.job(), version=jobs.code(path=path))
    made.look()
    if path == "train.py":
        made.look()
        assert made.facts.children[0].spec["command"] == ["python", "train.py"]
    else:
        assert made.why == ("Failed", "NothingToRun")


BLOCKED: list[tuple[dict[str, Any], dict[str, Any], str, str]] = [
    ({}, {"version": None}, "Queued", "VersionNotFound"),
    ({}, {"version": jobs.code(trusted=False)}, "Failed", "CodeUntrusted"),
    ({"command": ["python", "other.py"]}, {"version": jobs.code(trusted=False)}, "Failed", "CodeUntrusted"),
    ({"version": None, "image": "tf:1"}, {"version": None}, "Queued", "ContainersUnsupported"),
    ({"nodeName": "elsewhere"}, {}, "Queued", "NodeNotFound"),
    ({"replicas": 0}, {}, "Queued", "InvalidSpec"),
]


@pytest.mark.parametrize(("spec", "facts", "phase", "reason"), BLOCKED)
def test_what_keeps_a_job_from_starting_is_told(
    spec: dict[str, Any], facts: dict[str, Any], phase: str, reason: str
) -> None:
    given = {key: value for key, value in jobs.job(**spec).spec.items() if value is not None}
    made = Set(replace(jobs.job(), spec=given), **facts)
    made.look()
    assert made.why == (phase, reason)
    assert made.facts.children == ()


def test_a_version_without_files_needs_a_job_of_somebody_who_may_vouch() -> None:
    git = {"repo": "https://example.org/code.git", "commit": "0" * 40}
    version = Resource(
        "ModelVersion", meta("iris.3"),
        {"modelName": "iris", "version": "3", "framework": "python", "code": {"git": git}},
    )  # fmt: skip
    made = Set(jobs.started(), version=version)
    made.look()
    assert made.facts.children[0].spec["task"]["git"] == git
    strange = jobs.job()
    other = Set(replace(strange, meta=replace(strange.meta, annotations={})), version=version)
    other.look()
    assert other.why == ("Failed", "CodeUntrusted")


def test_every_workload_that_is_wanted_can_be_worked_with() -> None:
    secret = {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
    template = {
        "spec": {
            "containers": [
                {
                    "name": "tensorflow", "command": ["python", "mine.py"], "args": ["--fast"], "workingDir": "/tmp",
                    "env": [{"name": "MODE", "value": "chief"}, {"name": "MIZZEN_SOCKET", "value": "no"}],
                }
            ]
        }
    }  # fmt: skip
    made = running(
        replicaSpecs={"Chief": {"template": template}, "Worker": {"replicas": 2}, "PS": {}, "Evaluator": {}},
        env=[{"name": "MODE", "value": "all"}, secret],
        dataset={"s3": {"bucket": "data", "secret": "keys"}},
        hyperparameters={"lr": 0.1},
        resources={"cpu": "0.5", "memory": "1Gi"},
        frameworkType="tensorflow",
    )
    children = {child.meta.name: child for child in made.facts.children}
    for child in children.values():
        accepted, findings = catalog.check_accepted(child, jobs.KNOWN)
        assert accepted.true, findings.faults
    chief, worker = (WorkloadSpec.of(children[f"job.{name}"]) for name in ("chief-0", "worker-1"))
    assert chief.command == ("python", "mine.py", "--fast")
    assert (chief.working_dir, chief.env) == ("/tmp", {"MODE": "chief"})
    assert (worker.command, worker.env) == (("python", "train.py"), {"MODE": "all"})
    assert worker.secret_env["TOKEN"].key == "k"
    assert worker.secret_env["MIZZEN_DATASET_ACCESS_KEY_ID"].wire() == {"name": "keys", "key": "accessKeyId"}
    task = worker.task
    assert task is not None
    assert task.cluster == {
        "chief": ("127.0.0.1:20002",), "worker": ("127.0.0.1:20000", "127.0.0.1:20001"),
        "ps": ("127.0.0.1:20003",), "evaluator": ("127.0.0.1:20004",),
    }  # fmt: skip
    assert (task.replica, task.attempt, task.job_uid, task.version_uid) == ("worker-1", 0, "uid-job", "uid-iris.3")
    assert (task.hyperparameters, task.framework, task.trusted) == ({"lr": 0.1}, "tensorflow", True)
    assert worker.artifacts[0].digest == DIGEST
    assert worker.restart == "Never"


def test_one_replica_alone_has_no_addresses() -> None:
    made = Set(replace(jobs.started(), status={"admitted": True}))
    made.look()
    assert "cluster" not in made.facts.children[0].spec["task"]


def test_a_command_of_the_job_stands_over_that_of_a_container_and_that_over_the_script() -> None:
    template = {"spec": {"containers": [{"name": "main", "image": "tf:1", "command": ["sh", "own.sh"]}]}}
    given = {"Worker": {"replicas": 1, "template": template}}
    for command, expected in ((["python", "job.py"], ["python", "job.py"]), ([], ["sh", "own.sh"])):
        made = running(replicaSpecs=given, command=command)
        assert made.facts.children[0].spec["command"] == expected


def test_a_job_that_is_being_deleted_is_left_to_the_machinery() -> None:
    going = jobs.job()
    going = replace(going, meta=replace(going.meta, deleted=NOW))
    assert decide.decide(TrainingFacts(going), jobs.KNOWN, "", NOW) == Decision()


def test_a_spec_that_was_broken_behind_our_back_leaves_what_runs_and_can_be_ended() -> None:
    made = running()
    made.change(replicas="many")
    made.look()
    assert not made.condition("Accepted").true
    assert (made.why[0], made.running) == ("Running", {"worker-0": 0})
    made.end(terminated={"actor": "ada", "time": format_time(NOW)})
    made.look()
    assert (made.why, made.running) == (("Failed", "Terminated"), {})
