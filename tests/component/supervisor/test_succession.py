"""What happens when a supervisor is killed: who survives, who brings it back, and who ends it all."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from mizzen.supervisor.client import SupervisorGone, Tether, ask
from mizzen.supervisor.data_dir import read_json, write_json
from mizzen.supervisor.launch import StartFailed, alive, launch, wait_until_settled
from mizzen.supervisor.processes import procfs, survivors
from mizzen.supervisor.protocol import Listener, State
from tests.support.supervised import IGNORES_TERM, KEEPS, SLEEPS, Supervised, until

CONTROL = Listener("control", "127.0.0.1", 0)

ALONE = """
import fcntl, sys, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
file = open(sys.argv[1], "a")
try:
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    print("two", flush=True)
else:
    print("alone", flush=True)
time.sleep(600)
"""


def test_a_killed_supervisor_is_revived_with_the_same_processes(plane: Supervised) -> None:
    plane.start(plane.keeper("plane"), listeners=(CONTROL,))
    plane.apply(plane.spec("runtime"))
    before, first = plane.views(), plane.note()
    address = _address(plane)
    plane.kill()
    until(lambda: alive(plane.home))
    assert plane.note() != first
    assert {key: view.pid for key, view in plane.views().items()} == {key: view.pid for key, view in before.items()}
    assert _address(plane) == address
    with socket.create_connection(address, timeout=60):
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


def test_what_varies_is_known_to_the_next_supervisor(plane: Supervised) -> None:
    plane.start(plane.keeper("plane"), listeners=(CONTROL,))
    says = "import os, time; print(os.environ['WHICH'], flush=True); time.sleep(600)"
    plane.apply(plane.spec("runtime", says, varying={"WHICH": "first"}))
    until(lambda: plane.log("runtime") == "first\n")
    plane.apply(plane.spec("runtime", says, varying={"WHICH": "second"}))
    plane.kill()
    until(lambda: alive(plane.home))
    os.kill(plane.pid("runtime"), signal.SIGKILL)
    until(lambda: plane.log("runtime") == "first\nsecond\n")


def test_of_several_candidates_one_wins(plane: Supervised) -> None:
    plane.start(*(plane.keeper(f"gateway-{number}") for number in range(3)), listeners=(CONTROL,))
    pids = {key: plane.pid(key) for key in plane.views()}
    until(lambda: all(plane.log(key) for key in pids))
    plane.kill()
    until(lambda: alive(plane.home))
    winner = plane.note()
    assert {key: plane.pid(key) for key in plane.views()} == pids
    launch(plane.home, python=sys.executable)  # one more: it finds the winner and leaves
    assert plane.note() == winner


def test_a_stop_on_purpose_is_not_undone(plane: Supervised) -> None:
    deaf = plane.keeper("gateway-0", code=_deaf(KEEPS))
    plane.start(deaf, listeners=(CONTROL,), stop_timeout=0.5)
    until(lambda: plane.log("gateway-0"))
    plane.stop()
    assert survivors.find(plane.home) == []
    assert alive(plane.home) is None


def test_a_stop_whose_supervisor_is_killed_is_finished_by_a_survivor(plane: Supervised) -> None:
    deaf = plane.spec("gateway-0", IGNORES_TERM, rank=0)
    plane.start(deaf, plane.keeper("plane"), listeners=(CONTROL,), stop_timeout=2.0)
    until(lambda: plane.log("plane") and plane.log("gateway-0"))
    supervisor = plane.note()
    os.kill(supervisor, signal.SIGTERM)
    until(lambda: not plane.home.info.exists())
    os.kill(supervisor, signal.SIGKILL)
    until(lambda: not survivors.find(plane.home))
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


@pytest.mark.parametrize("stopped", [False, True])
def test_a_start_without_the_sockets_ends_who_holds_them(plane: Supervised, stopped: bool) -> None:
    boot = plane.keeper("gateway-0", delay=600)
    plane.start(boot, listeners=(CONTROL,))
    plane.apply(plane.spec("runtime"))
    holder, runtime, address = plane.pid("gateway-0"), plane.pid("runtime"), _address(plane)
    until(lambda: plane.log("gateway-0"))
    plane.kill()
    if stopped:
        os.kill(holder, signal.SIGSTOP)
    plane.start(boot, listeners=(CONTROL,))
    assert _address(plane) == address
    assert procfs.start_of(holder) is None
    assert plane.running("gateway-0")
    assert plane.pid("runtime") == runtime
    with socket.create_connection(address, timeout=60):
        pass


def test_a_process_is_started_only_when_a_stray_of_its_key_is_gone(plane: Supervised) -> None:
    argv = (sys.executable, "-S", "-c", ALONE, str(plane.home.data_dir / "file"))
    plane.start(plane.spec("plane", argv=argv), stop_timeout=0.3)
    until(lambda: plane.log("plane"))
    stray = plane.pid("plane")
    plane.kill()
    record = plane.home.processes / "plane.json"
    content = read_json(record)
    content["view"]["start"] = "another boot"
    write_json(record, content)
    launch(plane.home, python=sys.executable)
    until(lambda: len(plane.log("plane").splitlines()) == 2)
    assert plane.log("plane").splitlines() == ["alone", "alone"]
    assert procfs.start_of(stray) is None


def test_survivors_of_a_dead_supervisor_are_ended(plane: Supervised) -> None:
    plane.start(plane.keeper("gateway-0", delay=600), plane.spec("deaf", IGNORES_TERM), listeners=(CONTROL,))
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
    with _tethered(plane):
        pass
    until(lambda: procfs.start_of(supervisor) is None)
    assert procfs.start_of(pid) is None


def test_a_revived_supervisor_remembers_its_tether_and_ends_without_it(plane: Supervised) -> None:
    plane.start(plane.keeper("plane"), listeners=(CONTROL,))
    until(lambda: plane.log("plane"))
    with _tethered(plane):
        plane.kill()
    until(lambda: alive(plane.home))
    plane.note()
    assert ask(plane.home, "info")["tether"] == "awaited"
    assert wait_until_settled(plane.home) is None
    until(lambda: not survivors.find(plane.home))


def test_whoever_knows_of_the_tether_knows_it_all_the_time(plane: Supervised) -> None:
    def told() -> set[str]:
        return {ask(plane.home, "info")["tether"], read_json(plane.home.info)["tether"]}

    assert launch(plane.home, python=sys.executable, tethered=True)
    plane.note()
    assert told() == {"awaited"}
    assert not launch(plane.home, python=sys.executable)
    tether = Tether(plane.home)
    assert told() == {"held"}
    tether.untether()
    assert told() == {"none"}
    tether.close()


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
    assert second.wait(60) == "stopping"
    second.close()
    with pytest.raises(SupervisorGone):
        Tether(plane.home)


HOLDS_TETHER = """
import pathlib, sys, time
from mizzen.supervisor.client import Tether
from mizzen.supervisor.data_dir import Home
tether = Tether(Home.of(pathlib.Path(sys.argv[1])))
print("tethered", flush=True)
time.sleep(600)
"""


@contextmanager
def _tethered(plane: Supervised) -> Iterator[None]:
    """While a process holds a tether; it is killed at the end."""
    command = [sys.executable, "-P", "-c", HOLDS_TETHER, str(plane.home.data_dir)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"tethered\n"
            yield
        finally:
            holder.kill()


def _deaf(code: str) -> str:
    return "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)" + code


def _address(plane: Supervised) -> tuple[str, int]:
    listener = ask(plane.home, "info")["listeners"]["control"]
    return listener["host"], listener["port"]
