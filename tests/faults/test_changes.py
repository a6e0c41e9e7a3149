"""Everything that may change about what is served, one thing after the other, under load: no request fails.

Two gateways, so that what is told to them is told to several.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.support import load, models, planes

SERVERS = "/apis/mizzen.dev/v1alpha1/namespaces/default/inferencemodels"
RATE = 500


class Server:
    """The InferenceModel `weigher-1`, as somebody changes it."""

    def __init__(self, plane: planes.TestPlane, control: httpx2.Client) -> None:
        self.plane = plane
        self.control = control

    def get(self) -> dict[str, Any]:
        answer: dict[str, Any] = self.control.get(f"{SERVERS}/weigher-1").json()
        return answer

    def change(self, **spec: Any) -> None:
        kind = {"content-type": "application/merge-patch+json"}
        answer = self.control.patch(f"{SERVERS}/weigher-1", json={"spec": spec}, headers=kind)
        assert answer.status_code == 200, answer.text

    def ready(self) -> tuple[str, str]:
        """Status and reason, as said of the spec as it is now."""
        found = self.get()
        conditions = found.get("status", {}).get("conditions", ())
        current = (each for each in conditions if each["observedGeneration"] == found["metadata"]["generation"])
        said = next((each for each in current if each["type"] == "Ready"), None)
        return (said["status"], said["reason"]) if said else ("Unknown", "")

    def until_ready(self, replicas: int) -> None:
        def done() -> bool:
            with contextlib.suppress(httpx2.HTTPError):  # of a plane that was killed
                return self.ready()[0] == "True" and len(self.plane.pids("runtime")) == replicas
            return False

        planes.wait_until(done, f"{replicas} replicas of the new spec, and nothing of the old")


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[planes.TestPlane]:
    with planes.running_plane(tmp_path / "data", "--gateways", "2") as running:
        yield running


@pytest.fixture
def server(plane: planes.TestPlane, tmp_path: Path) -> Iterator[Server]:
    models.save_weigher(tmp_path / "model.joblib")
    plane.cli("deploy", "model.joblib", "--name", "weigher", cwd=tmp_path)
    headers = {"authorization": f"Bearer {plane.token()}"}
    with httpx2.Client(base_url=plane.control_url, headers=headers, timeout=30) as control:
        yield Server(plane, control)


def flowing(running: load.Load) -> Callable[[], None]:
    def wait() -> None:
        served = running.report.right
        planes.wait_until(lambda: running.report.right > served + 50, "answers flow")

    return wait


def checked(running: load.Load) -> None:
    report = running.report
    assert report.wrong == []
    assert report.failures == []
    assert report.right == report.sent


def test_a_server_that_changes_fails_no_request(server: Server) -> None:
    with load.steady_load(f"{server.plane.inference_url}/v2/models/weigher/infer", RATE) as running:
        answers = flowing(running)
        answers()
        before = server.plane.pid("runtime")
        server.change(env=[{"name": "MODE", "value": "fast"}])
        server.until_ready(1)
        assert server.plane.pid("runtime") != before
        answers()

        kept = server.plane.pid("runtime")
        server.change(replicas=3)
        server.until_ready(3)
        assert kept in server.plane.pids("runtime"), "only what is missing is started"
        server.change(replicas=1)
        server.until_ready(1)
        assert server.plane.pid("runtime") == kept, "only what is too many is ended"

        # A change upon a change that has not come to its end, and both upon one that never can.
        server.change(frameworkType="onnx")
        planes.wait_until(lambda: server.ready() == ("False", "LoadFailed"), "it says why it stays as it is")
        assert server.get()["status"]["servingVersion"] == "1"
        answers()
        server.change(frameworkType="sklearn", env=[{"name": "MODE", "value": "slow"}])
        server.change(env=[{"name": "MODE", "value": "slower"}], resources={"threads": 1})
        server.until_ready(1)
        answers()
    checked(running)


def test_versions_and_aliases_that_move_fail_no_request(server: Server, tmp_path: Path) -> None:
    plane, control = server.plane, server.control
    control.put("/model/weigher/alias/prod", json={"version": "1"}).raise_for_status()
    alias = f"{plane.inference_url}/v2/models/weigher/versions/prod/infer"
    planes.wait_until(lambda: httpx2.get(alias.replace("/infer", "/ready")).status_code == 200, "the alias answers")
    name = f"{plane.inference_url}/v2/models/weigher/infer"
    with load.steady_load(name, RATE // 2) as by_name, load.steady_load(alias, RATE // 2) as by_alias:
        plane.cli("deploy", "model.joblib", "--name", "weigher", cwd=tmp_path)
        flowing(by_name)()
        control.put("/model/weigher/alias/prod", json={"version": "2"}).raise_for_status()
        flowing(by_alias)()
        plane.cli("rollback", "model/weigher")
        flowing(by_name)()
        control.post("/model/weigher/current", json={"version": "2"}).raise_for_status()
        flowing(by_name)()
        # One server goes over to the other version, and the other one is taken away: nothing of it is left.
        server.change(targetVersion="2")
        server.until_ready(2)
        assert control.delete("/model/weigher/serve/2/weigher-2?wait=true").json() == {
            "id": "weigher-2", "deleted": True,
        }  # fmt: skip
        assert len(plane.pids("runtime")) == 1, "done means that its processes are gone"
        flowing(by_alias)()
    checked(by_name)
    checked(by_alias)


def test_one_of_several_servers_of_a_version_may_go_at_any_time(server: Server) -> None:
    plane, control = server.plane, server.control
    made = control.post("/model/weigher/serve/1", json={})
    assert made.status_code == 201, made.text
    other = made.json()["id"]
    planes.wait_until(lambda: httpx2.get(f"{plane.inference_url}/v2/models/{other}/ready").is_success, "it answers")
    with load.steady_load(f"{plane.inference_url}/v2/models/weigher/infer", RATE) as running:
        answers = flowing(running)
        answers()
        for number in range(2):
            pids = plane.pids("runtime")
            assert len(pids) == 2
            os.kill(pids[number], signal.SIGKILL)
            answers()
            planes.wait_until(lambda: len(plane.pids("runtime")) == 2 and server.ready()[0] == "True", "it is back")
            answers()
        assert control.delete(f"/model/weigher/serve/1/{other}?wait=true").json()["deleted"]
        assert len(plane.pids("runtime")) == 1
        answers()
    checked(running)


def test_the_old_process_ends_when_every_gateway_has_left_it(server: Server) -> None:
    plane = server.plane
    [old, slow] = plane.pid("runtime"), plane.pid("gateway-1")
    os.kill(slow, signal.SIGSTOP)
    try:
        server.change(env=[{"name": "MODE", "value": "fast"}])
        planes.wait_until(lambda: server.ready()[0] == "True", "the new one answers")
        assert old in plane.pids("runtime"), "one gateway still sends there, for all that is known"
    finally:
        os.kill(slow, signal.SIGCONT)
    server.until_ready(1)
    assert old not in plane.pids("runtime")
    # One that is dead is not waited for, and its successor begins with the Table there is.
    os.kill(slow, signal.SIGKILL)
    server.change(env=[{"name": "MODE", "value": "slow"}])
    server.until_ready(1)
    planes.wait_until(lambda: plane.pids("gateway-1"), "it is back")


def test_a_plane_that_is_killed_in_the_middle_of_a_switch_ends_it(server: Server) -> None:
    plane = server.plane
    with load.steady_load(f"{plane.inference_url}/v2/models/weigher/infer", RATE) as running:
        answers = flowing(running)
        for number in range(3):
            answers()
            server.change(env=[{"name": "MODE", "value": f"{number}"}])
            planes.wait_until(lambda: len(plane.pids("runtime")) == 2, "the new one begins")
            os.kill(plane.pid("plane"), signal.SIGKILL)
            server.until_ready(1)
        answers()
    checked(running)
