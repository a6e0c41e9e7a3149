"""Lasting processes: a stop ends them with all others, or leaves them for the next supervisor."""

from __future__ import annotations

import os
import signal
import sys

import pytest

from mizzen.supervisor.client import Tether, ask
from mizzen.supervisor.launch import alive, launch
from mizzen.supervisor.processes import procfs, survivors
from mizzen.supervisor.protocol import Listener, ProcessSpec, State
from tests.support.supervised import IGNORES_TERM, SLEEPS, Supervised, until

CONTROL = Listener("control", "127.0.0.1", 0)

SAYS_TERM = """
import signal, sys, time
def end(*_):
    print("told", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
print("runs", flush=True)
time.sleep(600)
"""

IN_A_GROUP_OF_ITS_OWN = f"""
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-S", "-c", {SLEEPS!r}], process_group=0, env={{}})
print(child.pid, flush=True)
time.sleep(600)
"""


def lasting(plane: Supervised, code: str = SAYS_TERM, key: str = "runner.0") -> ProcessSpec:
    return plane.spec(key, code, restart="never", lasting=True, rank=2)


def leave(plane: Supervised, *, graceful: bool = True) -> list[str]:
    pid = plane.note()
    left: list[str] = ask(plane.home, "stop", graceful=graceful, leave=True)["left"]
    until(lambda: procfs.start_of(pid) is None)
    return left


@pytest.mark.parametrize("graceful", [True, False])
def test_a_stop_may_leave_them_to_the_next_supervisor(plane: Supervised, graceful: bool) -> None:
    plane.start(plane.spec("plane"))
    plane.apply(lasting(plane))
    plane.apply(plane.spec("runtime"))
    until(lambda: plane.log("runner.0"))
    pid = plane.pid("runner.0")
    assert leave(plane, graceful=graceful) == ["runner.0"]
    assert alive(plane.home) is None
    assert [(each.key, each.pid) for each in survivors.find(plane.home)] == [("runner.0", pid)]
    assert [path.stem for path in plane.home.processes.iterdir()] == ["runner.0"]
    assert not plane.home.leaving.exists()

    launch(plane.home, python=sys.executable)
    plane.note()
    assert plane.pid("runner.0") == pid
    assert set(plane.views()) == {"plane", "runner.0"}
    assert plane.apply(lasting(plane)).pid == pid, "it is what it was"
    plane.stop()
    assert survivors.find(plane.home) == []
    assert plane.log("runner.0") == "runs\ntold\n"


def test_a_stop_that_is_not_asked_to_ends_them(plane: Supervised) -> None:
    plane.start()
    plane.apply(lasting(plane))
    until(lambda: plane.log("runner.0"))
    assert ask(plane.home, "stop") == {"left": []}
    assert survivors.find(plane.home) == []
    assert list(plane.home.processes.iterdir()) == []
    assert plane.log("runner.0") == "runs\ntold\n"


def test_they_are_told_at_once_while_others_still_end(plane: Supervised) -> None:
    plane.start(plane.spec("plane", IGNORES_TERM, rank=0, grace=600), stop_timeout=600)
    plane.apply(lasting(plane))
    until(lambda: plane.log("plane") and plane.log("runner.0"))
    pid = plane.pid("plane")
    os.kill(plane.note(), signal.SIGTERM)
    until(lambda: plane.log("runner.0") == "runs\ntold\n")
    assert procfs.start_of(pid), "although its turn comes first"


def test_what_ended_meanwhile_is_started_once_more_to_say_so(plane: Supervised) -> None:
    plane.start()
    plane.apply(lasting(plane))
    until(lambda: plane.log("runner.0"))
    pid = plane.pid("runner.0")
    leave(plane)
    os.kill(pid, signal.SIGKILL)
    until(lambda: procfs.start_of(pid) is None)
    launch(plane.home, python=sys.executable)
    view = plane.running("runner.0")
    assert (view.restarts, view.exit_code) == (1, None)


