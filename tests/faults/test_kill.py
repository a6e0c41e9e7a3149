"""kill -9 of every process in turn, under 500 requests a second."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

import httpx2
import psutil
import pytest

from tests.support import load, models, planes


@pytest.fixture
def weigher(plane: planes.TestPlane, tmp_path: Path) -> planes.TestPlane:
    models.save_weigher(tmp_path / "model.joblib")
    plane.cli("deploy", "model.joblib", "--name", "weigher", cwd=tmp_path)
    return plane


@pytest.mark.parametrize("victim", ["plane", "gateway-0", "runtime", "supervisor"])
def test_kill(weigher: planes.TestPlane, victim: str) -> None:
    plane = weigher
    everyone = {process.pid for process in planes.members(plane.data_dir)}
    killed_at = []
    with steady(plane) as running:
        for _ in range(3):
            served = running.report.right
            planes.wait_until(lambda at=served: running.report.right > at + 500, "answers flow")  # type: ignore[misc]
            pid = plane.status()["supervisor_pid"] if victim == "supervisor" else plane.pid(victim)
            killed_at.append(time.monotonic())
            os.kill(pid, signal.SIGKILL)
            planes.wait_until(lambda pid=pid: back(plane, victim, pid), f"{victim} is back")  # type: ignore[misc]
        served = running.report.right
        planes.wait_until(lambda: running.report.right > served + 500, "answers flow again")

    report = running.report
    assert report.wrong == []
    if victim == "gateway-0":
        # Only a request on a connection that the killed process had taken may fail.
        for failure in report.failures:
            assert any(failure.connected <= moment for moment in killed_at), failure
    else:
        assert report.failures == []
    assert report.right + len(report.failures) == report.sent

    if victim == "supervisor":
        now = {process.pid for process in planes.members(plane.data_dir)}
        assert len(everyone - now) == 1, "every process but the supervisor was adopted, none restarted"
    check_state(plane)
    plane.cli("down")
    assert planes.members(plane.data_dir) == []


def test_kill_of_one_of_two_gateways(tmp_path: Path) -> None:
    """They share the listening socket: while one is away, the other takes all new connections."""
    with planes.running_plane(tmp_path / "data", "--gateways", "2") as plane:
        models.save_weigher(tmp_path / "model.joblib")
        plane.cli("deploy", "model.joblib", "--name", "weigher", cwd=tmp_path)
        killed_at = []
        with steady(plane) as running:
            for victim in ("gateway-0", "gateway-1", "gateway-0"):
                served = running.report.right
                planes.wait_until(lambda at=served: running.report.right > at + 500, "answers flow")  # type: ignore[misc]
                pid = plane.pid(victim)
                killed_at.append(time.monotonic())
                os.kill(pid, signal.SIGKILL)
                planes.wait_until(lambda v=victim, p=pid: back(plane, v, p), f"{victim} is back")  # type: ignore[misc]
            served = running.report.right
            planes.wait_until(lambda: running.report.right > served + 500, "answers flow again")
        report = running.report
        assert report.wrong == []
        for failure in report.failures:
            assert any(failure.connected <= moment for moment in killed_at), failure
        assert report.right + len(report.failures) == report.sent


def test_everything_killed_at_once_comes_back_with_up(weigher: planes.TestPlane) -> None:
    plane = weigher
    for process in planes.members(plane.data_dir):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    plane.cli("up", *planes.FREE_PORTS)
    url = f"{plane.inference_url}/v2/models/weigher/ready"
    planes.wait_until(lambda: httpx2.get(url).status_code == 200, "serving again on the same port")
    check_state(plane)


@pytest.mark.parametrize("revivable", [True, False])
def test_up_while_the_supervisor_is_being_brought_back(weigher: planes.TestPlane, revivable: bool) -> None:
    plane = weigher
    supervisor, gateway, runtime = plane.status()["supervisor_pid"], plane.pid("gateway-0"), plane.pid("runtime")
    control = plane.pid("plane")
    for pid in (control,) if revivable else (control, gateway):
        os.kill(pid, signal.SIGSTOP)  # or it might revive before it is dead
    os.kill(supervisor, signal.SIGKILL)
    os.kill(control, signal.SIGKILL)
    plane.cli("up", *planes.FREE_PORTS)
    assert (plane.pid("gateway-0") == gateway) == revivable
    assert plane.pid("runtime") == runtime
    status = plane.status()
    assert (status["control_url"], status["inference_url"]) == (plane.control_url, plane.inference_url)
    url = f"{plane.inference_url}/v2/models/weigher/ready"
    planes.wait_until(lambda: httpx2.get(url).status_code == 200, "serving again on the same port")
    check_state(plane)


def test_down_works_with_supervisor_and_plane_dead(weigher: planes.TestPlane) -> None:
    plane = weigher
    supervisor = plane.status()["supervisor_pid"]
    os.kill(plane.pid("gateway-0"), signal.SIGSTOP)  # a stopped process must be ended, too
    os.kill(supervisor, signal.SIGKILL)
    os.kill(plane.pid("plane"), signal.SIGKILL)
    plane.cli("down")
    assert planes.members(plane.data_dir) == []


def steady(plane: planes.TestPlane) -> contextlib.AbstractContextManager[load.Load]:
    return load.steady_load(f"{plane.inference_url}/v2/models/weigher/infer")


def back(plane: planes.TestPlane, victim: str, old: int) -> bool:
    if victim == "supervisor":
        status = plane.cli("status", "-o", "json", check=False)
        return status.returncode == 0 and plane.status()["supervisor_pid"] not in (old, None)
    pids = plane.pids(victim)
    if len(pids) != 1 or pids[0] == old:
        return False
    with contextlib.suppress(httpx2.HTTPError):
        return httpx2.get(f"{plane.control_url}/readyz").status_code == 200
    return False


def check_state(plane: planes.TestPlane) -> None:
    headers = {"authorization": f"Bearer {plane.token()}"}
    with httpx2.Client(base_url=plane.control_url, headers=headers) as control:
        model = control.get("/model/weigher").json()
        assert model["current"] == "1"
        actions = [
            (entry["object"], entry["action"]) for entry in control.get("/model/weigher/history").json()["items"]
        ]
    assert actions[0] == ("Model/weigher", "created")
    assert ("Model/weigher", "promoted") in actions
    assert ("ModelVersion/weigher.1", "created") in actions
    assert ("InferenceModel/weigher-1", "created") in actions
