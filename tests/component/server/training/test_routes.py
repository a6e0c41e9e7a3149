"""The /model API: job sets."""

from __future__ import annotations

import re
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import pytest

from mizzen.kinds.schema.resource import NAME, format_time
from mizzen.kinds.training import JobProgress, JobReplica, ReplicaCounts
from mizzen.runs import records
from mizzen.runs.records import Exit
from tests.component.server import trained
from tests.component.server.admission.test_decode import causes
from tests.component.server.trained import TRAIN, code, place, report, save, start, tell
from tests.support import planes
from tests.support.server.harness import HERE, Client, Harness


@pytest.fixture
def iris(plane: Harness, admin: Client) -> Client:
    """A client, and a model whose version 1 is code to be trained."""
    code(plane, admin)
    return admin


def conditions(answer: dict[str, Any]) -> dict[str, str]:
    return {each["type"]: each["status"] for each in answer["status"]["conditions"]}


# Starting


def test_each_call_makes_one_more_job_set(iris: Client) -> None:
    answer = iris.post(TRAIN, json={"hyperparameters": {"rate": 0.5}})
    assert answer.status_code == 201, answer.text
    job = answer.json()
    assert re.fullmatch("iris-1-[a-z0-9]{5}", job["id"])
    assert (job["model"], job["version"], job["state"], job["status"]["conditions"]) == ("iris", "1", "Created", [])
    assert answer.headers["location"] == iris.path(f"{TRAIN}/{job['id']}")
    assert iris.get(answer.headers["location"]).json()["id"] == job["id"]
    stored = iris.get(f"{HERE}/trainingjobs/{job['id']}").json()
    assert stored["spec"] == {"hyperparameters": {"rate": 0.5}, "modelName": "iris", "version": "1"}
    assert iris.post(TRAIN, json={"hyperparameters": {"rate": 0.5}}).json()["id"] != job["id"]


def test_nothing_need_be_said(iris: httpx2.Client) -> None:
    assert iris.post("/model/iris/train/v1").status_code == 201
    said = {"modelName": "iris", "version": "v1"}
    assert iris.post(TRAIN, json=said).status_code == 201, "what the path says may be said again"


def test_what_contradicts_the_path_or_makes_no_sense_is_refused_at_once(iris: httpx2.Client) -> None:
    other = iris.post(TRAIN, json={"modelName": "rose", "version": "2"})
    assert (other.status_code, set(causes(other))) == (422, {"modelName", "version"})
    wrong = iris.post(TRAIN, json={"replicas": -1, "comand": ["x"]})
    assert wrong.status_code == 422
    assert "replicas" in causes(wrong)
    assert "comand" in wrong.text
    assert iris.get(f"{TRAIN}?state=all").json()["items"] == []


def test_only_a_version_that_is_there_is_trained(iris: httpx2.Client) -> None:
    assert iris.post("/model/iris/train/2").status_code == 404
    assert iris.post("/model/rose/train/1").status_code == 404
    iris.post(f"{HERE}/models", json={
        "apiVersion": "mizzen.dev/v1alpha1", "kind": "Model", "metadata": {"name": "second"},
        "spec": {"aliasOf": "iris"},
    })  # fmt: skip
    assert iris.post("/model/second/train/1").status_code == 409


def test_a_version_may_have_dots_and_names_stay_names(plane: Harness, iris: httpx2.Client) -> None:
    long = "m" * 60
    for model, version in (("iris", "1.2.3-rc.1"), (long, "2.0")):
        iris.post("/model", json={"name": model})
        made = iris.post(f"/model/{model}/version/{version}", json={"path": plane.file("train.py"), "framework": "x"})
        assert made.status_code == 201, made.text
        job = start(iris, f"/model/{model}/train/{version}")
        assert NAME.fullmatch(job)
        assert iris.get(f"/model/{model}/train/{version}/{job}").json()["version"] == version
    assert job.startswith("mmmm")


# Lists


