"""Replicas follow steps of load, down to zero and back, and no request is lost: not when the last replica goes, nor
when the plane is killed while requests wait for the first.

Two gateways, so that what is asked is asked of several.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.support import load, planes, run_folder
from tests.support.caller import COEFFICIENTS

SERVERS = "/apis/mizzen.dev/v1alpha1/namespaces/default/inferencemodels"
QUIET = 2
MODEL = f"""
import time
import numpy


def predict(inputs):
    time.sleep(0.04)
    return inputs["input"] @ numpy.array({COEFFICIENTS})
"""
ROW = {"inputs": [{"name": "input", "datatype": "FP64", "shape": [1, 4], "data": [1, 1, 1, 1]}]}


class Server:
    """The InferenceModel `weigher-1`, which takes 40 ms for each request: 25 a second are the most of one replica."""

    def __init__(self, plane: planes.TestPlane, control: httpx2.Client) -> None:
        self.plane = plane
        self.control = control
        self.url = f"{plane.inference_url}/v2/models/weigher/infer"

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.control.get(f"{SERVERS}/weigher-1").json()
        return dict(found["status"])

    def change(self, **spec: Any) -> None:
        kind = {"content-type": "application/merge-patch+json"}
        answer = self.control.patch(f"{SERVERS}/weigher-1", json={"spec": spec}, headers=kind)
        assert answer.status_code == 200, answer.text

    def desired(self) -> int | None:
        with contextlib.suppress(httpx2.HTTPError):  # of a plane that was killed
            return self.status().get("desiredReplicas")
        return None

    def events(self, reason: str) -> list[str]:
        where = {"fieldSelector": "involvedObject.name=weigher-1"}
        items = self.control.get("/api/v1/namespaces/default/events", params=where).json()["items"]
        return [str(item["message"]) for item in items if item["reason"] == reason]

    def until_asleep(self) -> None:
        planes.wait_until(
            lambda: self.desired() == 0 and not self.plane.pids("runtime"), "no process, since nobody asks"
        )

    def until_running(self, least: int) -> None:
        planes.wait_until(lambda: (self.status().get("readyReplicas") or 0) >= least, f"{least} replicas are ready")


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[planes.TestPlane]:
    with planes.running_plane(tmp_path / "data", "--gateways", "2") as running:
        yield running


@pytest.fixture
def server(plane: planes.TestPlane, tmp_path: Path) -> Iterator[Server]:
    (tmp_path / "slow.py").write_text(MODEL)
    plane.cli("deploy", "slow:predict", "--name", "weigher", cwd=tmp_path)
    headers = {"authorization": f"Bearer {plane.token()}"}
    with httpx2.Client(base_url=plane.control_url, headers=headers, timeout=30) as control:
        made = Server(plane, control)
        made.change(autoScale={"minReplicas": 0, "maxReplicas": 3, "target": 2, "quietSeconds": QUIET})
        yield made


def flowing(running: load.Load, answers: int) -> None:
    served = running.report.right
    planes.wait_until(lambda: running.report.right >= served + answers, "answers flow")


def checked(running: load.Load) -> None:
    report = running.report
    assert report.wrong == []
    assert report.failures == []
    assert report.right == report.sent


def test_steps_of_load_from_zero_and_back_lose_no_request(server: Server) -> None:
    server.until_asleep()
    for _ in range(2):
        with load.steady_load(server.url, 5) as few:
            server.until_running(1)
            flowing(few, 10)
        checked(few)
        with load.steady_load(server.url, 60) as many:
            server.until_running(3)
            flowing(many, 60)
        checked(many)
        assert server.desired() in (1, 2, 3)
        # The next request comes while the last replicas end, or after.
        server.until_asleep()
    told = server.events("Scaled")
    assert any(message.startswith("from 0 to 1") for message in told), told
    assert any(message.endswith(f"no requests for {QUIET} s") for message in told), told


def test_requests_that_come_while_the_last_replica_ends_are_answered(server: Server) -> None:
    """One at a time, at every moment of falling asleep and waking up."""
    codes: list[int] = []
    stop = threading.Event()

    def ask_now_and_then() -> None:
        with httpx2.Client(timeout=70) as client:
            pause = QUIET * 1.2  # a server counts as asked for a second more, and a moment passes until it is told
            while not stop.is_set():
                codes.append(client.post(server.url, json=ROW).status_code)
                stop.wait(pause)
                pause = pause + 0.08 if pause < QUIET * 2.2 else QUIET * 1.2

    with ThreadPoolExecutor(4) as pool:
        asking = [pool.submit(ask_now_and_then) for _ in range(2)]
        planes.wait_until(lambda: len(codes) > 60, "so many were asked", timeout=240)
        stop.set()
    for each in asking:
        each.result()
    assert set(codes) == {200}
    assert any(message.startswith("from 0 to 1") for message in server.events("Scaled")), "it did sleep meanwhile"


def test_a_plane_killed_while_requests_wait_for_the_first_replica(server: Server) -> None:
    server.until_asleep()
    os.kill(server.plane.pid("plane"), signal.SIGKILL)
    with ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(httpx2.post, server.url, json=ROW, timeout=70) for _ in range(8)]
        # And once more, when the plane that was started again is at it.
        planes.wait_until(lambda: server.plane.pids("plane") and server.desired() is not None, "a plane is back")
        os.kill(server.plane.pid("plane"), signal.SIGKILL)
        assert [each.result().status_code for each in waiting] == [200] * 8


def test_a_replica_killed_while_requests_wait_for_it(server: Server) -> None:
    server.until_asleep()
    with ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(httpx2.post, server.url, json=ROW, timeout=70) for _ in range(8)]
        (first,) = planes.wait_until(lambda: server.plane.pids("runtime"), "one is starting")
        os.kill(first, signal.SIGKILL)
        assert [each.result().status_code for each in waiting] == [200] * 8


def test_a_new_version_comes_up_for_what_rests_and_under_load(server: Server, tmp_path: Path) -> None:
    server.until_asleep()
    server.change(env=[{"name": "MODE", "value": "other"}])
    planes.wait_until(lambda: server.status()["servingWorkload"] != "weigher-1.1", "it answered, and took over")
    server.until_asleep()
    with load.steady_load(server.url, 60) as many:
        server.until_running(3)
        before = server.status()["servingWorkload"]
        server.change(env=[{"name": "MODE", "value": "third"}])
        planes.wait_until(lambda: server.status()["servingWorkload"] != before, "the next took over")
        assert (server.status()["readyReplicas"], server.status()["desiredReplicas"]) == (3, 3)
        flowing(many, 60)
    checked(many)


def test_what_is_unloaded_is_not_woken_and_what_is_loaded_may_rest_again(server: Server) -> None:
    server.until_asleep()
    models = f"{server.plane.inference_url}/v2/repository/models/weigher"
    headers = {"authorization": f"Bearer {server.plane.token()}"}
    # Of one that rests: whoever loads it finds it loaded.
    assert httpx2.post(f"{models}/load", headers=headers, timeout=70).status_code == 200
    assert server.plane.pids("runtime")
    assert httpx2.post(f"{models}/unload", headers=headers, timeout=70).status_code == 200
    refused = httpx2.post(server.url, json=ROW, timeout=70)
    assert refused.status_code == 503
    assert (server.plane.pids("runtime"), server.desired()) == ([], None)
    assert httpx2.post(f"{models}/load", headers=headers, timeout=70).status_code == 200
    assert httpx2.post(server.url, json=ROW, timeout=70).status_code == 200
    server.until_asleep()


def test_beyond_the_bound_callers_are_told_when_to_come_again(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "settings.toml").write_text("held_limit = 3\n")
    with planes.running_plane(tmp_path / "data") as plane:
        gate = run_folder.shared("gate") / "gate"
        gate.touch()
        waits = f"import numpy, os\nwhile not os.path.exists({str(gate)!r}):\n    time.sleep(0.01)"
        (tmp_path / "slow.py").write_text(MODEL.replace("import numpy", waits))
        plane.cli("deploy", "slow:predict", "--name", "weigher", cwd=tmp_path)
        with httpx2.Client(
            base_url=plane.control_url, headers={"authorization": f"Bearer {plane.token()}"}, timeout=30
        ) as control:
            server = Server(plane, control)
            server.change(autoScale={"minReplicas": 0, "maxReplicas": 1, "quietSeconds": 1})
            server.until_asleep()
            assert httpx2.get(f"{plane.inference_url}/v2/models/weigher/ready").json() == {
                "name": "weigher", "ready": True, "reason": "scaled to zero",
            }  # fmt: skip
            gate.unlink()
            with ThreadPoolExecutor(8) as pool:
                asked = [pool.submit(httpx2.post, server.url, json=ROW, timeout=70) for _ in range(8)]
                planes.wait_until(lambda: sum(each.done() for each in asked) == 5, "all but those who may wait know")
                gate.touch()
                answers = [each.result() for each in asked]
            codes = sorted(answer.status_code for answer in answers)
            assert codes == [200] * 3 + [503] * 5
            sent_away = next(answer for answer in answers if answer.status_code == 503)
            assert 1 <= int(sent_away.headers["retry-after"]) <= 60
            assert "too many requests already wait for one" in sent_away.json()["error"]


def test_a_replica_that_is_too_many_answers_what_it_has_however_long_that_takes(
    plane: planes.TestPlane, tmp_path: Path
) -> None:
    """Longer than a process gets that is ended for another reason, and of a model that must not be asked twice."""
    (tmp_path / "slow.py").write_text(MODEL.replace("0.04", "15"))
    plane.cli("deploy", "slow:predict", "--name", "weigher", cwd=tmp_path)
    with httpx2.Client(
        base_url=plane.control_url, headers={"authorization": f"Bearer {plane.token()}"}, timeout=30
    ) as control:
        server = Server(plane, control)
        server.change(idempotent=False, replicas=3)
        server.until_running(3)
        with ThreadPoolExecutor(8) as pool:
            answers = [pool.submit(httpx2.post, server.url, json=ROW, timeout=70) for _ in range(3)]
            url = f"{plane.inference_url}/metrics"
            planes.wait_until(lambda: figure(httpx2.get(url).text, "mizzen_calls_in_flight") == 3, "all three work")
            server.change(replicas=1)
            assert [each.result().status_code for each in answers] == [200] * 3


def figure(metrics: str, name: str) -> float:
    return sum(float(line.rpartition(" ")[2]) for line in metrics.splitlines() if line.startswith(f"{name}{{"))
