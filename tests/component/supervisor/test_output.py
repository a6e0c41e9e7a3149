"""The output of processes: none of it is lost with a supervisor or its process, and a flood is bounded."""

from __future__ import annotations

import sys

from mizzen.supervisor.client import ask
from mizzen.supervisor.launch import launch
from mizzen.supervisor.processes.log_rotation import LogRetention
from mizzen.supervisor.protocol import Boot, State
from tests.support import escapes
from tests.support.supervised import Supervised, until

COUNTS = """
import time
number = 0
while True:
    print(number, flush=True)
    number += 1
    time.sleep(0.001)
"""
FLOODS = "import os\nwhile True: os.write(1, (b'y' * 99 + b'\\n') * 1000)"
MANY = "import os\nfor _ in range(200): os.write(1, b'x' * 99 + b'\\n')\n"


def lines(plane: Supervised, key: str) -> list[str]:
    return (plane.home.logs / f"{key}.log").read_text().splitlines()


def test_the_last_words_of_a_process_are_in_its_log_when_its_end_is_known(plane: Supervised) -> None:
    plane.start()
    code = MANY + "os.write(2, b'the end\\n')\nos.kill(os.getpid(), 9)"
    plane.apply(plane.spec("brief", code, restart="never"))
    until(lambda: plane.views()["brief"].state is State.FAILED)
    assert lines(plane, "brief") == ["x" * 99] * 200 + ["the end"]


def test_the_next_supervisor_continues_a_log_without_a_gap(plane: Supervised) -> None:
    plane.start(plane.keeper("keeper"))
    plane.apply(plane.spec("counts", COUNTS))
    until(lambda: len(lines(plane, "counts")) > 100)
    pid = plane.running("counts").pid
    plane.kill()
    until(lambda: plane.running("counts").pid == pid)
    before = len(lines(plane, "counts"))
    until(lambda: len(lines(plane, "counts")) > before + 100)
    *whole, _ = lines(plane, "counts")
    assert whole == [str(number) for number in range(len(whole))]
    plane.note()


def test_a_process_that_floods_its_log_delays_no_other(plane: Supervised) -> None:
    Boot((), (), 1.0, LogRetention(bytes=100_000, files=2)).write(plane.home.boot)
    launch(plane.home, python=sys.executable)
    plane.note()
    for number in range(3):
        plane.apply(plane.spec(f"floods-{number}", FLOODS))
    plane.apply(plane.spec("brief", "print('here')", restart="never"))
    until(lambda: plane.views()["brief"].state is State.FAILED)
    assert lines(plane, "brief") == ["here"]
    until((plane.home.logs / "floods-2.log.2").exists)
    for number in range(3):
        ask(plane.home, "remove", key=f"floods-{number}", grace=0)
    until(lambda: plane.views().keys() == {"brief"})
    for path in plane.home.logs.glob("floods-*"):
        assert path.stat().st_size <= 100_000
    assert all(len(list(plane.home.logs.glob(f"floods-{number}.log*"))) <= 3 for number in range(3))


def test_changed_limits_apply_without_a_restart(plane: Supervised) -> None:
    plane.start()
    view = plane.apply(plane.spec("limited", pids=10, cpu=0.5))
    again = plane.apply(plane.spec("limited", pids=20, cpu=1.0))
    assert (again.pid, again.restarts) == (view.pid, 0)


def test_a_kill_of_what_a_process_left_behind_reaches_all_of_it(plane: Supervised) -> None:
    plane.start()
    word = escapes.new_word()
    code = f"{escapes.ESCAPE}\nescape('{word}')"
    plane.apply(plane.spec("leaves", code, restart="never"))
    until(lambda: plane.views()["leaves"].state is State.FAILED)
    until(lambda: not escapes.sleeping(word))