def test_only_what_runs_is_left(plane: Supervised) -> None:
    plane.start()
    plane.apply(lasting(plane, "raise SystemExit(3)"))
    plane.apply(lasting(plane, IGNORES_TERM, key="runner.1"))
    until(lambda: plane.views()["runner.0"].state is State.FAILED and plane.log("runner.1"))
    ask(plane.home, "remove", key="runner.1", grace=600)
    assert leave(plane) == []
    assert survivors.find(plane.home) == []
    assert list(plane.home.processes.iterdir()) == []


def test_a_second_stop_that_leaves_nothing_ends_them_too(plane: Supervised) -> None:
    plane.start(plane.spec("plane", IGNORES_TERM, rank=0, grace=600), stop_timeout=600)
    plane.apply(lasting(plane))
    until(lambda: plane.log("plane") and plane.log("runner.0"))
    pid = plane.pid("plane")
    with pytest.raises(Exception, match="did not answer"):
        ask(plane.home, "stop", leave=True, timeout=0.5)
    assert procfs.start_of(plane.pid("runner.0"))
    ask(plane.home, "stop", graceful=False)
    assert procfs.start_of(pid) is None
    assert survivors.find(plane.home) == []


def test_whoever_held_the_tether_follows_a_stop_that_leaves_them(plane: Supervised) -> None:
    plane.start(plane.spec("plane"))
    plane.apply(lasting(plane))
    until(lambda: plane.log("runner.0"))
    tether = Tether(plane.home)
    assert leave(plane) == ["runner.0"]
    assert tether.wait(60) == "stopping"
    tether.close()
    assert [each.key for each in survivors.find(plane.home)] == ["runner.0"]


def test_the_end_of_a_tether_ends_them(plane: Supervised) -> None:
    plane.start(plane.spec("plane"))
    plane.apply(lasting(plane))
    until(lambda: plane.log("runner.0"))
    supervisor = plane.note()
    Tether(plane.home).close()
    until(lambda: procfs.start_of(supervisor) is None)
    assert survivors.find(plane.home) == []


def test_a_stop_that_leaves_them_is_finished_so_by_a_survivor(plane: Supervised) -> None:
    deaf = plane.spec("gateway-0", IGNORES_TERM, rank=0)
    plane.start(deaf, plane.keeper("plane"), listeners=(CONTROL,), stop_timeout=2.0)
    plane.apply(lasting(plane))
    until(lambda: plane.log("plane") and plane.log("gateway-0") and plane.log("runner.0"))
    supervisor, pid = plane.note(), plane.pid("runner.0")
    with pytest.raises(Exception, match="did not answer"):
        ask(plane.home, "stop", leave=True, timeout=0.2)
    os.kill(supervisor, signal.SIGKILL)
    until(lambda: {each.key for each in survivors.find(plane.home)} == {"runner.0"})
    until(lambda: not plane.home.leaving.exists())
    launch(plane.home, python=sys.executable)
    plane.note()
    assert plane.pid("runner.0") == pid


def test_what_was_left_is_ended_without_a_supervisor(plane: Supervised) -> None:
    plane.start(plane.spec("plane"))
    plane.apply(lasting(plane))
    until(lambda: plane.log("runner.0"))
    pid = plane.pid("runner.0")
    leave(plane)
    assert [each.pid for each in survivors.lasting(plane.home)] == [pid]
    assert survivors.end_survivors(plane.home, leave=True) == []
    assert procfs.start_of(pid)
    assert survivors.end_survivors(plane.home) == [f"runner.0 (pid {pid})"]
    assert survivors.lasting(plane.home) == []
    assert plane.log("runner.0") == "runs\ntold\n"


def test_a_process_takes_all_groups_of_its_session_with_it(plane: Supervised) -> None:
    plane.start()
    plane.apply(plane.spec("runner.0", IN_A_GROUP_OF_ITS_OWN, restart="never"))
    child = int(until(lambda: plane.log("runner.0")))
    assert procfs.start_of(child)
    os.kill(plane.pid("runner.0"), signal.SIGKILL)
    until(lambda: procfs.start_of(child) is None)


def test_it_is_in_no_fingerprint_of_those_that_are_not(plane: Supervised) -> None:
    assert "lasting" not in plane.spec("runtime").to_json()
    assert ProcessSpec.from_json(lasting(plane).to_json()) == lasting(plane)
