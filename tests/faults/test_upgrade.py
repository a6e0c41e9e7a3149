"""An upgrade with runtimes of the older release alive: those it can speak to go on, the others are replaced."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import httpx2
import psutil
import pytest

from tests.support import models, planes, releases

ROW = {"inputs": [{"name": "input", "shape": [1, 4], "datatype": "FP64", "data": [1.0, 2.0, 3.0, 4.0]}]}


def run_older(source: Path, data_dir: Path, *words: str) -> None:
    """The command line as the older release has it; all it starts is of that release, too."""
    environ = {key: value for key, value in os.environ.items() if not key.startswith("MIZZEN_")}
    environ |= {"PYTHONPATH": str(source), "MIZZEN_DATA_DIR": str(data_dir)} | planes.may_write_notes()
    command = [sys.executable, "-P", "-m", "mizzen.cli.main", *words]
    subprocess.run(command, env=environ, cwd=data_dir.parent, check=True, timeout=120)


def kill_all_but_runtimes(data_dir: Path) -> None:
    """As after an upgrade whose plane did not come back: nothing is left that could revive a supervisor.

    The supervisor is stopped first and killed last. It then restarts nothing, and no gateway sees it die: a gateway
    that does starts another supervisor, which looks like that gateway until it calls exec.
    """

    def find(*roles: str) -> list[psutil.Process]:
        found = []
        for process in planes.members(data_dir):
            with contextlib.suppress(psutil.Error):
                key = process.environ().get("MIZZEN_PROCESS_KEY", "supervisor")
                if key.partition("-")[0] in roles:
                    found.append(process)
        return found

    def kill(*roles: str) -> bool:
        for process in (left := find(*roles)):
            with contextlib.suppress(psutil.Error):
                process.kill()
        return not left

    [supervisor] = find("supervisor")
    supervisor.suspend()
    planes.wait_until(lambda: supervisor.status() == psutil.STATUS_STOPPED, "the supervisor is stopped")
    planes.wait_until(lambda: kill("plane", "gateway"), "the plane and its gateways have ended")
    planes.wait_until(lambda: kill("supervisor"), "only runtimes are left")


@pytest.mark.parametrize(("version", "oldest", "stays"), [(3, 2, True), (9, 9, False)])
def test_upgrade(tmp_path: Path, version: int, oldest: int, stays: bool) -> None:
    """Two releases that speak a version in common, whichever of them is the newer; and two that do not."""
    data_dir = tmp_path / "data"
    source = releases.lay_out(tmp_path / "older", version, oldest)
    models.save_weigher(tmp_path / "model.joblib")
    try:
        run_older(source, data_dir, "up", *planes.FREE_PORTS)
        assert "warning: the running plane is Mizzen 0.0.older" in planes.run_cli(data_dir, "up", "--detach").stderr
        run_older(source, data_dir, "deploy", "model.joblib", "--name", "weigher")
        kill_all_but_runtimes(data_dir)
        [before] = [process.pid for process in planes.members(data_dir)]
        with planes.running_plane(data_dir) as plane:

            def answers() -> bool:
                url = f"{plane.inference_url}/v2/models/weigher/infer"
                return httpx2.post(url, json=ROW, timeout=60).status_code == 200

            planes.wait_until(answers, "it is served")
            planes.wait_until(lambda: len(plane.pids("runtime")) == 1, "by one process")
            assert (plane.pids("runtime") == [before]) == stays
            if not stays:
                # Nobody's child any more: it is there as a zombie until its new parent looks.
                planes.wait_until(lambda: not _lives(before), "the old runtime has ended")
    finally:
        planes.end_all(data_dir)


def _lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