def test_those_that_go_on_are_listed_and_others_by_state(plane: Harness, iris: httpx2.Client) -> None:
    code(plane, iris)
    ids = {name: start(iris) for name in ("new", "queued", "running", "done", "bad")}
    other = start(iris, "/model/iris/train/2")
    tell(plane, ids["queued"], "Queued")
    tell(plane, ids["running"], "Running")
    tell(plane, ids["done"], "Succeeded")
    tell(plane, ids["bad"], "Failed")

    def listed(query: str = "", path: str = TRAIN) -> set[str]:
        return {item["id"] for item in iris.get(f"{path}{query}").json()["items"]}

    assert listed() == listed("?state=ongoing") == {ids["new"], ids["queued"], ids["running"]}
    assert listed("?state=succeeded") == {ids["done"]}
    assert listed("?state=failed") == {ids["bad"]}
    assert listed("?state=all") == {*ids.values()}
    assert listed("?state=all", "/model/iris/train") == {*ids.values(), other}
    odd = iris.get(f"{TRAIN}?state=finished")
    assert odd.status_code == 400
    assert "succeeded" in odd.text, "the answer names what is possible"
    assert iris.get("/model/iris/train/9").status_code == 404
    assert iris.get("/model/rose/train").status_code == 404


def test_lists_come_in_pages(iris: httpx2.Client) -> None:
    ids = {start(iris) for _ in range(5)}
    found, token, pages = set[str](), "", 0
    while True:
        page = iris.get(TRAIN, params={"limit": 2, "continue": token}).json()
        found |= {item["id"] for item in page["items"]}
        token, pages = page["metadata"]["continue"], pages + 1
        if not token:
            break
    assert (found, pages) == (ids, 3)


# One job set


def test_all_that_is_known_of_one(plane: Harness, iris: httpx2.Client) -> None:
    job = start(iris)
    began = datetime.now(UTC) - timedelta(seconds=100)
    tell(
        plane, job, "Running", "ReplicasRunning", start_time=format_time(began), running_since=format_time(began),
        replicas={"Worker": ReplicaCounts(active=1)},
        replica_states=(JobReplica(name="worker-0", state="running", attempt=2, restarts=2, exit_code=1),),
    )  # fmt: skip
    one, two = save(plane, job, "step-1", step=1, created=1.0), save(plane, job, "step-2", step=2, created=2.0)
    server = iris.post("/model/iris/serve/1", json={"checkpoint_id": one.id}).json()["id"]
    found = iris.get(f"{TRAIN}/{job}").json()
    assert (found["state"], found["reason"], found["message"]) == ("Running", "ReplicasRunning", "in words")
    assert conditions(found) == {"Running": "True"}
    assert found["replicas"] == {"Worker": {"active": 1, "succeeded": 0, "failed": 0}}
    assert [(each["name"], each["state"], each["attempt"]) for each in found["replicaStates"]] == [
        ("worker-0", "running", 2)
    ]
    assert found["startTime"] == format_time(began)
    assert (found["checkpoints"], found["newestCheckpoint"]) == (2, two.id)
    assert found["servers"] == [{"id": server, "checkpoint_id": one.id}]
    assert found["progress"] is None


def test_progress_is_read_live_with_the_time_that_is_left(plane: Harness, iris: httpx2.Client) -> None:
    job = start(iris)
    now = datetime.now(UTC).timestamp()
    tell(plane, job, "Running", start_time=format_time(datetime.fromtimestamp(now - 1000, UTC)))
    report(plane, job, {"step": 30, "total": 100, "metrics": {"loss": 0.25, "odd": float("nan")}, "time": now}, [
        {"step": 1, "time": now - 900}, {"step": 20, "time": now - 500},
        {"step": 10, "time": now - 40}, {"step": 20, "time": now - 20}, {"step": 30, "time": now},
    ])  # fmt: skip
    progress = iris.get(f"{TRAIN}/{job}").json()["progress"]
    assert (progress["step"], progress["total"], progress["fraction"]) == (30, 100, 0.3)
    assert progress["metrics"] == {"loss": 0.25}
    assert progress["eta_seconds"] == pytest.approx(140), "20 steps in 40 seconds since it last began to count"
    tell(plane, job, "Succeeded")
    assert iris.get(f"{TRAIN}/{job}").json()["progress"]["eta_seconds"] is None


