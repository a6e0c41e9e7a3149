"""Mizzen beside others: what is asked and read, medians and best configurations, figures, tables, and the keeper."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench import procfs
from bench.peers.server import ROOT

# Leaves its parent and its session, as a daemon does, then says who it is.
DAEMON = """
import os, sys
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print(os.getpid(), flush=True)
        import signal; signal.pause()
    os._exit(0)
os.wait()
import signal; signal.pause()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("how", ["input closes", "killed"])
def test_the_keeper_ends_a_daemon_that_left_its_parent(how: str, tmp_path: Path) -> None:
    said = tmp_path / "said"
    with said.open("wb") as output:
        keeper = subprocess.Popen(
            [sys.executable, "-m", "bench.peers.keeper", sys.executable, "-c", DAEMON],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=output,
        )
    try:
        deadline = time.monotonic() + 30
        while not said.read_bytes().endswith(b"\n") and time.monotonic() < deadline:
            time.sleep(0.02)
        daemon = int(said.read_text())
        assert daemon in procfs.tree(keeper.pid, procfs.snapshot())
        if how == "killed":
            keeper.terminate()
        keeper.communicate(timeout=60)
    finally:
        keeper.kill()
        keeper.communicate()
    assert daemon not in procfs.snapshot() or procfs.snapshot()[daemon].state == "Z"
