"""Training on a real plane over REST: §E with real processes, checkpoints, logs, several replicas that talk."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx2
import psutil
import pytest

from tests.support import planes
from tests.support.training import Job, Trainer, folder_of

SAVES = """
    import json, os, pathlib
    params = json.loads(os.environ["MIZZEN_PARAMS"])
    print("training with", params, flush=True)
    folder = pathlib.Path(os.environ["MIZZEN_CHECKPOINT_DIR"])
    for step in (1, 2, 3):
        (folder / f".step-{step}").write_text(f"weights of {step}")
        os.rename(folder / f".step-{step}", folder / f"step-{step}")
        pathlib.Path(os.environ["MIZZEN_PROGRESS"]).write_text(
            json.dumps({"step": step, "total": 3, "metrics": {"loss": 1 / step}})
        )
        print("step", step, flush=True)
"""
HANGS = """
    import time
    print("hangs", flush=True)
    while True:
        time.sleep(0.1)
"""
COUNTS = """
    import os, pathlib, sys, time
    folder = pathlib.Path(os.environ["MIZZEN_CHECKPOINT_DIR"])
    tries = len(list(folder.glob("try-*")))
    (folder / f".t{tries}").write_text("")
    os.rename(folder / f".t{tries}", folder / f"try-{tries}")
    print("try", tries, flush=True)