def test_lists_tell_how_far_those_are_that_go_on(plane: Harness, iris: httpx2.Client) -> None:
    goes_on, ended, silent = start(iris), start(iris), start(iris)
    for job in (goes_on, ended):
        tell(plane, job, "Running", progress=JobProgress(step=1, total=100))
        report(plane, job, {"step": 30, "total": 100, "metrics": {"loss": 0.25}})
    tell(plane, ended, "Succeeded")
    for path in (TRAIN, "/model/iris/train"):
        shown = {item["id"]: item["progress"] for item in iris.get(f"{path}?state=all").json()["items"]}
        assert (shown[goes_on]["step"], shown[goes_on]["metrics"]) == (30, {"loss": 0.25})
        assert shown[ended]["step"] == 1, "as it was told last"
        assert shown[silent] is None


@pytest.mark.parametrize("sent", [b'{"hyperparameters": {"rate": NaN}}', b'{"hyperparameters": {"rate": -Infinity}}'])
def test_a_number_that_json_does_not_know_is_refused_in_words(iris: httpx2.Client, sent: bytes) -> None:
    answer = iris.post(TRAIN, content=sent, headers={"content-type": "application/json"})
    assert answer.status_code == 400, answer.text
    assert answer.json()["message"].endswith("at 'hyperparameters.rate' is not a JSON number")
    assert iris.get(TRAIN).json()["items"] == []


@pytest.mark.parametrize(
    "content", ["{", "[]", "null", '{"step": "x", "metrics": 3, "time": []}', "", '{"step": 1e999}']
)
def test_what_makes_no_sense_as_progress_spoils_nothing(plane: Harness, iris: httpx2.Client, content: str) -> None:
    job = start(iris)
    report(plane, job, {})
    trained.place(plane, job).replica("worker-0").progress.write_text(content)
    answer = iris.get(f"{TRAIN}/{job}")
    assert answer.status_code == 200
    assert (answer.json()["progress"] or {}).get("step") is None


def test_a_job_set_is_found_below_its_own_model_and_version_only(plane: Harness, iris: httpx2.Client) -> None:
    code(plane, iris)
    code(plane, iris, "rose")
    job = start(iris)
    for path in ("/model/iris/train/2", "/model/rose/train/1"):
        for what in ("", "/checkpoint", "/logs"):
            assert iris.get(f"{path}/{job}{what}").status_code == 404
        assert iris.delete(f"{path}/{job}").status_code == 404
        assert iris.post(f"{path}/{job}/suspend").status_code == 404
    assert iris.get(f"{TRAIN}/{job}").status_code == 200


def test_a_job_set_without_a_version_is_found_too(iris: httpx2.Client) -> None:
    sent = {
        "apiVersion": "mizzen.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": "bare"},
        "spec": {"modelName": "iris", "command": ["true"]},
    }  # fmt: skip
    assert iris.post(f"{HERE}/trainingjobs", json=sent).status_code == 201
    found = iris.get("/model/iris/train/unversioned/bare")
    assert (found.status_code, found.json()["version"]) == (200, None)
    assert iris.get("/model/iris/train/unversioned/bare/checkpoint").json()["items"] == []
    assert [item["id"] for item in iris.get("/model/iris/train/unversioned").json()["items"]] == ["bare"]
    assert [item["id"] for item in iris.get("/model/iris/train").json()["items"]] == ["bare"]
    assert iris.get(f"{TRAIN}/bare").status_code == 404


# Ending


