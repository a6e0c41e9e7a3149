"""A plane as systemd runs it: by a stand-in that does what systemd does with the unit, as none runs in a container.

It starts ExecStart with NOTIFY_SOCKET, waits for READY=1 of that process, sends TERM to it (KillMode=mixed), looks at
its exit code, and kills what is left.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest

from tests.support import planes

PORTS = "port = 0\ninference_port = 0\ntls_port = 0\n"


@dataclass(frozen=True, slots=True)
class Systemd:
    unit: dict[str, str]
    process: subprocess.Popen[bytes]
    inbox: socket.socket

    def told(self) -> dict[str, str]:
        """The next word of the service. NotifyAccess=main: of that process alone."""
        message, ancillary, _, _ = self.inbox.recvmsg(4096, socket.CMSG_SPACE(12))
        [(_, _, credentials)] = ancillary
        assert int.from_bytes(credentials[:4], sys.byteorder) == self.process.pid
        return dict(line.partition("=")[::2] for line in message.decode().splitlines())


@contextlib.contextmanager
def started(data_dir: Path) -> Iterator[Systemd]:
    shown = planes.run_cli(data_dir, "service", "install", "--print", "--user").stdout
    unit = dict(line.partition("=")[::2] for line in shown.splitlines() if "=" in line and not line.startswith("#"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as inbox:
        inbox.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        inbox.settimeout(120)
        inbox.bind("")  # the kernel chooses an abstract name, as some systemds do
        environ = {"PATH": os.environ["PATH"], "NOTIFY_SOCKET": "@" + inbox.getsockname()[1:].decode()}
        process = subprocess.Popen(
            shlex.split(unit["ExecStart"]), env=environ, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
        )
        try:
            yield Systemd(unit, process, inbox)
        finally:
            process.kill()
            process.communicate()
            planes.run_cli(data_dir, "down", check=False)
            planes.end_all(data_dir)


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "settings.toml").write_text(PORTS)
    return tmp_path / "data"


def answers(url: str) -> bool:
    with contextlib.suppress(httpx2.HTTPError):
        return httpx2.get(f"{url}/readyz", timeout=10).status_code == 200
    return False


def test_start_and_stop(data_dir: Path) -> None:
    with started(data_dir) as systemd:
        told = systemd.told()
        assert told["READY"] == "1"
        url = told["STATUS"].split()[2].rstrip(",")
        assert answers(url), "it is ready when it says so"
        for member in planes.members(data_dir):
            assert "NOTIFY_SOCKET" not in member.environ(), "nobody else speaks for the service"

        # A killed supervisor is brought back by its children; the service goes on.
        status = planes.run_cli(data_dir, "status", "-o", "json").stdout
        before = {process.pid for process in planes.members(data_dir)}
        os.kill(int(status.split('"supervisor_pid": ')[1].split(",")[0]), signal.SIGKILL)
        planes.wait_until(lambda: len({p.pid for p in planes.members(data_dir)} - before) == 1, "a new supervisor")
        planes.wait_until(lambda: answers(url), "the plane answers")
        assert systemd.process.poll() is None

        systemd.process.send_signal(signal.SIGTERM)
        assert systemd.told() == {"STOPPING": "1"}
        assert systemd.process.wait(60) == 0
        assert planes.members(data_dir) == [], "nothing is left to be killed"


def test_exec_stop(data_dir: Path) -> None:
    with started(data_dir) as systemd:
        assert systemd.told()["READY"] == "1"
        subprocess.run(shlex.split(systemd.unit["ExecStop"]), check=True, env={"PATH": os.environ["PATH"]}, cwd="/")
        assert systemd.process.wait(60) == 0
        assert planes.members(data_dir) == []


def test_its_end_is_the_end_of_all(data_dir: Path) -> None:
    """Restart=on-failure starts it anew: nothing of the old one may be in the way."""
    with started(data_dir) as systemd:
        assert systemd.told()["READY"] == "1"
        systemd.process.send_signal(signal.SIGKILL)
        planes.wait_until(lambda: planes.members(data_dir) == [], "all ends with it")


def test_a_start_that_fails(data_dir: Path) -> None:
    with planes.running_plane(data_dir), started(data_dir) as systemd:
        assert systemd.process.wait(60) == 1, "which systemd sees as failed, and tries again"
        assert planes.members(data_dir), "the plane that ran runs on"
    (data_dir / "settings.toml").write_text("port = 'x'\n")
    began = time.monotonic()
    with contextlib.suppress(AssertionError), started(data_dir) as systemd:
        assert systemd.process.wait(60) == 1
    assert time.monotonic() - began < 60