"""
"""Each attempt finds what those before it saved."""


@pytest.fixture
def trainer(plane: planes.TestPlane, request: pytest.FixtureRequest) -> Trainer:
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower())[:40].strip("-")
    return Trainer(plane, name)


def test_code_to_logs_to_checkpoints(trainer: Trainer) -> None:
    job = trainer.script(SAVES, hyperparameters={"rate": 0.5})
    now = job.ended()
    assert now["state"] == "Succeeded", job.why()
    assert job.printed() == ["training with {'rate': 0.5}", "step 1", "step 2", "step 3"]
    assert (now["progress"]["step"], now["progress"]["total"], now["progress"]["metrics"]) == (3, 3, {"loss": 1 / 3})
    kept = job.checkpoints
    assert [each["step"] for each in kept] == [3, 2, 1], "the newest is the first"
    assert all(each["checkpoint_id"].startswith(job.id) and each["sha256"] and each["uri"] for each in kept)
    assert now["status"]["replicas"]["Worker"] == {"active": 0, "succeeded": 1, "failed": 0}
    assert now["status"]["startTime"] <= now["status"]["completionTime"]


def test_every_call_is_a_job_of_its_own_unless_a_key_says_otherwise(trainer: Trainer) -> None:
    version = trainer.version({"train.py": "print('x')"})
    path, key = f"/model/{trainer.model}/train/{version}", {"Idempotency-Key": "k1"}
    first, second = (trainer.got("POST", path, {})["id"] for _ in range(2))
    assert first != second
    keyed = [trainer.got("POST", path, {}, headers=key)["id"] for _ in range(3)]
    assert len({*keyed, first, second}) == 3
    other = trainer.ask("POST", path, {"hyperparameters": {"a": 1}}, headers=key)
    assert other.status_code in (409, 422), "the same key for something else"
    for each in (first, second, keyed[0]):
        Job(trainer, version, each).ended()
    assert trainer.got("GET", path)["items"] == [], "none of them goes on"
    done = trainer.got("GET", f"{path}?state=succeeded")["items"]
    assert {each["id"] for each in done} == {first, second, keyed[0]}
    assert trainer.got("GET", f"{path}?state=failed")["items"] == []
    assert trainer.ask("GET", f"{path}?state=odd").status_code in (400, 422)


@pytest.mark.parametrize(
    ("policy", "ending", "state", "reason", "tries"),
    [
        ("Never", "sys.exit(1)", "Failed", "ReplicaFailed", 1),
        ("Never", "os.kill(os.getpid(), 9)", "Failed", "ReplicaFailed", 1),
        ("OnFailure", "sys.exit(1 if tries < 1 else 0)", "Succeeded", None, 2),
        ("OnFailure", "sys.exit(1)", "Failed", "BackoffLimitExceeded", 2),
        ("ExitCode", "sys.exit(1)", "Failed", "ReplicaFailed", 1),
        ("ExitCode", "os.kill(os.getpid(), 9) if tries < 1 else sys.exit(0)", "Succeeded", None, 2),
        ("ExitCode", "os.kill(os.getpid(), 15) if tries < 1 else sys.exit(0)", "Succeeded", None, 2),
        ("Always", "sys.exit(3 if tries < 1 else 0)", "Succeeded", None, 2),
    ],
)
def test_whether_it_is_tried_again(
    trainer: Trainer, policy: str, ending: str, state: str, reason: str | None, tries: int
) -> None:
    job = trainer.script(COUNTS + f"    {ending}\n", restartPolicy=policy, backoffLimit=1)
    now = job.ended()
    assert now["state"] == state, job.why()
    assert job.printed() == [f"try {number}" for number in range(tries)], "each finds what was saved before it"
    if reason is not None:
        assert job.why()[0] == reason


def test_an_exit_code_is_told_with_the_last_words(trainer: Trainer) -> None:
    job = trainer.script("import sys\nsys.exit('the data is upside down')")
    assert "code 1" in job.why()[1]
    assert "upside down" not in job.why()[1], "what it printed is for those who may read its log"
    assert "upside down" in job.now()["lastLines"]
    killed = trainer.script("import os\nos.kill(os.getpid(), 9)")
    assert "137" in killed.why()[1]


def test_a_deadline_counts_running_time(trainer: Trainer) -> None:
    job = trainer.script(HANGS, activeDeadlineSeconds=2)
    assert job.why()[0] == "DeadlineExceeded"
    assert job.printed() == ["hangs"]
    planes.wait_until(lambda: not planes_of(trainer, job), "none of its processes is left")


def test_it_is_ended_by_who_asks_and_keeps_what_it_made(trainer: Trainer) -> None:
    job = trainer.script(SAVES + "    import time\n    time.sleep(600)\n")
    job.until(lambda now: len(job.checkpoints) == 3, "three checkpoints")
    job.stop()
    assert job.why()[0] == "Terminated"
    assert "step 3" in job.logs()
    assert len(job.checkpoints) == 3
    before = job.until(lambda now: not now["status"]["admitted"], "its share is free for others")
    assert job.stop()["status"] == before["status"], "the second time changes nothing"
    planes.wait_until(lambda: not planes_of(trainer, job), "none of its processes is left")


def test_suspended_it_stops_and_resumed_it_goes_on(trainer: Trainer) -> None:
    job = trainer.script(COUNTS + "    while tries < 1: time.sleep(0.05)\n", activeDeadlineSeconds=100)
    job.wait_for_line("try 0")
    trainer.got("POST", f"{job.path}/suspend")
    now = job.until_state("Suspended")
    true = {each["type"] for each in now["status"]["conditions"] if each["status"] == "True"}
    assert "Running" not in true
    planes.wait_until(lambda: not planes_of(trainer, job), "its process is gone")
    trainer.got("POST", f"{job.path}/resume")
    assert job.ended()["state"] == "Succeeded", job.why()
    assert job.printed() == ["try 0", "try 1"]


def test_it_goes_when_its_time_is_over_and_its_checkpoints_stay(trainer: Trainer) -> None:
    job = trainer.script(SAVES, ttlSecondsAfterFinished=0)
    planes.wait_until(lambda: trainer.ask("GET", job.path).status_code == 404, "the object is gone")
    found = trainer.got("GET", f"{job.path}/checkpoint")["items"]
    assert len(found) == 3


EXCHANGE = """
    import json, os, socket, struct
    import numpy as np
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    own = np.full(4, 10.0 ** rank)                        # the gradient of this process
    if rank == 0:
        with socket.create_server(address) as server:
            total = own.copy()
            others = [server.accept()[0] for _ in range(world - 1)]
            for other in others:
                total += np.frombuffer(other.recv(32, socket.MSG_WAITALL))
            for other in others:
                other.sendall(total.tobytes())
    else:
        while True:
            try:
                master = socket.create_connection(address)
                break
            except ConnectionRefusedError:
                pass
        master.sendall(own.tobytes())
        total = np.frombuffer(master.recv(32, socket.MSG_WAITALL))
    print("sum", total.tolist(), flush=True)
    cluster = json.loads(os.environ["TF_CONFIG"])
    print("task", cluster["task"], flush=True)
    if rank == 0:
        path = os.path.join(os.environ["MIZZEN_CHECKPOINT_DIR"], "total.json")
        json.dump(total.tolist(), open(path, "w"))
