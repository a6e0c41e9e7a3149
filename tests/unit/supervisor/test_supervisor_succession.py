"""What happens when a supervisor is killed: who survives, who brings it back, and who ends it all."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from dataclasses import replace

import pytest

from mizzen.supervisor import procfs, survivors
from mizzen.supervisor.client import SupervisorGone, Tether, ask
from mizzen.supervisor.home import read_json, write_json
from mizzen.supervisor.launch import StartFailed, alive, launch
from mizzen.supervisor.protocol import Listener, ProcessSpec, State
from tests.support.supervised import IGNORES_TERM, SLEEPS, Supervised, until

CONTROL = Listener("control", "127.0.0.1", 0)

KEEPS = """
import asyncio, json, os, pathlib
from mizzen.supervisor.home import Home
from mizzen.supervisor.revive import keep
print("keeping", flush=True)
home = Home.of(pathlib.Path(os.environ["MIZZEN_DATA_DIR"]))
asyncio.run(keep(home, json.loads(os.environ["MIZZEN_LISTENERS"]), delay=float(os.environ["DELAY"])))
"""


def keeper(plane: Supervised, key: str, delay: float = 0) -> ProcessSpec:
    argv = (sys.executable, "-P", "-c", KEEPS)
    return replace(plane.spec(key), argv=argv, listeners=True, env={"DELAY": str(delay)})


def test_a_killed_supervisor_is_revived_with_the_same_processes(plane: Supervised) -> None:
    plane.start(keeper(plane, "plane"), listeners=(CONTROL,))
    plane.apply(plane.spec("runtime"))
    before, first = plane.views(), plane.note()
    address = _address(plane)
    plane.kill()
    until(lambda: alive(plane.home))
    assert plane.note() != first
    assert {key: view.pid for key, view in plane.views().items()} == {key: view.pid for key, view in before.items()}
    assert _address(plane) == address
    with socket.create_connection(address, timeout=5):
        pass

    adopted = plane.pid("runtime")
    os.kill(adopted, signal.SIGKILL)
    until(lambda: plane.views()["runtime"].restarts == 1)
    view = plane.running("runtime")
    assert view.pid != adopted
    assert view.exit_code is None

    os.kill(plane.pid("plane"), signal.SIGKILL)  # and the reviver, restarted by the second supervisor, revives again
    until(lambda: plane.views()["plane"].restarts == 1)
    plane.kill()
    until(lambda: alive(plane.home))
    assert plane.pid("runtime") == view.pid
    plane.note()
    plane.stop()
    assert survivors.find(plane.home) == []


def test_of_several_candidates_one_wins(plane: Supervised) -> None:
    plane.start(*(keeper(plane, f"gateway-{number}") for number in range(3)), listeners=(CONTROL,))
    pids = {key: plane.pid(key) for key in plane.views()}
    until(lambda: all(plane.log(key) for key in pids))
    plane.kill()
    until(lambda: alive(plane.home))
    winner = plane.note()
    assert {key: plane.pid(key) for key in plane.views()} == pids
    launch(plane.home, python=sys.executable)  # one more: it finds the winner and leaves
    assert plane.note() == winner


def test_a_stop_on_purpose_is_not_undone(plane: Supervised) -> None:
    deaf = replace(keeper(plane, "gateway-0"), argv=(sys.executable, "-P", "-c", _deaf(KEEPS)))
    plane.start(deaf, listeners=(CONTROL,), stop_timeout=0.5)
    until(lambda: plane.log("gateway-0"))
    plane.stop()
    assert survivors.find(plane.home) == []
    assert alive(plane.home) is None


def test_a_revival_that_comes_after_a_stop_does_not_start(plane: Supervised) -> None:
    plane.start(plane.spec("plane"))
    plane.stop()
    with pytest.raises(StartFailed):
        launch(plane.home, python=sys.executable, listeners={})
    assert survivors.find(plane.home) == []


def test_what_died_while_nobody_looked_is_started_again(plane: Supervised) -> None:
    plane.start(plane.spec("plane"))
    plane.apply(plane.spec("runtime"))
    plane.apply(plane.spec("failed", "raise SystemExit(78)"))
    until(lambda: plane.views()["failed"].state is State.FAILED)
    pid = plane.pid("runtime")
    plane.kill()
    os.kill(pid, signal.SIGKILL)
    until(lambda: procfs.start_of(pid) is None)
    launch(plane.home, python=sys.executable)
    view = plane.running("runtime")
    assert view.pid != pid
    assert (view.restarts, view.exit_code) == (1, None)
    assert plane.views()["failed"].state is State.FAILED


@pytest.mark.parametrize("survives", [True, False])
def test_a_stop_that_had_begun_is_finished(plane: Supervised, survives: bool) -> None:
    plane.start()
    plane.apply(plane.spec("runtime", IGNORES_TERM, grace=600))
    until(lambda: plane.log("runtime"))
    pid = plane.pid("runtime")
    ask(plane.home, "remove", key="runtime")
    plane.kill()
    if not survives:
        os.kill(pid, signal.SIGKILL)
        until(lambda: procfs.start_of(pid) is None)
    launch(plane.home, python=sys.executable)
    assert [view.state for view in plane.views().values()] == ([State.STOPPING] if survives else [])


def test_a_boot_process_with_another_spec_is_replaced_and_one_without_is_ended(plane: Supervised) -> None:
    plane.start(plane.spec("plane"), plane.spec("gateway-0"), plane.spec("gateway-1"))
    before = {key: plane.pid(key) for key in plane.views()}
    plane.kill()
    plane.start(plane.spec("plane"), plane.spec("gateway-0", env={"NEW": "1"}))
    until(lambda: plane.running("gateway-0").pid != before["gateway-0"])
    until(lambda: procfs.start_of(before["gateway-1"]) is None)
    assert plane.pid("plane") == before["plane"]
    assert set(plane.views()) == {"plane", "gateway-0"}


def test_a_reused_pid_is_not_adopted(plane: Supervised) -> None:
    plane.start()
    plane.apply(plane.spec("runtime"))
    pid = plane.pid("runtime")
    plane.kill()
    stranger = subprocess.Popen([sys.executable, "-S", "-c", SLEEPS])
    try:
        record = plane.home.processes / "runtime.json"
        content = read_json(record)
        content["view"]["pid"] = stranger.pid
        write_json(record, content)
        launch(plane.home, python=sys.executable)
        assert plane.pid("runtime") not in (pid, stranger.pid)
        until(lambda: procfs.start_of(pid) is None)  # of the key, but not the one of the record: a duplicate
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_process_that_was_started_but_not_recorded_is_adopted_by_its_environment(plane: Supervised) -> None:
    grandchild = f"import subprocess, sys; subprocess.Popen([sys.executable, '-S', '-c', {SLEEPS!r}]); "
    plane.start()
    plane.apply(plane.spec("runtime", grandchild + "print(1, flush=True); " + SLEEPS))
    until(lambda: plane.log("runtime"))
    pid = plane.pid("runtime")
    plane.kill()
    record = plane.home.processes / "runtime.json"
    content = read_json(record)
    content["view"] |= {"pid": None, "start": "", "state": "waiting"}
    write_json(record, content)
    launch(plane.home, python=sys.executable)
    assert plane.pid("runtime") == pid
    assert len(survivors.find(plane.home)) == 2


def test_a_survivor_without_a_record_is_ended(plane: Supervised) -> None:
    plane.start()
    plane.apply(plane.spec("runtime"))
    pid = plane.pid("runtime")
    plane.kill()
    (plane.home.processes / "runtime.json").write_text("")
    launch(plane.home, python=sys.executable)
    until(lambda: procfs.start_of(pid) is None)
    assert plane.views() == {}


def test_survivors_of_a_dead_supervisor_are_ended(plane: Supervised) -> None:
    plane.start(keeper(plane, "gateway-0", delay=600), plane.spec("deaf", IGNORES_TERM), listeners=(CONTROL,))
    until(lambda: plane.log("deaf"))
    pids = [plane.pid("gateway-0"), plane.pid("deaf")]
    with pytest.raises(survivors.SupervisorAlive):
        survivors.end_survivors(plane.home)
    plane.kill()
    ended = survivors.end_survivors(plane.home)
    assert sorted(ended) == sorted([f"gateway-0 (pid {pids[0]})", f"deaf (pid {pids[1]})"])
    assert [pid for pid in pids if procfs.start_of(pid)] == []
    assert not plane.home.info.exists()
    assert list(plane.home.processes.iterdir()) == []
    assert survivors.end_survivors(plane.home) == []


def test_the_end_of_a_tether_stops_everything(plane: Supervised) -> None:
    plane.start(plane.spec("plane"))
    pid, supervisor = plane.pid("plane"), plane.note()
    holder = subprocess.Popen(
        [sys.executable, "-P", "-c", HOLDS_TETHER, str(plane.home.data_dir)], stdout=subprocess.PIPE
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"tethered\n"
    finally:
        holder.kill()
        holder.wait()
        if holder.stdout is not None:
            holder.stdout.close()
    until(lambda: procfs.start_of(supervisor) is None)
    assert procfs.start_of(pid) is None


def test_a_tether_can_be_untied_and_tells_of_the_end(plane: Supervised) -> None:
    plane.start(plane.spec("plane"))
    first = Tether(plane.home)
    first.untether()
    first.close()
    second = Tether(plane.home)
    assert second.wait(0) is None
    assert plane.running("plane")
    second.untether()
    plane.stop()
    assert second.wait(5) == "stopping"
    second.close()
    with pytest.raises(SupervisorGone):
        Tether(plane.home)


HOLDS_TETHER = """
import pathlib, sys, time
from mizzen.supervisor.client import Tether
from mizzen.supervisor.home import Home
tether = Tether(Home.of(pathlib.Path(sys.argv[1])))
print("tethered", flush=True)
time.sleep(600)
"""


def _deaf(code: str) -> str:
    return "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)" + code


def _address(plane: Supervised) -> tuple[str, int]:
    listener = ask(plane.home, "info")["listeners"]["control"]
    return listener["host"], listener["port"]
