"""Processes that a signal has stopped: nobody waits for them without end, and `down` ends everything."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from tests.support import planes
from tests.support.planes import TestPlane


def supervisor_of(data_dir: Path) -> int:
    return int(json.loads((data_dir / "run" / "supervisor.json").read_bytes())["pid"])


@contextmanager
def stopped(*pids: int) -> Iterator[None]:
    try:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
            planes.wait_until(lambda pid=pid: psutil.Process(pid).status() == psutil.STATUS_STOPPED, f"{pid} stops")  # type: ignore[misc]
        yield
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def test_status_names_a_stopped_supervisor(plane: TestPlane) -> None:
    pid = supervisor_of(plane.data_dir)
    with stopped(pid):
        done = plane.cli("status", check=False)
        assert done.returncode == 1
        assert f"the supervisor (pid {pid}) is stopped" in done.stderr
        assert f"kill -CONT {pid}" in done.stderr
        examined = json.loads(plane.cli("doctor", "-o", "json", check=False).stdout)
        assert any(f"(pid {pid}) is stopped" in defect["what"] for defect in examined["defects"])
    assert plane.status()["supervisor_pid"] == pid


def test_status_names_a_stopped_plane_and_gateway(plane: TestPlane) -> None:
    pids = [plane.pid("plane"), plane.pid("gateway-0")]
    with stopped(*pids):
        found = {each["pid"]: each["message"] for each in plane.status()["processes"]}
        for pid in pids:
            assert f"kill -CONT {pid}" in found[pid]
    plane.cli("get", "models")


def test_up_names_a_stopped_plane(plane: TestPlane) -> None:
    pid = plane.pid("plane")
    with stopped(pid):
        done = plane.cli("up", *planes.FREE_PORTS, check=False)
        assert done.returncode == 1
        assert f"plane (pid {pid}) is stopped" in done.stderr


def test_down_continues_a_stopped_supervisor(tmp_path: Path) -> None:
    with planes.running_plane(tmp_path / "data") as plane:
        with stopped(supervisor_of(plane.data_dir)):
            done = plane.cli("down")
        assert "supervisor" in done.stdout
        assert not planes.members(plane.data_dir)


def test_down_ends_everything_when_everything_is_stopped(tmp_path: Path) -> None:
    with planes.running_plane(tmp_path / "data") as plane:
        pids = [process.pid for process in planes.members(plane.data_dir)]
        with stopped(*pids):
            plane.cli("down")
        assert not planes.members(plane.data_dir)


def test_down_ends_a_supervisor_that_never_answers(tmp_path: Path) -> None:
    with planes.running_plane(tmp_path / "data") as plane:
        pid, done = supervisor_of(plane.data_dir), threading.Event()

        def keep_stopping() -> None:
            with suppress(ProcessLookupError):
                while not done.wait(0.0005):
                    os.kill(pid, signal.SIGSTOP)

        thread = threading.Thread(target=keep_stopping)
        thread.start()
        try:
            plane.cli("down")
        finally:
            done.set()
            thread.join()
        assert not planes.members(plane.data_dir)