"""


def test_two_processes_exchange_what_they_computed(trainer: Trainer) -> None:
    job = trainer.script(EXCHANGE, replicas=2, successPolicy="AllWorkers")
    assert job.ended()["state"] == "Succeeded", job.why()
    lines = job.logs().splitlines()
    assert "[worker-0] sum [11.0, 11.0, 11.0, 11.0]" in lines, "the result depends on both"
    assert "[worker-1] sum [11.0, 11.0, 11.0, 11.0]" in lines
    assert "[worker-1] task {'type': 'worker', 'index': 1}" in lines
    assert job.logs(replica="worker-1").count("[worker-0]") == 0
    assert [each["name"] for each in job.checkpoints] == ["total.json"]


def test_a_chief_that_is_done_ends_the_others(trainer: Trainer) -> None:
    code = """
        import os, time
        from pathlib import Path
        there = Path(os.environ["MIZZEN_CHECKPOINT_DIR"]) / f".{os.environ['MIZZEN_REPLICA']}"
        there.touch()
        print(os.environ["MIZZEN_REPLICA"], flush=True)
        if os.environ["MIZZEN_REPLICA"] == "chief-0":
            while len(list(there.parent.glob(".*-0"))) < 2:
                time.sleep(0.05)
        else:
            time.sleep(600)
    """
    job = trainer.script(code, replicaSpecs={"Chief": {"replicas": 1}, "Worker": {"replicas": 1}})
    now = job.ended()
    assert now["state"] == "Succeeded", job.why()
    assert sorted(job.printed()) == ["chief-0", "worker-0"]
    planes.wait_until(lambda: not planes_of(trainer, job), "the worker is stopped")


def test_one_that_fails_for_good_fails_the_set(trainer: Trainer) -> None:
    code = """
        import os, sys, time
        if os.environ["MIZZEN_REPLICA"] == "worker-1":
            sys.exit(4)
        time.sleep(600)
    """
    job = trainer.script(code, replicas=2)
    reason, message = job.why()
    assert reason == "ReplicaFailed"
    assert "worker-1" in message
    assert "code 4" in message
    planes.wait_until(lambda: not planes_of(trainer, job), "the other one is stopped")


LINGERS = """
    import os, time
    from pathlib import Path
    folder = Path(os.environ["MIZZEN_CHECKPOINT_DIR"])
    me = os.environ["MIZZEN_REPLICA"]
    (folder / f".{me}").touch()
    print(me, flush=True)
    while not (folder / ".worker-1").exists() or (me == "worker-1" and not (folder / ".go").exists()):
        time.sleep(0.05)
    print(me, "ends", flush=True)
