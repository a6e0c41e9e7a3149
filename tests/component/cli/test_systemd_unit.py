"""The unit of systemd: what it says, that systemd reads it as it is meant, and who may write and remove it."""

from __future__ import annotations

import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from mizzen.cli.host.systemd_unit import UnitFile
from mizzen.supervisor import systemd_notify


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
@pytest.mark.parametrize("user", [None, "root"])
@pytest.mark.parametrize("name", ["plain", "with space", "100% of $HOME", "a\"quote'and\\more"])
def test_systemd_reads_it(tmp_path: Path, user: str | None, name: str) -> None:
    """It warns of every line that it does not know, and of commands that are not there."""
    command = tmp_path / (name if '"' not in name else "plain") / "mizzen"
    command.parent.mkdir()
    command.write_text("#!/bin/sh\n")
    command.chmod(0o755)
    file = tmp_path / "mizzen-test.service"
    file.write_text(UnitFile((str(command),), tmp_path / name, user).text())
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(file)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("abstract", [False, True])
def test_telling_systemd(tmp_path: Path, abstract: bool) -> None:
    address = f"@{tmp_path}/notify" if abstract else f"{tmp_path}/notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind("\0" + address[1:] if abstract else address)
        systemd_notify.tell("READY=1", "STATUS=here", environ={"NOTIFY_SOCKET": address})
        assert systemd.recv(1000) == b"READY=1\nSTATUS=here"
    systemd_notify.tell("READY=1", environ={"NOTIFY_SOCKET": address})  # gone: no reason to fail
    systemd_notify.tell("READY=1", environ={})
