"""`mizzen up` that is interrupted, refused, or finds something there."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support import planes

MOMENTS = random.Random(8470).sample(range(200, 2000, 50), 5)
"""Milliseconds after the start of the command: before, while and after the plane starts."""


@pytest.fixture
def data_dir(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "data"
    planes.end_all(tmp_path / "data")


@pytest.mark.parametrize("milliseconds", MOMENTS)
def test_an_interrupt_at_any_moment_leaves_nothing(data_dir: Path, milliseconds: int) -> None:
    with up(data_dir, "--port", "0", "--inference-port", "0") as command:
        time.sleep(milliseconds / 1000)  # the moment is what is tested
        command.send_signal(signal.SIGINT)
        command.wait(60)
        planes.wait_until(lambda: planes.members(data_dir) == [], "nothing is left")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_detached_start_that_is_ended_leaves_nothing(data_dir: Path, number: signal.Signals) -> None:
    with up(data_dir, *planes.FREE_PORTS) as command:
        planes.wait_until((data_dir / "run" / "supervisor.lock").exists, "a supervisor is starting")
        command.send_signal(number)
        command.wait(60)
        planes.wait_until(lambda: planes.members(data_dir) == [], "nothing is left")


def test_an_interrupt_leaves_a_plane_alone_that_was_running(data_dir: Path) -> None:
    with planes.running_plane(data_dir) as plane:
        supervisor = plane.status()["supervisor_pid"]
        with up(plane.data_dir) as command:
            time.sleep(MOMENTS[0] / 1000)
            command.send_signal(signal.SIGTERM)
            command.wait(60)
        assert plane.status()["supervisor_pid"] == supervisor


def test_viewer_and_supervisor_killed_together_leave_nothing(data_dir: Path) -> None:
    with up(data_dir, "--port", "0", "--inference-port", "0") as command:
        assert command.stdout is not None
        assert any("Try it" in line for line in command.stdout)
        command.kill()
        (supervisor,) = (each for each in planes.members(data_dir) if "mizzen.supervisor" in each.cmdline())
        supervisor.kill()
        planes.wait_until(lambda: planes.members(data_dir) == [], "what was left has ended")


def test_a_taken_port_has_a_hint(data_dir: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        done = planes.run_cli(data_dir, "up", *planes.FREE_PORTS, "--port", str(port), check=False)
    assert done.returncode == 1
    assert f"port {port} (control) is taken by" in done.stderr
    assert "--port 0" in done.stderr
    assert planes.members(data_dir) == []


@contextmanager
def up(data_dir: Path, *flags: str) -> Iterator[subprocess.Popen[str]]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MIZZEN_")}
    command = [sys.executable, "-m", "mizzen.cli.main", "up", "--data-dir", str(data_dir), *flags]
    with subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as run:
        try:
            yield run
        finally:
            run.kill()