"""


@pytest.mark.parametrize("policy", ["Running", "All", "None"])
def test_what_is_left_when_a_set_has_ended(trainer: Trainer, policy: str) -> None:
    job = trainer.script(LINGERS, replicas=2, cleanPodPolicy=policy)
    assert job.ended()["state"] == "Succeeded", job.why()
    if policy == "None":
        assert planes_of(trainer, job), "the other worker goes on"
        (job.place.checkpoints / ".go").touch()
        job.wait_for_line("worker-1 ends")
    planes.wait_until(lambda: not planes_of(trainer, job), "none of its processes is left")
    assert job.ended()["state"] == "Succeeded"
    assert ("worker-1 ends" in job.logs()) == (policy == "None")


def test_code_that_is_gone_is_told(trainer: Trainer) -> None:
    version = trainer.version({"train.py": "print('a file that nobody else has')"})
    found = trainer.got("GET", f"/model/{trainer.model}/version/{version}")
    digest = next(each["digest"] for each in found["artifacts"]).removeprefix("sha256:")
    (trainer.plane.data_dir / "blobs" / "sha256" / digest[:2] / digest).unlink()
    job = trainer.start(version)
    assert job.why()[0] == "CodeUnavailable", job.why()
    assert job.printed() == []


def test_it_is_a_kind_by_two_names_and_goes_when_it_is_deleted(trainer: Trainer, tmp_path: Path) -> None:
    version = trainer.version({"train.py": HANGS})
    file = tmp_path / "job.yaml"
    file.write_text(
        "apiVersion: sedna.io/v1alpha1\nkind: TrainingModel\nmetadata: {name: by-hand}\n"
        f"spec: {{modelName: {trainer.model}, version: '{version}'}}\n"
    )
    trainer.plane.cli("apply", "-f", str(file))
    job = Job(trainer, version, "by-hand")
    job.wait_for_line("hangs")
    trainer.plane.cli("delete", "trainingjob", "by-hand")
    assert trainer.ask("GET", job.path).status_code == 404
    planes.wait_until(lambda: not planes_of(trainer, job), "none of its processes is left")


def test_a_job_that_wants_a_gpu_says_that_there_is_none(trainer: Trainer) -> None:
    job = trainer.script("print(1)", gpu=1)
    now = job.until_state("Queued")
    told = next(each for each in now["status"]["conditions"] if each["type"] == "Queued")
    assert "GPU" in told["message"], told
    job.stop()
    job.ended()


def test_the_best_are_kept_beside_the_newest(trainer: Trainer) -> None:
    code = """
        import json, os, pathlib
        folder = pathlib.Path(os.environ["MIZZEN_CHECKPOINT_DIR"])
        for step, loss in enumerate((0.5, 0.1, 0.4, 0.3, 0.2)):
            (folder / f".step-{step}.meta.json").write_text(json.dumps({"step": step, "metrics": {"loss": loss}}))
            (folder / f".step-{step}").write_text(str(loss))
            os.rename(folder / f".step-{step}", folder / f"step-{step}")
    """
    job = trainer.script(code, retention={"checkpoints": 2, "best": 1, "metric": "loss", "mode": "min"})
    assert job.ended()["state"] == "Succeeded", job.why()
    planes.wait_until(lambda: [each["step"] for each in job.checkpoints] == [4, 3, 1], "the last two, and the best")


def test_jobs_that_do_not_fit_wait_and_say_what_for(trainer: Trainer) -> None:
    version = trainer.version({"train.py": HANGS})
    large = trainer.start(version, resources={"cpu": "2"})
    large.until_state("Running")
    low = trainer.start(version, resources={"cpu": "2"})
    high = trainer.start(version, resources={"cpu": "2"}, priority=5)
    for each in (low, high):
        now = each.until_state("Queued")
        told = next(one for one in now["status"]["conditions"] if one["type"] == "Queued")
        assert large.id in told["message"], told
    never = trainer.start(version, resources={"cpu": "4000"})
    never.until(
        lambda now: any(each["reason"] == "TooLarge" for each in now["status"]["conditions"]),
        "it is told that it never fits",
    )
    ongoing = trainer.got("GET", f"/model/{trainer.model}/train/{version}")["items"]
    assert {each["id"] for each in ongoing} == {large.id, low.id, high.id, never.id}, "who waits is ongoing"
    large.stop()
    high.until_state("Running")
    assert low.state == "Queued"
    for each in (never, low, high):
        each.stop()
        each.ended()


def test_a_dataset_is_there_and_whole_before_the_command(trainer: Trainer, files: str) -> None:
    reads = """
        import os, pathlib
        folder = pathlib.Path(os.environ["MIZZEN_DATASET_DIR"])
        print(sorted((p.name, p.stat().st_size) for p in folder.iterdir()), flush=True)
    """
    version = trainer.version({"train.py": reads})
    folder = folder_of(trainer.plane, "dataset")
    (folder / "rows.csv").write_text("1,2\n")
    by_path = trainer.start(version, dataset={"path": str(folder)})
    by_http = trainer.start(version, dataset={"http": {"url": f"{files}/rows.bin", "sha256sum": SHA_OF_ROWS}})
    wrong = trainer.start(version, dataset={"http": {"url": f"{files}/rows.bin", "sha256sum": "0" * 64}})
    absent = trainer.start(version, dataset={"http": {"url": f"{files}/none", "sha256sum": "0" * 64}})
    nowhere = trainer.start(version, dataset={"path": "/nowhere/at/all"})
    assert by_path.ended()["state"] == "Succeeded", by_path.why()
    assert by_path.printed() == ["[('rows.csv', 4)]"]
    assert by_http.ended()["state"] == "Succeeded", by_http.why()
    assert by_http.printed() == [f"[('rows.bin', {len(ROWS)})]"]
    for job in (wrong, absent, nowhere):
        assert job.why()[0] == "DatasetUnavailable", job.why()
        assert job.printed() == [], "nothing was trained on what is not whole"


ROWS = b"\x00\x01" * 50_000
SHA_OF_ROWS = hashlib.sha256(ROWS).hexdigest()


@pytest.fixture
def files() -> Iterator[str]:
    class Files(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = self.path == "/rows.bin"
            self.send_response(200 if found else 404)
            self.send_header("Content-Length", str(len(ROWS) if found else 0))
            self.end_headers()
            if found:
                self.wfile.write(ROWS)

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Files) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"command": ["no-such-program"]}, "CommandNotFound"),
        ({"command": ["python", "missing.py"]}, "ReplicaFailed"),
    ],
)
def test_what_cannot_be_run_is_told(trainer: Trainer, spec: dict[str, object], reason: str) -> None:
    assert trainer.script("print(1)", **spec).why()[0] == reason


def test_code_that_names_no_command_needs_a_train_py(trainer: Trainer) -> None:
    job = trainer.start(trainer.version({"other.py": "print(1)"}))
    reason, message = job.why()
    assert reason == "NothingToRun"
    assert "train.py" in message


def test_a_failing_import_is_in_log_and_last_lines(trainer: Trainer) -> None:
    job = trainer.script("import no_such_module_of_anybody")
    assert job.why()[0] == "ReplicaFailed"
    assert "no_such_module_of_anybody" in job.now()["lastLines"]
    assert "ModuleNotFoundError" in job.logs()


def test_half_a_checkpoint_is_none(trainer: Trainer) -> None:
    code = """
        import os, pathlib, sys
        folder = pathlib.Path(os.environ["MIZZEN_CHECKPOINT_DIR"])
        (folder / "whole.tmp").write_text("w")
        os.rename(folder / "whole.tmp", folder / "whole")
        (folder / "half").write_text("the first hal")
        (folder / "later.part").write_text("x")
        sys.exit(1)
    """
    job = trainer.script(code)
    assert job.ended()["state"] == "Failed"
    assert [each["name"] for each in job.checkpoints] == ["whole"]


def test_one_without_a_checkpoint_succeeds_and_says_so(trainer: Trainer) -> None:
    job = trainer.script("print('done')")
    now = job.ended()
    assert now["state"] == "Succeeded"
    true = {each["type"] for each in now["status"]["conditions"] if each["status"] == "True"}
    assert "NoCheckpoint" in true
    assert job.checkpoints == []
    refused = trainer.ask("POST", f"/model/{trainer.model}/serve/{job.version}", {})
    assert refused.status_code == 409, refused.text


FITS = """
    import json, os, sys
    import joblib
    from sklearn.dummy import DummyRegressor
    value = json.loads(os.environ["MIZZEN_PARAMS"])["value"]
    model = DummyRegressor(strategy="constant", constant=value).fit([[0.0]], [value])
    folder = os.environ["MIZZEN_CHECKPOINT_DIR"]
    joblib.dump(model, os.path.join(folder, ".m"))
    os.rename(os.path.join(folder, ".m"), os.path.join(folder, "model.joblib"))
