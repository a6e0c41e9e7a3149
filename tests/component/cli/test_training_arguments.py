"""mizzen train: what is refused before anything happens, and what is told of a job, on a terminal too."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mizzen.cli import output
from mizzen.cli.training import views, watch
from mizzen.cli.training.watch import ProgressDisplay
from mizzen.kinds.schema.resource import Ref
from mizzen.sdk.client import AsyncPlane
from mizzen.sdk.connection import locate
from tests.component.cli.test_training_commands import jobs, meanwhile, started
from tests.component.sdk.jobs import BEGAN, ENDED, Training
from tests.support.cli.command import Plane, commanding, failed
from tests.support.server.harness import TOKEN
from tests.unit.cli.test_terminal_escapes import printed

EVIL = "a\x1b]0;title\x07b\nReplicas\n  worker-9: succeeded\r\x9b2J\u202e"


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[Plane]:
    with commanding(tmp_path) as running:
        running.file("code/train.py", "print('training')\n")
        yield running


def wrong_usage(plane: Plane, says: str, *words: str) -> None:
    done = plane("train", "start", "iris", *words, check=False)
    told = " ".join(done.stderr.replace("│", " ").split())
    assert (done.returncode, says in told) == (2, True), done
    assert plane.control.run(plane.control.store.list("Model")).items == (), "nothing was registered"


def of_evil() -> dict[str, Any]:
    condition = {"type": "NoCheckpoint", "status": "True", "message": EVIL}
    return {
        "id": "j", "state": "Failed", "reason": "ReplicaFailed", "message": EVIL, "model": "iris", "version": "1",
        "createdBy": EVIL, "lastLines": EVIL, "startTime": BEGAN, "completionTime": ENDED,
        "progress": {"step": 1, "total": 2, "metrics": {EVIL: 1.0}, "message": EVIL},
        "replicaStates": [{"name": "worker-0", "state": "failed", "message": f"{EVIL}!", "reason": EVIL}],
        "spec": {"hyperparameters": {EVIL: EVIL}}, "status": {"conditions": [condition]},
    }  # fmt: skip


def test_other_peoples_words_stay_within_their_place() -> None:
    saved = {"checkpoint_id": "c", "name": EVIL, "metrics": {EVIL: 1.0}, "served_by": []}
    watching = ProgressDisplay()
    watching.update(of_evil())
    lines = [
        *views.describe_job(of_evil(), [saved]),
        *(cell for row in views.job_rows([of_evil()]) for cell in row),
        *(cell for row in views.checkpoint_rows([saved]) for cell in row),
        *watching.render(200),
        views.format_line({**of_evil(), "state": "Running"}),
    ]
    for line in "\n".join(lines).split("\n"):
        assert line.isprintable(), line
        assert not line.startswith(("Replicas ", "  worker-9")), line
    assert lines.count("Replicas") == 1
    assert not any("\n" in cell for row in views.checkpoint_rows([saved]) for cell in row)


def test_a_terminal_gets_the_colours_of_a_log_and_nothing_else(plane: Plane) -> None:
    job = started(plane)
    job.print("\x1b[31mred\x1b[0m \x1b]0;title\x07 \x1b[2J\n")
    job.become("Succeeded", completionTime=ENDED)
    raw = plane("train", "logs", job.id).stdout
    assert raw == "[worker-0] \x1b[31mred\x1b[0m \x1b]0;title\x07 \x1b[2J\n", "for programs it is as it was printed"
    text = printed(lambda: output.write(raw, nl=False, colors=True))
    assert "\x1b[31mred\x1b[0m" in text
    assert text.count("\x1b") == 2


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--sha256", "9f"), "--sha256 needs --dataset"),
        (("--secret", "bucket"), "--secret needs --dataset"),
        (("--follow", "--no-wait"), "--follow needs the end of training"),
        (("--env", "MIZZEN_X=1"), "'MIZZEN_X': names that start with MIZZEN_ are reserved for the plane"),
        (("-p", "i=NaN"), "'i' is NaN or infinite"),
        (("-p", "i=[1, -Infinity]"), "'i' is NaN or infinite"),
        (("--params", '{"a": NaN}'), "'a' is NaN or infinite"),
    ],
)
def test_words_that_go_with_nothing_are_wrong_usage(plane: Plane, words: tuple[str, ...], says: str) -> None:
    wrong_usage(plane, says, "--code", "code", *words)


def test_code_without_train_py_is_refused_before_it_is_registered(plane: Plane) -> None:
    plane.file("other/fit.py", "print(1)\n")
    plane.file("many/a.py", "")
    plane.file("many/b.py", "")
    for code, where, run in (("other", "in", "fit.py"), ("many", "in", "main.py"), ("other/fit.py", "but", "fit.py")):
        failed(
            plane("train", "start", "iris", "--code", code, check=False),
            f"no train.py {where} {code}: give the command to run",
            f"mizzen train start iris --code {code} -- python {run}",
        )
    assert plane.control.run(plane.control.store.list("Model")).items == ()
    plane("train", "start", "iris", "--code", "other", "--no-wait", "-o", "json", "--", "python", "fit.py")
    assert len(jobs(plane)) == 1


def test_versions_that_cannot_be_are_answered_as_versions(plane: Plane) -> None:
    started(plane)
    for version in ("a/b", "1/x/suspend", "..", "a b", "%2e"):
        failed(plane("train", "start", "iris", version, "--no-wait", check=False), "no such version")
        failed(plane("train", "list", "iris", "--version", version, check=False), "no such version")
    failed(plane("version", "describe", "iris", "1/2", check=False), "no such version", "'mizzen version list iris'")
    assert len(jobs(plane)) == 1


def test_a_job_that_nobody_waits_for_tells_what_it_waits_for(plane: Plane) -> None:
    def waits(job: Training) -> None:
        job.become("Queued", "TooLarge", "it asks for 64 processors, and there are 2")

    with meanwhile(plane, waits):
        done = plane("train", "start", "iris", "--code", "code", "--no-wait")
    assert "it waits: TooLarge: it asks for 64 processors, and there are 2\n" in done.stderr


def test_a_job_that_runs_is_not_looked_at_for_longer(plane: Plane) -> None:
    job = started(plane)
    asked: list[str] = []

    class Counting(AsyncPlane):
        async def job(self, job: Any) -> dict[str, Any]:
            asked.append("job")
            return await super().job(job)

    async def look() -> dict[str, Any]:
        async with Counting(locate.find(plane.control.url, TOKEN)) as client:
            ref = await client.find_job(job.id)
            return await watch.wait_started(client, ref, {"state": "Created", "reason": ""})

    job.become("Running")
    found = asyncio.run(look())
    assert (found["state"], asked, watch.describe_obstacle(found)) == ("Running", ["job"], "")


def test_what_a_job_left_is_told_when_its_record_is_gone(plane: Plane) -> None:
    job = started(plane)
    kept = job.save("a.joblib")
    job.print("told\n")
    plane("delete", "trainingjob", job.id, "--no-wait")
    plane.control.release(Ref("TrainingJob", job.id))
    for words in (("show",), ("stop",), ("suspend",)):
        failed(
            plane("train", *words, job.id, check=False),
            f"the record of job {job.id} is gone",
            f"its logs and checkpoints remain: 'mizzen train logs {job.id}', 'mizzen train checkpoints {job.id}'",
        )
    assert kept in plane("train", "checkpoints", job.id).stdout
    assert plane("train", "logs", job.id).stdout == "[worker-0] told\n"


def test_a_job_that_saved_nothing_says_so(plane: Plane) -> None:
    job = started(plane)
    conditions = [
        {"type": type_, "status": "True", "reason": "x", "message": message, "lastTransitionTime": BEGAN}
        for type_, message in (("Succeeded", ""), ("NoCheckpoint", "it saved nothing"))
    ]
    job.become("Succeeded", completionTime=ENDED, conditions=conditions)
    assert "\n  saved     nothing: it saved nothing\n" in plane("train", "show", job.id).stdout


def test_time_suspended_counts_from_the_suspension() -> None:
    since = {"type": "Suspended", "status": "True", "lastTransitionTime": "2026-01-31T13:00:00Z"}
    job = {"id": "j", "state": "Suspended", "startTime": BEGAN, "status": {"conditions": [since]}}
    assert views.run_seconds(job, datetime(2026, 1, 31, 13, 0, 7, tzinfo=UTC)) == 7.0
    assert views.run_seconds({**job, "state": "Running"}, datetime(2026, 1, 31, 13, 0, tzinfo=UTC)) == 3600.0


def test_a_failure_is_told_once(plane: Plane) -> None:
    def fails(job: Training) -> None:
        job.print("KeyError: 'colour'\n")
        ended = {"name": "worker-0", "state": "failed", "exitCode": 1, "message": "ended with code 1"}
        job.become("Failed", "ReplicaFailed", "worker-0 ended with code 1", completionTime=ENDED, replicaStates=[ended])

    with meanwhile(plane, fails) as found:
        done = plane("train", "start", "iris", "--code", "code", check=False)
    assert done.stderr.count("worker-0 ended with code 1") == 1, done.stderr
    assert plane("train", "show", found[0].id).stdout.count("ended with code 1") == 1


def test_a_failure_whose_log_was_followed_does_not_repeat_it(plane: Plane) -> None:
    def fails(job: Training) -> None:
        job.print("KeyError: 'colour'\n")
        job.become("Failed", "ReplicaFailed", "worker-0 ended with code 1", completionTime=ENDED)

    with meanwhile(plane, fails):
        done = plane("train", "start", "iris", "--code", "code", "--follow", check=False)
    assert done.stdout.count("KeyError") == 1
    assert "KeyError" not in done.stderr
    assert "failed: ReplicaFailed: worker-0 ended with code 1\n" in done.stderr


def test_hints_speak_of_commands(plane: Plane) -> None:
    job = started(plane)
    listed = f"'mizzen train checkpoints {job.id}' lists its checkpoints"
    for option in ("--get", "--trust"):
        for id_ in ("nothing", "../x"):
            failed(plane("train", "checkpoints", job.id, option, id_, check=False), "checkpoint", listed)
    job.become("Failed", "Terminated", completionTime=ENDED)
    for word in ("suspend", "resume"):
        failed(plane("train", word, job.id, check=False), "has ended", "'mizzen train start iris 1' starts another one")


def test_a_checkpoint_is_vouched_for(plane: Plane) -> None:
    job = started(plane)
    saved = job.save("a.joblib")
    shelf = plane.control.app.state.context.checkpoints
    [made] = shelf.all()
    shelf.remove(made)
    shelf.add(replace(made, trusted=False))
    told = plane("train", "checkpoints", job.id, "--trust", saved)
    assert told.stdout == f"{saved} is trusted: its contents may run\n"
    [item] = json.loads(plane("train", "checkpoints", job.id, "-o", "json").stdout)["items"]
    assert item["trusted"] is True
    done = plane("train", "checkpoints", job.id, "--trust", saved, "--get", saved, check=False)
    assert done.returncode == 2
