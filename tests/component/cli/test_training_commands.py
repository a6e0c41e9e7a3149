"""mizzen train, against the real control API; what runs there, the tests write."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from mizzen.cli import output
from mizzen.cli.training import views, watch
from mizzen.cli.training.watch import ProgressDisplay
from mizzen.sdk.client import AsyncPlane
from mizzen.sdk.connection import locate
from tests.component.sdk.jobs import BEGAN, ENDED, Training
from tests.support.cli.command import Plane, commanding, failed
from tests.support.golden import Golden
from tests.support.planes import wait_until
from tests.support.server.harness import TOKEN
from tests.unit.cli.test_terminal_escapes import printed


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[Plane]:
    with commanding(tmp_path) as running:
        running.file("code/train.py", "print('training')\n")
        yield running


def jobs(plane: Plane) -> list[str]:
    found = plane.control.run(plane.control.store.list("TrainingJob"))
    return [job.meta.name for job in found.items]


def started(plane: Plane, *words: str) -> Training:
    """A job of the code, or of what is registered."""
    what = words or ("--code", "code")
    told = json.loads(plane("train", "start", "iris", *what, "--no-wait", "-o", "json").stdout)
    return Training(plane.control, told["id"])


@contextmanager
def meanwhile(plane: Plane, work: Callable[[Training], None]) -> Iterator[list[Training]]:
    """`work` with the first job, once there is one; then the list has it."""
    found: list[Training] = []

    def run() -> None:
        wait_until(lambda: bool(jobs(plane)), "a job is started")
        found.append(Training(plane.control, jobs(plane)[0]))
        work(found[0])

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield found
    finally:
        thread.join()


def ends_well(job: Training) -> None:
    job.print("one\ntwo\n")
    job.report(2, 2, loss=0.25)
    job.save("model.joblib", step=2, loss=0.25)
    job.become("Succeeded", completionTime=ENDED)


def test_code_is_registered_and_trained(plane: Plane) -> None:
    done = plane(
        "train", "start", "iris", "--code", "code", "--param", "rate=0.5", "-p", "name=a b",
        "--params", '{"rate": 1, "x": [1]}', "--dataset", "code", "--cpu", "2", "--memory", "1Gi", "--priority", "3",
        "--restart", "ExitCode", "--deadline", "2h", "--keep", "2", "--env", "A=b=c",
        "--replicas", "chief=1,worker=2", "--no-wait", "--", "python", "train.py", "--fast",
    )  # fmt: skip
    [id_] = jobs(plane)
    assert done.stdout == f"{id_} trains version 1 of iris\n"
    assert f"mizzen train logs {id_} -f" in done.stderr
    assert "✓ registered version 1" in done.stderr
    assert Training(plane.control, id_).spec() == {
        "modelName": "iris", "version": "1", "command": ["python", "train.py", "--fast"],
        "hyperparameters": {"rate": 0.5, "x": [1], "name": "a b"}, "dataset": {"path": str(plane.folder / "code")},
        "resources": {"cpu": "2", "memory": "1Gi"}, "priority": 3, "restartPolicy": "ExitCode",
        "activeDeadlineSeconds": 7200, "retention": {"checkpoints": 2}, "env": [{"name": "A", "value": "b=c"}],
        "replicaSpecs": {"Chief": {"replicas": 1}, "Worker": {"replicas": 2}},
    }  # fmt: skip


def test_a_job_that_is_waited_for_is_told_in_lines(plane: Plane) -> None:
    with meanwhile(plane, ends_well) as found:
        done = plane("train", "start", "iris", "--code", "code")
    [job] = found
    assert done.stdout.startswith(f"{job.id} succeeded in 1 min 30 s; 1 checkpoint, the newest {job.id}-")
    assert f"✓ started {job.id}" in done.stderr
    assert "loss 0.25" in done.stderr
    assert "'mizzen serve iris 1' serves it" in done.stderr


@pytest.mark.parametrize(("words", "stdout", "stderr"), [((), True, False), (("-o", "json"), False, True)])
def test_the_log_is_followed(plane: Plane, words: tuple[str, ...], stdout: bool, stderr: bool) -> None:
    with meanwhile(plane, ends_well):
        done = plane("train", "start", "iris", "--code", "code", "--follow", *words)
    assert ("[worker-0] one\n[worker-0] two\n" in done.stdout) is stdout
    assert ("[worker-0] one\n[worker-0] two\n" in done.stderr) is stderr
    if words:
        assert json.loads(done.stdout)["state"] == "Succeeded"


def test_quietly_only_the_end_is_told(plane: Plane) -> None:
    with meanwhile(plane, ends_well):
        done = plane("train", "start", "iris", "--code", "code", "--quiet")
    assert "…" not in done.stderr
    assert "succeeded" in done.stdout


def test_a_job_that_fails_is_a_failure_with_its_last_words(plane: Plane) -> None:
    def fails(job: Training) -> None:
        job.print("Traceback\nKeyError: 'colour'\n")
        job.become("Failed", "ReplicaFailed", "worker-0 ended with exit code 1", completionTime=ENDED)

    with meanwhile(plane, fails) as found:
        done = plane("train", "start", "iris", "--code", "code", "--quiet", check=False)
    [job] = found
    assert (done.returncode, done.stdout) == (1, "")
    assert f"error: job {job.id} failed: ReplicaFailed: worker-0 ended with exit code 1\n" in done.stderr
    assert "  | [worker-0] KeyError: 'colour'\n" in done.stderr
    assert f"hint: full log: 'mizzen train logs {job.id}'" in done.stderr


@pytest.mark.usefixtures("heard_interrupts")
def test_ctrl_c_leaves_the_job_running(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    note = output.note

    def interrupted(text: str) -> None:
        note(text)
        if "waiting to be started" in text:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(output, "note", interrupted)
    done = plane("train", "start", "iris", "--code", "code", check=False)
    [id_] = jobs(plane)
    assert done.returncode == 130
    left = f"job {id_} keeps running; 'mizzen train logs {id_} -f' follows it, 'mizzen train stop {id_}' stops it"
    assert done.stderr.endswith(f"interrupted: {left}\n")
    assert "terminated" not in plane("train", "show", id_, "-o", "json").stdout


def test_what_it_saved_is_served_and_made_current(plane: Plane) -> None:
    def served(job: Training) -> None:
        ends_well(job)
        store = plane.control.store
        wait_until(lambda: bool(plane.control.run(store.list("InferenceModel")).items), "it is served")
        answering = {"models": [{"name": "iris", "version": "1", "ready": True}]}
        plane.inference.give["GET", "/v2/models"] = 200, answering
        plane.control.make_ready("iris-1", "1")

    with meanwhile(plane, served) as found:
        done = plane("train", "start", "iris", "--code", "code", "--serve", "--quiet")
    assert f"{found[0].id} succeeded" in done.stdout
    assert "iris version 1 answers at" in done.stdout
    assert "✓ current" in done.stderr
    told = json.loads(plane("get", "inferencemodel", "iris-1", "-o", "json").stdout)
    assert told["spec"]["checkpoint"].startswith(found[0].id)
    assert json.loads(plane("model", "describe", "iris", "-o", "json").stdout)["current"] == "1"


def test_what_cannot_be_started_is_explained(plane: Plane) -> None:
    failed(plane("train", "start", "iris", check=False), "iris")
    failed(plane("train", "start", "iris", "--code", "nowhere", check=False), "no file or folder 'nowhere' here")
    plane("model", "create", "iris")
    failed(
        plane("train", "start", "iris", check=False), "no version to train", "'mizzen train start iris --code FOLDER'"
    )
    failed(plane("train", "start", "iris", "7", check=False), "7")
    failed(plane("train", "start", "iris", "--code", "code", "--restart", "Maybe", check=False), "restartPolicy")
    failed(
        plane("train", "start", "iris", "--deadline", "soon", check=False),
        "'soon' is not a valid duration",
        "expected 90s",
    )
    failed(plane("train", "show", "nobody", check=False), "no job 'nobody'", "'mizzen train list --state all'")


def test_code_is_registered_to_be_trained_later(plane: Plane, golden: Golden) -> None:
    plane.file("other/fit.py", "print(1)\n")
    plane("model", "create", "iris")
    failed(plane("version", "add", "iris", "other", check=False), "entrypoint")
    golden.check(plane("version", "add", "iris", "other", "--training").stdout)
    assert started(plane, "1").spec()["version"] == "1"


def test_jobs_are_listed(plane: Plane) -> None:
    assert "no job is running" in plane("train", "list").stderr
    first = started(plane)
    second = started(plane, "1")
    first.become("Failed", "Terminated", completionTime=ENDED)
    second.become("Running", progress={"step": 3, "total": 10, "metrics": {"loss": 0.5}}, checkpoints=2)
    titles, row = plane("train", "list").stdout.splitlines()
    assert titles.split() == ["ID", "MODEL", "VERSION", "STATE", "STEP", "CHECKPOINTS", "BY", "AGE"]
    assert row.split()[:7] == [second.id, "iris", "1", "Running", "3/10", "(30%)", "2"]
    assert [
        line.split()[0] for line in plane("train", "list", "iris", "--state", "failed").stdout.splitlines()[1:]
    ] == [first.id]
    listed = json.loads(plane("train", "list", "iris", "--version", "1", "--state", "all", "-o", "json").stdout)[
        "items"
    ]
    assert {item["id"] for item in listed} == {first.id, second.id}
    assert plane("train", "list", "iris", "--state", "succeeded").stderr == "no jobs\n"


def test_a_job_is_shown_with_what_it_saved_and_who_serves_it(plane: Plane) -> None:
    job = started(plane, "--code", "code", "-p", "rate=0.5")
    job.report(3, 12, loss=0.5)
    job.become(
        "Running",
        replicaStates=[
            {
                "name": "worker-0",
                "state": "running",
                "attempt": 1,
                "restarts": 1,
                "exitCode": 137,
                "reason": "RunnerLost",
            },
            {"name": "worker-1", "state": "waiting", "message": "for its turn"},
        ],
    )
    saved = job.save("model.joblib", step=3, loss=0.5)
    plane("serve", "iris", "1", "--checkpoint", saved, "--no-wait")
    shown = plane("train", "show", job.id).stdout
    assert shown.startswith(f"{job.id}: running for ")
    for line in (
        "  trains    version 1 of iris, for admin",
        "  progress  ██████░░░░░░░░░░░░░░░░░░ 3/12 (25%)",
        "  metrics   loss 0.5",
        "  params    rate=0.5",
        "  worker-0: running, exit code 137, restarted once, RunnerLost",
        "  worker-1: waiting\n    for its turn",
        f"  {saved}: step 3, loss 0.5, 7 B",
        f"  iris-1 serves {saved}",
    ):
        assert f"\n{line}\n" in shown, shown
    assert yaml.safe_load(plane("train", "show", job.id, "-o", "yaml").stdout)["progress"]["step"] == 3


def test_what_it_printed_last_is_shown_of_a_job_that_failed(plane: Plane) -> None:
    job = started(plane, "--code", "code")
    job.fail("Traceback\nKeyError: 'colour'\n")
    replicas = [{"name": "worker-0", "state": "failed", "exitCode": 1}]
    job.become("Failed", "ReplicaFailed", "worker-0 ended with code 1", replicaStates=replicas)
    shown = plane("train", "show", job.id).stdout
    assert "\n  because   ReplicaFailed: worker-0 ended with code 1\n" in shown
    assert "\n  printed   Traceback\n            KeyError: 'colour'\n" in shown


def test_logs_are_read_in_part(plane: Plane) -> None:
    job = started(plane, "--code", "code", "--replicas", "2")
    job.print("a\nb\nc\n")
    job.print("x\n", "worker-1")
    assert (
        plane("train", "logs", job.id, "--replica", "worker-0", "--tail", "2").stdout == "[worker-0] b\n[worker-0] c\n"
    )
    assert sorted(plane("train", "logs", job.id, "--since", "10m").stdout.splitlines())[-1] == "[worker-1] x"
    failed(plane("train", "logs", job.id, "--since", "soon", check=False), "since")
    job.become("Succeeded", completionTime=ENDED)
    assert plane("train", "logs", job.id, "-f").stdout.count("\n") == 4


def test_checkpoints_are_listed_and_fetched(plane: Plane) -> None:
    job = started(plane)
    assert plane("train", "checkpoints", job.id).stderr.startswith(f"{job.id} has no checkpoints")
    first, second = job.save("a.joblib", step=1, loss=0.5), job.save("b.joblib", "more")
    titles, *rows = plane("train", "checkpoints", job.id).stdout.splitlines()
    assert titles.split() == ["ID", "NAME", "STEP", "METRICS", "SIZE", "AGE", "SERVED", "BY"]
    assert [row.split()[:2] for row in rows] == [[second, "b.joblib"], [first, "a.joblib"]]
    assert "1      loss 0.5   7 B" in rows[1]
    items = json.loads(plane("train", "checkpoints", job.id, "-o", "json").stdout)["items"]
    assert [item["checkpoint_id"] for item in items] == [second, first]
    assert plane("train", "checkpoints", job.id, "--get", first, "--to", "best").stdout == f"{first} is in best\n"
    assert (plane.folder / "best" / "a.joblib").read_text() == "weights"
    failed(plane("train", "checkpoints", job.id, "--get", first, "--to", "best", check=False), "already exists")
    failed(plane("train", "checkpoints", job.id, "--get", "nothing", check=False), "no checkpoint 'nothing'")


def test_jobs_are_suspended_resumed_and_stopped(plane: Plane) -> None:
    job = started(plane)
    assert "is suspended" in plane("train", "suspend", job.id).stdout
    assert job.spec()["suspend"] is True
    assert "is resumed" in plane("train", "resume", job.id).stdout
    assert job.spec()["suspend"] is False
    assert plane("train", "stop", job.id, "--no-wait").stdout == f"{job.id} is stopping\n"
    job.become("Failed", "Terminated", completionTime=ENDED)
    assert plane("train", "stop", job.id).stdout == f"{job.id} is stopped\n"
    failed(plane("train", "suspend", job.id, check=False), "has ended")
    other = started(plane, "1")
    other.become("Succeeded", completionTime=ENDED)
    assert plane("train", "stop", other.id).stdout == f"{other.id} had already succeeded\n"


def view(step: int | None = None, total: int | None = None, state: str = "Running", **more: Any) -> dict[str, Any]:
    progress = {"step": step, "total": total, "metrics": more.pop("metrics", {}), "eta_seconds": more.pop("eta", None)}
    return {"id": "j", "state": state, "startTime": BEGAN, "completionTime": ENDED, "progress": progress, **more}


def test_sparklines_go_from_the_lowest_to_the_highest() -> None:
    assert views.render_sparkline([1, 2, 3, 4, 5, 6, 7, 8]) == "▁▂▃▄▅▆▇█"
    assert views.render_sparkline([3, 3, 3]) == "▁▁▁"
    assert views.render_sparkline([1]) == views.render_sparkline([]) == ""
    assert views.render_sparkline([9, 1, float("nan"), 2], width=2) == "▁█"


@pytest.mark.parametrize(("fraction", "drawn"), [(-1, "░░░░"), (0.5, "██░░"), (7, "████")])
def test_bars_stay_within_their_width(fraction: float, drawn: str) -> None:
    assert views.render_bar(fraction, 4) == drawn


def test_what_is_drawn_on_a_terminal() -> None:
    watching = ProgressDisplay()
    assert watching.render(80)[0].startswith("waiting for the plane")
    for step, loss in ((1, 1.0), (2, 0.5), (2, 0.5), (3, 0.25)):
        watching.update(view(step, 10, metrics={"loss": loss}, eta=70.0, completionTime=None))
    watching.add_log("[worker-0] one\n\n[worker-0] \x1b[2Jtwo\n")
    headline, bar, metric, *log = watching.render(80)
    assert headline.endswith(", 3/10 (30%), about 1 min 10 s left")
    assert bar == f"  {'█' * 15}{'░' * 35} 3/10 (30%)"
    assert metric.split() == ["loss", "0.25", "█▃▁"]
    assert log == ["  │ [worker-0] one", "  │ [worker-0] \\u001b[2Jtwo"], "what a log holds does not draw itself"
    assert all(len(line) <= 20 for line in watching.render(20))


def test_lines_tell_of_a_new_state_at_once_and_of_steps_after_a_while(golden: Golden) -> None:
    watching = ProgressDisplay()
    told = []
    for now, job in (
        (0.0, view(state="Queued", completionTime=None, startTime=None, message="waits for 2 of 2 processors")),
        (0.1, view(1, 9)), (0.2, view(2, 9)), (6.0, view(2, 9)), (6.1, view(3, 9)), (12.0, view(3, 9)),
    ):  # fmt: skip
        watching.update(job)
        told.append(watching.next_line(now))
    assert [bool(line) for line in told] == [True, True, False, True, False, True]
    golden.check(told[0])


def test_the_end_of_a_job_without_a_checkpoint_says_so(golden: Golden) -> None:
    assert "saved no checkpoint" in views.describe_success(view(state="Succeeded", checkpoints=0))
    many = view(state="Succeeded", checkpoints=2, newestCheckpoint="j-1")
    golden.check(views.describe_success(many))
    assert watch.ProgressDisplay().next_line(0.0) == ""


def test_a_terminal_shows_how_it_goes_and_is_left_clean(plane: Plane) -> None:
    job = started(plane)
    job.print("epoch 1\n")
    job.report(1, 4, loss=0.5)
    job.become("Running")
    looks: list[int] = []

    async def wait() -> dict[str, Any]:
        place = locate.find(plane.control.url, TOKEN)
        async with AsyncPlane(place) as client:
            ref = await client.find_job(job.id)
            timer = threading.Timer(1.0, lambda: job.become("Succeeded", completionTime=ENDED))
            timer.start()
            return await watch.wait(client, ref, follow=None, tell=lambda _piece: looks.append(1))

    text = printed(lambda: output.write(asyncio.run(wait())["state"]))
    assert f"{job.id}: running" in text
    assert "1/4 (25%)" in text
    assert "│ [worker-0] epoch 1" in text
    assert text.endswith("Succeeded\n")
    assert looks == []