"""


def predicted(trainer: Trainer, name: str) -> float:
    body = {"inputs": [{"name": "input", "datatype": "FP64", "shape": [1, 1], "data": [0.0]}]}
    answer = httpx2.post(f"{trainer.plane.inference_url}/v2/models/{name}/infer", json=body, timeout=60)
    assert answer.status_code == 200, answer.text
    return float(answer.json()["outputs"][0]["data"][0])


def served(trainer: Trainer, version: str, **body: object) -> dict[str, str]:
    made: dict[str, str] = trainer.got("POST", f"/model/{trainer.model}/serve/{version}", body)
    path = f"/model/{trainer.model}/serve/{version}/{made['id']}"
    planes.wait_until(lambda: trainer.got("GET", path)["ready"], f"{made['id']} is ready")
    return made


def test_the_newest_checkpoint_is_served_or_the_one_that_is_named(trainer: Trainer) -> None:
    version = trainer.version({"train.py": FITS})
    for value in (1.0, 2.0):
        job = trainer.start(version, hyperparameters={"value": value})
        assert job.ended()["state"] == "Succeeded", job.why()
        if value == 1.0:
            first = job.checkpoints[0]["checkpoint_id"]
    newest = served(trainer, version)
    assert predicted(trainer, newest["id"]) == 2.0
    assert newest["checkpoint_id"] == job.checkpoints[0]["checkpoint_id"]
    named = served(trainer, version, checkpoint_id=first)
    assert predicted(trainer, named["id"]) == 1.0
    path = f"/model/{trainer.model}/serve/{version}"
    assert trainer.ask("POST", path, {"checkpoint_id": "nobody-s"}).status_code == 404
    lineage = job.now()
    assert newest["id"] in json.dumps(lineage), "which server came of it"


def test_what_is_served_outlives_retention(trainer: Trainer) -> None:
    version = trainer.version({"train.py": FITS})
    first = trainer.start(version, hyperparameters={"value": 7.0}, retention={"checkpoints": 1})
    first.ended()
    mine = served(trainer, version)
    second = trainer.start(trainer.version({"train.py": SAVES}), retention={"checkpoints": 1})
    second.ended()
    planes.wait_until(lambda: len(second.checkpoints) == 1, "all but the newest are gone")
    assert second.checkpoints[0]["step"] == 3
    assert predicted(trainer, mine["id"]) == 7.0
    refused = trainer.ask("DELETE", f"{first.path}/checkpoint/{first.checkpoints[0]['checkpoint_id']}")
    assert refused.status_code == 409, "it is served"


def test_logs_are_followed_to_the_end(trainer: Trainer) -> None:
    code = """
        import os, pathlib, sys, time
        print("first", flush=True)
        go = pathlib.Path(os.environ["MIZZEN_CHECKPOINT_DIR"]) / ".go"
        while not go.exists():
            time.sleep(0.05)
        print("last, without an end", end="", flush=True)
        sys.stdout.buffer.write(b"\\xff\\x00\\n")
    """
    job = trainer.script(code)
    job.wait_for_line("first")
    with trainer.http as client, client.stream("GET", f"{job.path}/logs", params={"follow": "true"}) as answer:
        lines = answer.iter_raw()
        assert b"first" in next(lines)
        (job.place.checkpoints / ".go").touch()
        rest = b"".join(lines)
    assert rest == b"[worker-0] last, without an end\xff\x00\n"
    assert job.ended()["state"] == "Succeeded"
    assert job.printed(tail=1) == ["last, without an end\ufffd\x00"]


def test_others_get_neither_logs_nor_jobs_they_may_not_have(trainer: Trainer) -> None:
    job = trainer.script("print('secret')")
    job.ended()
    for path in (f"{job.path}/logs",):
        assert httpx2.get(f"{trainer.plane.control_url}{path}").status_code in (401, 403)
    start = f"{trainer.plane.control_url}/model/{trainer.model}/train/{job.version}"
    assert httpx2.post(start, json={}).status_code in (401, 403)


def planes_of(trainer: Trainer, job: Job) -> list[int]:
    """Pids that work for this job."""
    found = []
    for process in planes.members(trainer.plane.data_dir):
        with contextlib.suppress(psutil.Error):
            if process.environ().get("MIZZEN_JOB") == job.id:
                found.append(process.pid)
    return found