def test_to_end_one_is_a_decision_that_is_taken_once(plane: Harness, iris: httpx2.Client) -> None:
    job = start(iris)
    tell(plane, job, "Running")
    plane.permit("ana-writes", "write", subjects=["ana"], model="iris")
    ana = plane.client(plane.user("ana"))
    ended = ana.delete(f"{TRAIN}/{job}")
    assert ended.status_code == 202
    assert ended.json()["status"]["terminated"]["actor"] == "ana"
    again = iris.delete(f"{TRAIN}/{job}")
    assert (again.status_code, again.json()) == (200, ended.json())
    tell(plane, job, "Failed", "Terminated")
    last = iris.delete(f"{TRAIN}/{job}").json()
    assert (last["state"], last["reason"], last["status"]["terminated"]["actor"]) == ("Failed", "Terminated", "ana")
    entries = iris.get("/model/iris/history").json()["items"]
    told = [
        entry
        for entry in entries
        if entry["object"] == str(plane.ref("TrainingJob", job)) and entry["action"] == "terminated"
    ]
    assert [entry["actor"] for entry in told] == ["ana"]


def test_one_that_ended_is_left_alone(plane: Harness, iris: httpx2.Client) -> None:
    job = start(iris)
    tell(plane, job, "Succeeded")
    before = iris.get(f"{TRAIN}/{job}").json()["status"]
    answer = iris.delete(f"{TRAIN}/{job}?wait=true")
    assert (answer.status_code, answer.json()["status"]) == (200, before)


def test_whoever_waits_is_answered_when_it_has_ended(plane: Harness, iris: httpx2.Client) -> None:
    job = start(iris)
    tell(plane, job, "Running")
    answers: list[httpx2.Response] = []
    waiting = threading.Thread(target=lambda: answers.append(plane.client().delete(f"{TRAIN}/{job}?wait=true")))
    waiting.start()
    planes.wait_until(lambda: "terminated" in iris.get(f"{TRAIN}/{job}").json()["status"], "it is to end")
    assert answers == []
    tell(plane, job, "Failed", "Terminated")
    waiting.join(60)
    assert [(answer.status_code, answer.json()["state"]) for answer in answers] == [(200, "Failed")]


def test_suspended_and_resumed_by_a_change_of_its_spec(plane: Harness, iris: httpx2.Client) -> None:
    job = start(iris)
    tell(plane, job, "Running")

    def spec() -> dict[str, Any]:
        found = iris.get(f"{HERE}/trainingjobs/{job}").json()
        return {"generation": found["metadata"]["generation"], "suspend": found["spec"].get("suspend")}

    assert iris.post(f"{TRAIN}/{job}/resume").status_code == 200
    assert spec() == {"generation": 1, "suspend": None}, "nothing to do"
    assert iris.post(f"{TRAIN}/{job}/suspend").status_code == 200
    assert iris.post(f"{TRAIN}/{job}/suspend").status_code == 200
    assert spec() == {"generation": 2, "suspend": True}
    assert iris.post(f"{TRAIN}/{job}/resume").status_code == 200
    assert spec() == {"generation": 3, "suspend": False}
    iris.delete(f"{TRAIN}/{job}")
    assert iris.post(f"{TRAIN}/{job}/suspend").status_code == 409
    tell(plane, job, "Failed", "Terminated")
    assert iris.post(f"{TRAIN}/{job}/resume").status_code == 409


# Its family


def test_what_is_trained_stays_until_it_is_not(plane: Harness, iris: httpx2.Client) -> None:
    job = start(iris)
    tell(plane, job, "Queued")
    for path in ("/model/iris/version/1", "/model/iris"):
        refused = iris.delete(path)
        assert refused.status_code == 409
        assert job in refused.text
    assert iris.get("/model/iris").json()["jobs"][0]["id"] == job
    tell(plane, job, "Succeeded")
    kept = save(plane, job)
    assert iris.get("/model/iris").json()["jobs"] == []
    assert (iris.get("/model/iris").json()["jobCount"], iris.get("/model/iris").json()["checkpoints"]) == (1, 1)
    told = iris.get("/model/iris/version/1").json()
    assert (told["jobs"], told["checkpoints"], told["newestCheckpoint"]) == ([job], 1, kept.id)
    assert iris.delete("/model/iris/version/1").status_code == 200
    assert trained.saved(plane) == [], "what was saved goes with the version"


