"""Training by the SDK, against the real control API; what runs there, the tests write."""

from __future__ import annotations

import asyncio
import io
import tarfile
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

import mizzen
from mizzen import errors
from mizzen.kinds.schema.resource import Ref
from mizzen.sdk.api.jobs import JobRef
from mizzen.sdk.operations import train
from mizzen.sdk.operations.train import dataset_of, spec_of
from mizzen.sdk.packaging import tar_extract
from tests.component.sdk.jobs import ENDED, Training, code
from tests.support.answers import Answers, answering
from tests.support.golden import Golden
from tests.support.server.harness import TOKEN, Harness, serving


@pytest.fixture
def control(tmp_path: Path) -> Iterator[Harness]:
    with serving(tmp_path) as harness:
        yield harness


@pytest.fixture
def plane(control: Harness) -> Iterator[mizzen.Plane]:
    with mizzen.connect(control.url, TOKEN) as connected:
        yield connected


@pytest.fixture
def answers() -> Iterator[Answers]:
    with answering() as found:
        yield found


def test_words_become_the_spec_of_a_job() -> None:
    assert spec_of() == {}
    assert spec_of(
        command="python fit.py --fast", params={"rate": 0.5}, dataset="s3://flowers/iris/2024", secret="bucket",
        replicas={"Chief": 1, "Worker": {"replicas": 2, "restartPolicy": "Always"}}, cpu=2, memory="4Gi", gpu=0.5,
        priority=3, restart="OnFailure", deadline="1h30m", keep=2, framework="sklearn",
        env={"A": 1, "B": {"secret": "s", "key": "k"}}, more={"backoffLimit": 1},
    ) == {
        "command": ["python", "fit.py", "--fast"],
        "hyperparameters": {"rate": 0.5},
        "dataset": {"s3": {"bucket": "flowers", "prefix": "iris/2024", "secret": "bucket"}},
        "replicaSpecs": {"Chief": {"replicas": 1}, "Worker": {"replicas": 2, "restartPolicy": "Always"}},
        "resources": {"cpu": "2", "memory": "4Gi"},
        "gpu": 0.5,
        "priority": 3,
        "restartPolicy": "OnFailure",
        "activeDeadlineSeconds": 5400,
        "retention": {"checkpoints": 2},
        "frameworkType": "sklearn",
        "env": [
            {"name": "A", "value": "1"},
            {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        ],
        "backoffLimit": 1,
    }  # fmt: skip
    assert spec_of(replicas=3, deadline=0.2) == {"replicas": 3, "activeDeadlineSeconds": 1}


def test_datasets_are_told_by_how_they_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert dataset_of("data") == {"path": str(tmp_path / "data")}
    assert dataset_of(Path("/data")) == {"path": "/data"}
    assert dataset_of("https://x.org/d.tgz", sha256="9f") == {"http": {"url": "https://x.org/d.tgz", "sha256sum": "9f"}}
    assert dataset_of({"path": "/x"}) == {"path": "/x"}
    for given, more, says in (
        ("data", {"sha256": "9f"}, "http"),
        ("https://x.org/d", {"secret": "s"}, "bucket"),
        ("ftp://x.org/d", {}, "'ftp' is not a valid scheme"),
    ):
        with pytest.raises(errors.Invalid, match=says):
            dataset_of(given, **more)


@pytest.mark.parametrize("text", ["", "2", "h", "1h 30m", "1x"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(errors.Invalid, match="is not a valid duration"):
        spec_of(deadline=text)


def test_code_is_registered_trained_waited_for_and_served(control: Harness, plane: mizzen.Plane) -> None:
    job = plane.model("iris").train(code=code(control), params={"rate": 0.5})
    seen = Training(control, job.id)
    assert (job.model, job.version, job.state, job.progress, job.checkpoints) == ("iris", "1", "Created", {}, [])
    assert seen.spec() == {"modelName": "iris", "version": "1", "hyperparameters": {"rate": 0.5}}
    with pytest.raises(errors.Conflict, match="has no checkpoint to serve"):
        job.serve()
    seen.print("first\n")
    seen.report(1, 2, loss=0.5)
    seen.become("Running")
    looks: list[str] = []

    def look(now: Any) -> None:
        looks.append(now["state"])
        if len(looks) == 2:
            seen.become("Succeeded", completionTime=ENDED)

    assert job.wait(look=look) is job
    assert looks[0] == "Running"
    assert looks[-1] == "Succeeded"
    assert job.progress["metrics"] == {"loss": 0.5}
    assert "".join(job.logs()) == "[worker-0] first\n"
    first, second = seen.save("a.joblib", step=1), seen.save("b.joblib", "other", step=2, loss=0.25)
    assert [each["checkpoint_id"] for each in job.checkpoints] == [second, first]
    server = plane.run(plane.calls.serve_job(job._ref))
    assert plane.get("InferenceModel", server)["spec"]["checkpoint"] == second
    folder = job.fetch(first, control.folder / "fetched")
    assert (folder / "a.joblib").read_text() == "weights"
    with pytest.raises(errors.AlreadyExists, match="already exists"):
        job.fetch(first, folder)


def test_the_newest_version_is_trained_unless_another_is_named(control: Harness, plane: mizzen.Plane) -> None:
    model = plane.model("iris")
    with pytest.raises(errors.NotFound):
        model.train()
    model.create()
    with pytest.raises(errors.NotFound, match="no version to train"):
        model.train()
    for name in ("10", "9"):
        plane.run(plane.calls.add_version("iris", code(control), version=name, training=True))
    assert (model.train().version, model.train(10).version) == ("9", "10"), "it was made last"
    assert [job.version for job in plane.jobs("iris", 9)] == ["9"]
    with pytest.raises(errors.Invalid, match="give code or a version"):
        model.train(9, code=code(control))


def test_a_job_that_failed_says_why_with_its_last_words(control: Harness, plane: mizzen.Plane) -> None:
    job = plane.model("iris").train(code=code(control))
    seen = Training(control, job.id)
    seen.print("".join(f"line {number}\n" for number in range(30)))
    seen.become("Failed", "ReplicaFailed", "worker-0 ended with exit code 1", completionTime=ENDED)
    with pytest.raises(mizzen.TrainingFailed, match="failed: ReplicaFailed: worker-0 ended with exit code 1") as caught:
        job.wait()
    assert "| [worker-0] line 29" in caught.value.message
    assert "line 14\n" not in caught.value.message
    assert f"mizzen train logs {job.id}" in caught.value.hint


def test_the_last_lines_are_those_of_the_replica_that_failed_and_told_once(
    control: Harness, plane: mizzen.Plane
) -> None:
    job = plane.model("iris").train(code=code(control))
    seen = Training(control, job.id)
    seen.print("KeyError: 'colour'\n")
    seen.print("goes on\n", replica="worker-1")
    seen.fail("KeyError: 'colour'\n")
    seen.become(
        "Failed", "ReplicaFailed", "worker-0 ended with code 1", completionTime=ENDED,
        replicaStates=[{"name": "worker-0", "state": "failed", "exitCode": 1}],
    )  # fmt: skip
    with pytest.raises(mizzen.TrainingFailed) as caught:
        job.wait()
    assert caught.value.message.endswith("ended with code 1\nits log ends:\n  | KeyError: 'colour'")


def test_waiting_has_an_end_and_the_job_goes_on(control: Harness, plane: mizzen.Plane) -> None:
    job = plane.model("iris").train(code=code(control))
    with pytest.raises(errors.DeadlineExceeded, match="it keeps running"):
        job.wait(timeout=0.05)
    assert job.state == "Created"


def test_jobs_are_stopped_suspended_and_found_again(control: Harness, plane: mizzen.Plane) -> None:
    model = plane.model("iris")
    job, other = model.train(code=code(control)), model.train()
    job.suspend()
    assert Training(control, job.id).spec()["suspend"] is True
    job.resume()
    assert Training(control, job.id).spec()["suspend"] is False
    job.stop(wait=False)
    assert job.describe()["status"]["terminated"]["actor"] == "admin"
    Training(control, job.id).become("Failed", "Terminated")
    with pytest.raises(errors.Conflict):
        job.suspend()
    assert {each.id for each in plane.jobs()} == {other.id}
    assert {each.id for each in plane.jobs(state="failed")} == {job.id}
    assert {each.id for each in plane.jobs("iris", state="all")} == {job.id, other.id}
    assert plane.job(job.id).state == "Failed"
    with pytest.raises(errors.NotFound, match="no job 'nobody'"):
        plane.job("nobody")


def test_what_a_job_left_is_found_when_its_object_is_gone(control: Harness, plane: mizzen.Plane) -> None:
    job = plane.model("iris").train(code=code(control))
    seen = Training(control, job.id)
    kept = seen.save("a.joblib")
    seen.print("told\n")
    plane.run(plane.calls.delete("trainingjobs", job.id))
    control.release(Ref("TrainingJob", job.id))
    again = plane.job(job.id)
    assert (again.version, [each["checkpoint_id"] for each in again.checkpoints]) == ("1", [kept])
    assert "".join(again.logs()) == "[worker-0] told\n"
    with pytest.raises(errors.NotFound):
        again.describe()


def test_the_same_key_starts_one_job(control: Harness, plane: mizzen.Plane) -> None:
    model = plane.model("iris")
    first = model.train(code=code(control), key="tonight")
    assert model.train(key="tonight").id == first.id
    assert len({first.id, model.train().id, model.train().id}) == 3


def test_a_lost_answer_starts_no_second_job(answers: Answers) -> None:
    tries: list[str] = []

    def start(asked: Any) -> tuple[int, Any]:
        tries.append(asked.headers["idempotency-key"])
        return (0, None) if len(tries) < 3 else (201, {"id": "iris-1-abcde", "version": "1"})

    answers.give["POST", "/model/iris/train/1"] = start
    with mizzen.connect(answers.url, "t") as plane:
        assert plane.model("iris").train(1).id == "iris-1-abcde"
    assert len(tries) == 3
    assert len(set(tries)) == 1


def test_a_plane_that_is_away_for_a_while_is_waited_for(answers: Answers) -> None:
    path, states = "/model/iris/train/1/j", ["Running", None, "Succeeded"]

    def show(_asked: Any) -> tuple[int, Any]:
        state = states.pop(0)
        return (200, {"id": "j", "state": state}) if state else (503, {"reason": "ServiceUnavailable"})

    answers.give["GET", path] = show
    with mizzen.connect(answers.url, "t") as plane:
        assert plane.run(plane.calls.wait_job(JobRef("iris", "1", "j")))["state"] == "Succeeded"
    assert states == []


def test_a_log_is_followed_through_a_break_without_a_line_twice(answers: Answers, golden: Golden) -> None:
    """Lines of two replicas, which are merged otherwise the second time; the first time it ends within a line."""
    path = "/model/iris/train/1/j"
    streams = [
        b"[worker-0] a\n[worker-1] x\n[worker-0] b\n",
        b"[worker-1] x\n[worker-1] y\n[worker-0] a\n[worker-0] b\n[worker-0] c\n[worker-0] d",
    ]
    states = ["Running", "Succeeded"]
    answers.give["GET", f"{path}/logs"] = lambda _asked: (200, streams.pop(0))
    answers.give["GET", path] = lambda _asked: (200, {"id": "j", "state": states.pop(0)})
    with mizzen.connect(answers.url, "t") as plane:
        told = plane.iterate(plane.calls.job_logs(JobRef("iris", "1", "j"), follow=True))
        text = "".join(told)
    golden.check(text)


def test_a_part_of_a_log_cannot_be_gone_on_with(answers: Answers) -> None:
    path = "/model/iris/train/1/j"
    answers.give["GET", f"{path}/logs"] = 200, b"[worker-0] a\n"
    answers.give["GET", path] = 200, {"id": "j", "state": "Running"}
    with mizzen.connect(answers.url, "t") as plane, pytest.raises(errors.Unavailable) as caught:
        list(plane.iterate(plane.calls.job_logs(JobRef("iris", "1", "j"), follow=True, tail=3)))
    assert "mizzen train logs j --follow" in caught.value.hint


def test_following_ends_with_the_job(control: Harness, plane: mizzen.Plane) -> None:
    job = plane.model("iris").train(code=code(control))
    seen = Training(control, job.id)
    seen.print("one\n")
    seen.become("Running")
    lines = job.logs(follow=True)
    assert next(lines) == "[worker-0] one\n"
    seen.print("two\n")
    assert next(lines) == "[worker-0] two\n"
    threading.Timer(0.1, lambda: seen.become("Succeeded", completionTime=ENDED)).start()
    assert list(lines) == []


async def _pieces(data: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(data), 1000):
        yield data[at : at + 1000]


@pytest.mark.parametrize("name", ["../out", "/abs", "a/../../out"])
def test_what_leads_out_of_the_folder_is_not_unpacked(tmp_path: Path, name: str) -> None:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        archive.addfile(tarfile.TarInfo(name), io.BytesIO())
    with pytest.raises(errors.Invalid, match="is outside the folder"):
        asyncio.run(tar_extract.extract(_pieces(made.getvalue()), tmp_path / "folder"))
    assert list(tmp_path.iterdir()) == []


def test_links_are_left_out_and_a_cut_is_noticed(tmp_path: Path) -> None:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
        file = tarfile.TarInfo("a/b")
        file.size = 3000
        archive.addfile(file, io.BytesIO(b"x" * 3000))
    folder = asyncio.run(tar_extract.extract(_pieces(made.getvalue()), tmp_path / "folder"))
    assert [str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()] == ["a/b"]
    with pytest.raises(errors.Unavailable, match="truncated"):
        asyncio.run(tar_extract.extract(_pieces(made.getvalue()[:2000]), tmp_path / "other"))


def test_monitors(answers: Answers) -> None:
    ready = [False, True]
    answers.give["POST", "/model/iris/monitor"] = 201, {"url": "u", "tool": "scalars", "ready": False}
    answers.give["GET", "/model/iris/monitor"] = lambda _: (
        200, {"url": "http://x/tool/", "tool": "scalars", "ready": ready.pop(0) if ready else True},
    )  # fmt: skip
    answers.give["POST", "/model/iris/monitor/ticket"] = 201, {"url": "http://x/tool/?ticket=t"}
    answers.give["GET", "/model/iris/monitor/scalars"] = 200, {"tags": ["loss"], "series": [], "live": []}
    answers.give["DELETE", "/model/iris/monitor"] = 200, {"deleted": True}
    with mizzen.connect(answers.url, "t") as plane:
        monitor = plane.model("iris").monitor("scalars")
        assert (monitor.url, monitor.tool, monitor.ticket()) == ("http://x/tool/", "scalars", "http://x/tool/?ticket=t")
        assert monitor.scalars("loss", version=2, points=10)["tags"] == ["loss"]
        monitor.stop()
    assert answers.asked[0].body == {"tool": "scalars"}
    assert next(each.path for each in answers.asked if "scalars?" in each.path).endswith(
        "?tag=loss&version=2&points=10"
    )


def test_reasons_are_found_in_the_condition_of_the_state() -> None:
    job = {
        "state": "Failed",
        "status": {"conditions": [{"type": "Created"}, {"type": "Failed", "reason": "Terminated"}]},
    }
    assert train.state_condition(job)["reason"] == "Terminated"
    assert train.state_condition({"state": "Created"}) == {}
