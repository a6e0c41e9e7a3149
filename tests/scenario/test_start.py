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
    with up(data_dir, *planes.ANY_PORTS) as command:
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
    with up(data_dir, *planes.ANY_PORTS) as command:
        assert command.stdout is not None
        assert any("Try it" in line for line in command.stdout)
        command.kill()
        (supervisor,) = (each for each in planes.members(data_dir) if "mizzen.supervisor" in each.cmdline())
        supervisor.kill()
        planes.wait_until(lambda: planes.members(data_dir) == [], "what was left has ended")


@pytest.mark.parametrize(("flag", "name"), [("--port", "control"), ("--tls-port", "control-tls")])
def test_a_taken_port_has_a_hint(data_dir: Path, flag: str, name: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        done = planes.run_cli(data_dir, "up", *planes.FREE_PORTS, flag, str(port), check=False)
    assert done.returncode == 1
    assert f"port {port} ({name}) is taken by" in done.stderr
    assert f"{flag} 0" in done.stderr
    assert planes.members(data_dir) == []


def test_a_reader_that_leaves_does_not_end_a_detached_start(data_dir: Path) -> None:
    with up(data_dir, *planes.FREE_PORTS) as command:
        assert command.stdout is not None
        command.stdout.readline()
        command.stdout.close()
        assert command.wait(60) == 0
    try:
        assert planes.run_cli(data_dir, "status", check=False).returncode == 0
        again = planes.run_cli(data_dir, "up", *planes.FREE_PORTS, "--gateways", "2")
        assert "--gateways had no effect" in again.stderr
        assert "--port" not in again.stderr
    finally:
        planes.run_cli(data_dir, "down")


def test_what_a_plane_keeps_is_private_in_an_open_data_dir(data_dir: Path) -> None:
    data_dir.mkdir(mode=0o755)
    with planes.running_plane(data_dir, "--demo"):
        others = [path for path in data_dir.iterdir() if not path.is_symlink() and path.stat().st_mode & 0o077]
        assert others == []


def test_the_demo_makes_a_private_data_dir(data_dir: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:  # a start that fails early is enough
        taken = str(holder.getsockname()[1])
        planes.run_cli(data_dir, "up", "--demo", *planes.FREE_PORTS, "--port", taken, check=False)
    assert data_dir.stat().st_mode & 0o777 == 0o700


def test_a_plane_that_does_not_start_says_why_and_what_to_do(data_dir: Path) -> None:
    data_dir.mkdir(mode=0o700)
    (data_dir / "admin-token").write_text("0123456789abcdef0123456789abcdef")
    (data_dir / "admin-token").chmod(0o644)
    done = planes.run_cli(data_dir, "up", *planes.FREE_PORTS, check=False)
    assert done.returncode == 1
    assert "others can read the token" in done.stderr
    assert "hint: chmod 600" in done.stderr


@contextmanager
def up(data_dir: Path, *flags: str) -> Iterator[subprocess.Popen[str]]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MIZZEN_")}
    command = [sys.executable, "-m", "mizzen.cli.main", "up", "--data-dir", str(data_dir), *flags]
    with subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as run:
        try:
            yield run
        finally:
            run.kill()