def test_a_cascade_ends_job_sets(plane: Harness, iris: httpx2.Client) -> None:
    job = start(iris)
    tell(plane, job, "Running")
    assert iris.delete("/model/iris?cascade=true").status_code == 202
    assert plane.run(plane.store.get(plane.ref("TrainingJob", job))) is not None
    assert iris.post(TRAIN).status_code in (404, 409), "nothing is added to what is going"


def test_the_checkpoints_of_a_model_go_with_it_and_others_stay(plane: Harness, iris: httpx2.Client) -> None:
    code(plane, iris, "rose")
    mine, other = start(iris), start(iris, "/model/rose/train/1")
    save(plane, mine)
    kept = save(plane, other)
    for job in (mine, other):
        tell(plane, job, "Succeeded")
    iris.delete(f"{HERE}/trainingjobs/{mine}")
    plane.release(plane.ref("TrainingJob", mine))
    iris.delete("/model/iris/version/1")
    assert iris.delete("/model/iris").status_code == 200
    assert trained.saved(plane) == [kept]


def test_the_last_lines_are_of_the_replica_that_ended_badly_first(plane: Harness, iris: httpx2.Client) -> None:
    job = start(iris)
    where = place(plane, job)
    ends = (("worker-0", 0, 1, 30.0), ("worker-1", 1, 9, 10.0), ("worker-2", 0, 1, 20.0), ("worker-3", 0, 0, 5.0))
    for name, attempt, code_, ended in ends:
        end = Exit(attempt, code_, ended=ended, last_lines=f"{name} broke" if code_ else "")
        records.write(where.replica(name).exit(attempt), end.to_json())
    running = (JobReplica(name="worker-0", state="running", attempt=1, exit_code=1),)
    tell(plane, job, "Running", replica_states=running)
    assert iris.get(f"{TRAIN}/{job}").json()["lastLines"] is None, "it has been started again"
    states = (
        JobReplica(name="worker-0", state="failed"), JobReplica(name="worker-1", state="failed", attempt=1),
        JobReplica(name="worker-2", state="restarting"), JobReplica(name="worker-3", state="succeeded"),
    )  # fmt: skip
    tell(plane, job, "Failed", replica_states=states)
    assert iris.get(f"{TRAIN}/{job}").json()["lastLines"] == "worker-1 broke"


# Who may


def test_who_may_do_what(plane: Harness, iris: httpx2.Client) -> None:
    job = start(iris)
    stranger = plane.client(None)
    assert stranger.get(f"{TRAIN}/{job}").status_code == 200
    assert stranger.get(f"{TRAIN}/{job}/checkpoint").status_code == 200
    assert stranger.get(f"{TRAIN}/{job}/logs").status_code == 401, "what processes print says too much"
    plane.permit("ana-reads", "read", subjects=["ana"], model="iris")
    ana = plane.client(plane.user("ana"))
    assert ana.get(f"{TRAIN}/{job}/logs").status_code == 200
    records.write(place(plane, job).replica("worker-0").exit(1), Exit(1, 3, last_lines="KeyError").to_json())
    tell(plane, job, "Failed", replica_states=(JobReplica(name="worker-0", state="failed", attempt=1, exit_code=3),))
    assert ana.get(f"{TRAIN}/{job}").json()["lastLines"] == "KeyError"
    assert stranger.get(f"{TRAIN}/{job}").json()["lastLines"] is None
    assert "KeyError" not in stranger.get(f"{TRAIN}/{job}").text
    for client, code_ in ((stranger, 401), (ana, 403)):
        assert client.post(TRAIN).status_code == code_
        assert client.delete(f"{TRAIN}/{job}").status_code == code_
        assert client.post(f"{TRAIN}/{job}/suspend").status_code == code_
        assert client.post(f"{TRAIN}/{job}/resume").status_code == code_
    assert "terminated" not in iris.get(f"{TRAIN}/{job}").json()["status"]
