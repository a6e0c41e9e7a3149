"""Ending and holding a plane, with a real supervisor and processes that only sleep."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mizzen.cli.interrupts import Interrupts
from mizzen.cli.plane import foreground, shutdown
from mizzen.sdk.connection import stop
from mizzen.sdk.connection.tether import KeptTether
from mizzen.supervisor.client import SupervisorGone, ask
from mizzen.supervisor.launch import alive, launch
from mizzen.supervisor.processes import survivors
from mizzen.supervisor.protocol import Listener, ProcessSpec
from tests.support.cli.command import mizzen
from tests.support.golden import Golden
from tests.support.supervised import IGNORES_TERM, Supervised, supervised, until

UID = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[Supervised]:
    with supervised(tmp_path / "data") as running:
        running.start(running.spec("plane"), running.spec("gateway-0"))
        running.running("plane")
        running.running("gateway-0")
        yield running


def nothing_runs(plane: Supervised) -> bool:
    return alive(plane.home) is None and survivors.find(plane.home) == []


def test_stop_says_what_it_ended(plane: Supervised) -> None:
    plane.apply(plane.spec(f"{UID}.0"))
    plane.running(f"{UID}.0")
    assert stop.stop(plane.home) == ["plane", "gateway-0", "supervisor", "1 model process"]
    assert nothing_runs(plane)
    assert stop.stop(plane.home) == []


def test_stop_can_let_what_trains_go_on(plane: Supervised) -> None:
    plane.apply(plane.spec(f"{UID}.0"))
    plane.apply(plane.spec(f"{UID}.1", lasting=True))
    plane.running(f"{UID}.0")
    pid = plane.pid(f"{UID}.1")
    assert stop.stop(plane.home, keep_training=True) == ["plane", "gateway-0", "supervisor", "1 model process"]
    assert stop.trains(plane.home) == [f"{UID}.1"]
    assert stop.stop(plane.home, keep_training=True) == []
    assert stop.stop(plane.home) == [f"{UID}.1 (pid {pid})"]
    assert nothing_runs(plane)


def test_stop_says_how_much_trained(plane: Supervised) -> None:
    plane.apply(plane.spec(f"{UID}.0", lasting=True))
    plane.running(f"{UID}.0")
    assert stop.stop(plane.home) == ["plane", "gateway-0", "supervisor", "1 training process"]


def test_down_says_what_it_left(plane: Supervised, golden: Golden) -> None:
    plane.apply(plane.spec(f"{UID}.0", lasting=True))
    plane.running(f"{UID}.0")
    folder = plane.home.data_dir
    said = mizzen("down", "--keep-training", "--data-dir", ".", cwd=folder)
    golden.check(said.stdout)
    told = json.loads(mizzen("down", "--keep-training", "--data-dir", ".", "-o", "json", cwd=folder).stdout)
    assert told == {"ended": [], "left": ["1 training process"]}
    shown = mizzen("status", "--data-dir", ".", cwd=folder)
    assert shown.returncode != 0
    assert "no plane runs in .; 1 training process left running" in shown.stderr
    assert mizzen("down", "--data-dir", ".", cwd=folder).stdout.startswith(f"stopped {UID}.0 (pid ")
    assert nothing_runs(plane)


def test_a_start_that_fails_ends_nothing_that_trained_before(plane: Supervised) -> None:
    plane.apply(plane.spec(f"{UID}.0", lasting=True))
    plane.running(f"{UID}.0")
    stop.stop(plane.home, keep_training=True)

    def start(*processes: ProcessSpec) -> None:
        with foreground._stop_on_failure(plane.home):
            plane.start(plane.spec("plane"))
            for process in processes:
                plane.apply(process)
                plane.running(process.key)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        start()
    assert alive(plane.home) is None
    assert stop.trains(plane.home) == [f"{UID}.0"]
    stop.stop(plane.home)
    with pytest.raises(ZeroDivisionError):
        start(plane.spec(f"{UID}.0", lasting=True))
    assert nothing_runs(plane), "but what it started itself"


def test_stop_ends_what_a_killed_supervisor_left(plane: Supervised) -> None:
    plane.kill()
    ended = stop.stop(plane.home)
    assert [what.partition(" ")[0] for what in sorted(ended)] == ["gateway-0", "plane"]
    assert nothing_runs(plane)


@pytest.mark.usefixtures("heard_interrupts")
def test_a_second_interrupt_kills(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with supervised(tmp_path / "data") as running:
        running.start(running.spec("plane", IGNORES_TERM, grace=120.0), stop_timeout=120.0)
        until(lambda: "deaf" in running.log("plane"))
        with Interrupts() as interrupts:
            interrupts.collect()
            os.kill(os.getpid(), signal.SIGTERM)
            assert interrupts.received.wait(60)

            def again() -> None:
                until(lambda: not running.home.info.exists())  # the first one is being followed
                os.kill(os.getpid(), signal.SIGINT)

            second = threading.Thread(target=again)
            second.start()
            shutdown.stop(running.home, interrupts)
            second.join()
        assert nothing_runs(running)
    shown = capsys.readouterr().out
    assert "stopping plane" in shown
    assert "stopped in" in shown


def test_before_collecting_an_interrupt_is_an_exception() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), Interrupts():
        os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_tether_ends_the_plane_with_its_process(plane: Supervised) -> None:
    code = (
        "import os, pathlib, sys\nfrom mizzen.sdk.connection.tether import KeptTether\n"
        "from mizzen.supervisor.data_dir import Home\n"
        "tether = KeptTether(Home.of(pathlib.Path(sys.argv[1])))\nos.kill(os.getpid(), 9)\n"
    )
    pid = os.spawnv(os.P_NOWAIT, sys.executable, [sys.executable, "-c", code, str(plane.home.data_dir)])
    os.waitpid(pid, 0)
    until(lambda: nothing_runs(plane))


def test_a_tether_that_is_released_ends_nothing(plane: Supervised) -> None:
    tether = KeptTether(plane.home)
    tether.release()
    assert not tether.ended.is_set()
    assert plane.views().keys() == {"plane", "gateway-0"}


def test_a_tether_holds_on_to_a_revived_supervisor(plane: Supervised) -> None:
    tether = KeptTether(plane.home)
    first = tether._tether
    plane.kill()
    launch(plane.home, python=sys.executable)
    plane.note()
    until(lambda: tether._tether is not first)
    tether.release()
    assert not tether.lost
    assert plane.views().keys() == {"plane", "gateway-0"}


def test_a_tether_is_released_while_the_supervisor_is_being_replaced(tmp_path: Path) -> None:
    with supervised(tmp_path / "data") as running:
        running.start(running.keeper("gateway-0", delay=0.3), listeners=(Listener("control", "127.0.0.1", 0),))
        until(lambda: running.log("gateway-0"))
        tether = KeptTether(running.home)
        running.kill()
        tether.release()
        assert not tether.ended.is_set()
        running.note()
        assert ask(running.home, "info")["tether"] == "none"


@pytest.mark.usefixtures("heard_interrupts")
def test_signals_wait_for_the_end_of_what_must_not_be_interrupted() -> None:
    done = []

    def work() -> None:
        with Interrupts() as interrupts, interrupts.defer():
            os.kill(os.getpid(), signal.SIGINT)
            done.append("all of it")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["all of it"]


def test_a_tether_tells_a_stop(plane: Supervised) -> None:
    tether = KeptTether(plane.home)
    stop.stop(plane.home)
    assert tether.ended.wait(60)
    assert not tether.lost
    with pytest.raises(SupervisorGone):
        KeptTether(plane.home)
