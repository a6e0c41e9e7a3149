"""Figures from /proc, on texts that are hard to read and on a real child."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from bench import procfs

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

# Starts a child of its own, burns CPU until it has used 0.3 s, then says so and waits to be ended.
BUSY = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
while time.process_time() < 0.3:
    pass
print(child.pid, flush=True)
input()
child.communicate(b"\\n")
"""


@pytest.fixture
def busy() -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", BUSY],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"BENCH_TEST_MARK": "a b=c"},
    )
    yield process
    process.communicate("\n", timeout=60)


def test_tree_cpu_and_memory_of_a_real_child(busy: subprocess.Popen[str]) -> None:
    assert busy.stdout is not None
    child = int(busy.stdout.readline())
    pids = procfs.tree(busy.pid, procfs.snapshot())
    assert pids == {busy.pid, child}
    assert procfs.cpu_seconds(pids) >= 0.29  # ticks are 10 ms
    memory = procfs.memory(busy.pid)
    assert 1 < memory.pss_mb <= memory.rss_mb
    assert procfs.with_environment("BENCH_TEST_MARK", "a b=c") == pids
    assert procfs.environment(child)["BENCH_TEST_MARK"] == "a b=c"
    assert procfs.command(busy.pid).startswith(sys.executable)


def test_a_process_that_is_gone_has_nothing() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert procfs.tree(process.pid, procfs.snapshot()) == frozenset()
    assert procfs.cpu_seconds([process.pid]) == 0
    assert procfs.memory(process.pid) == procfs.Memory(0, 0)
    assert procfs.environment(process.pid) == {}


def test_a_program_may_have_spaces_and_parentheses_in_its_name() -> None:
    numbers = " ".join(map(str, range(4, 50)))
    stat = procfs.parse_stat(f"7 (a) S (b)) R 3 {numbers}\n")
    assert (stat.pid, stat.parent, stat.state) == (7, 3, "R")
    assert stat.cpu_seconds == (13 + 14 + 15 + 16) / procfs.TICKS


def test_busy_time_leaves_out_idle_and_waiting() -> None:
    assert procfs.parse_busy("cpu  1 2 4 1000 2000 8 16 32 0 0\ncpu0 1\n") == 63 / procfs.TICKS
    assert procfs.busy_seconds() > 0
