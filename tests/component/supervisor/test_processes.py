"""What a supervisor does with its processes, seen from its socket and from the system."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace

import psutil
import pytest

from mizzen.supervisor.client import Refused, SupervisorGone, ask
from mizzen.supervisor.processes import procfs, survivors
from mizzen.supervisor.protocol import ProcessView, State
from tests.support.supervised import IGNORES_TERM, SLEEPS, Supervised, until


def test_what_the_starter_knows_of_planes_is_not_passed_on(plane: Supervised, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIZZEN_TOKEN", "secret")
    monkeypatch.setenv("MIZZEN_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("SOMETHING", "else")
    plane.start(plane.spec("one", "import json, os; print(json.dumps(dict(os.environ)), flush=True); " + SLEEPS))
    environment = json.loads(until(lambda: plane.log("one")))
    assert environment["SOMETHING"] == "else"
    assert {name for name in environment if name.startswith("MIZZEN_")} == {
        "MIZZEN_DATA_DIR", "MIZZEN_RUN_DIR", "MIZZEN_PROCESS_KEY", "MIZZEN_PROCESS_RUN",
    }  # fmt: skip


def test_a_process_runs_with_its_environment_and_writes_its_log(plane: Supervised) -> None:
    code = (
        "import os; print(os.environ['A'], os.environ['MIZZEN_PROCESS_KEY'], os.environ['MIZZEN_DATA_DIR']); " + SLEEPS
    )
    plane.start(plane.spec("one", "import sys; sys.stdout.reconfigure(line_buffering=True); " + code, env={"A": "b"}))
    until(lambda: plane.log("one").strip() == f"b one {plane.home.data_dir}")
    pid = plane.pid("one")
    assert os.getsid(pid) == pid


def test_a_killed_process_is_started_again_and_its_signal_recorded(plane: Supervised) -> None:
    plane.start(plane.spec("one"))
    first = plane.pid("one")
    os.kill(first, signal.SIGKILL)
    view = until(lambda: _restarted(plane, "one", 1))
    assert view.pid != first
    assert view.exit_code == 128 + signal.SIGKILL
    assert view.exit_time is not None


def test_restarts_go_on_with_growing_delays(plane: Supervised) -> None:
    plane.start(plane.spec("one", "raise SystemExit(3)"))
    view = until(lambda: _restarted(plane, "one", 4))
    assert view.exit_code == 3
    assert until(lambda: plane.views()["one"].state is State.WAITING)


def test_exit_78_is_for_good_and_tells_why(plane: Supervised) -> None:
    last_words = plane.home.data_dir / "words"
    code = f"open({str(last_words)!r}, 'w').write('no such model\\n'); raise SystemExit(78)"
    spec = plane.spec("one", code, termination_log=str(last_words))
    plane.start()
    plane.apply(spec)
    view = until(lambda: _in_state(plane, "one", State.FAILED))
    assert (view.exit_code, view.message, view.restarts, view.pid) == (78, "no such model", 0, None)
    assert plane.apply(spec).state is State.FAILED
    assert plane.apply(replace(spec, argv=plane.spec("one").argv)).state is State.RUNNING
    assert plane.running("one").message == ""


def test_restart_never(plane: Supervised) -> None:
    plane.start()
    plane.apply(plane.spec("one", "raise SystemExit(0)", restart="never"))
    view = until(lambda: _in_state(plane, "one", State.FAILED))
    assert (view.exit_code, view.restarts) == (0, 0)


def test_a_command_that_does_not_exist_waits_with_the_reason(plane: Supervised) -> None:
    plane.start()
    plane.apply(replace(plane.spec("one"), argv=("/no/such/program",)))
    view = until(lambda: _in_state(plane, "one", State.WAITING))
    assert view.exit_code == 127
    assert "/no/such/program" in view.message


def test_apply_is_idempotent_and_another_spec_replaces(plane: Supervised) -> None:
    plane.start()
    spec = plane.spec("one")
    first = plane.apply(spec)
    assert plane.apply(spec).pid == first.pid
    other = replace(spec, env={"A": "b"})
    assert plane.apply(other).state is State.STOPPING
    view = until(lambda: _with_fingerprint(plane, "one", other.fingerprint))
    assert view.pid != first.pid
    assert first.pid is not None
    assert procfs.start_of(first.pid) is None


def test_remove(plane: Supervised) -> None:
    plane.start()
    plane.apply(plane.spec("one"))
    pid = plane.pid("one")
    view = ask(plane.home, "remove", key="one")["process"]
    assert view["state"] == "stopping"
    until(lambda: ask(plane.home, "remove", key="one")["process"] is None)
    assert procfs.start_of(pid) is None
    assert list(plane.home.processes.iterdir()) == []


def test_applied_again_while_it_stops_it_comes_back(plane: Supervised) -> None:
    plane.start()
    spec = plane.spec("one")
    first = plane.apply(spec)
    ask(plane.home, "remove", key="one")
    assert plane.apply(spec).state in (State.STOPPING, State.RUNNING)
    assert until(lambda: _other_pid(plane, "one", first.pid)).state is State.RUNNING


@pytest.mark.parametrize(("grace", "given"), [(0.1, {}), (600, {"grace": 0.1})])
def test_what_ignores_term_is_killed_after_its_grace(plane: Supervised, grace: float, given: dict[str, float]) -> None:
    plane.start()
    plane.apply(plane.spec("one", IGNORES_TERM, grace=grace))
    until(lambda: plane.log("one"))
    ask(plane.home, "remove", key="one", **given)
    until(lambda: "one" not in plane.views())


def test_faulty_requests_are_refused_with_the_reason(plane: Supervised) -> None:
    plane.start()
    with pytest.raises(Refused, match="not a valid key"):
        ask(plane.home, "apply", process={"key": "../x", "argv": ["true"], "log": "x"})
    with pytest.raises(Refused, match="no field colour"):
        ask(plane.home, "apply", process={"key": "x", "colour": 1})
    with pytest.raises(Refused, match="dance"):
        ask(plane.home, "dance")
    assert ask(plane.home, "info")["data_dir"] == str(plane.home.data_dir)


def test_stop_leaves_no_process_and_no_socket(plane: Supervised) -> None:
    grandchild = "import subprocess, sys; subprocess.Popen([sys.executable, '-S', '-c', %r]); print(1, flush=True); "
    daemon = "import os, time; os.fork() or (os.setsid(), print(1, flush=True), time.sleep(600)); "
    plane.start(
        plane.spec("plain"),
        plane.spec("family", grandchild % SLEEPS + SLEEPS),
        plane.spec("daemons", daemon + SLEEPS),
        plane.spec("failed", "raise SystemExit(78)"),
    )
    for key in ("family", "daemons"):
        until(lambda key=key: plane.log(key))  # type: ignore[misc]
    until(lambda: _in_state(plane, "failed", State.FAILED))
    before = survivors.find(plane.home)
    assert len(before) == 5
    plane.stop()
    assert [each.pid for each in before if procfs.start_of(each.pid) == each.start] == []
    assert not plane.home.socket.exists()
    assert not plane.home.info.exists()
    assert list(plane.home.processes.iterdir()) == []
    with pytest.raises(SupervisorGone):
        ask(plane.home, "info")


def test_remove_ends_grandchildren_too(plane: Supervised) -> None:
    code = f"import subprocess, sys; subprocess.Popen([sys.executable, '-S', '-c', {SLEEPS!r}]); print(1, flush=True); "
    plane.start()
    plane.apply(plane.spec("one", code + SLEEPS))
    until(lambda: plane.log("one"))
    assert len(survivors.find(plane.home)) == 2
    ask(plane.home, "remove", key="one")
    until(lambda: not survivors.find(plane.home))


def test_stop_kills_what_does_not_listen(plane: Supervised) -> None:
    plane.start(
        plane.spec("gateway-0", IGNORES_TERM, rank=0), plane.spec("plane", IGNORES_TERM, rank=1), stop_timeout=0.1
    )
    until(lambda: plane.log("gateway-0") and plane.log("plane"))
    pids = [plane.pid("gateway-0"), plane.pid("plane")]
    plane.stop()
    assert [pid for pid in pids if procfs.start_of(pid)] == []


def test_lower_ranks_are_stopped_first(plane: Supervised) -> None:
    order = plane.home.data_dir / "order"
    code = (
        "import signal, sys, time, os\n"
        f"def end(*_): open({str(order)!r}, 'a').write(os.environ['MIZZEN_PROCESS_KEY'] + '\\n'); sys.exit()\n"
        "signal.signal(signal.SIGTERM, end); print(1, flush=True); time.sleep(600)"
    )
    plane.start(plane.spec("c", code, rank=2), plane.spec("a", code, rank=0), plane.spec("b", code, rank=1))
    until(lambda: all(plane.log(key) for key in "abc"))
    plane.stop()
    assert order.read_text().split() == ["a", "b", "c"]


def test_a_second_signal_kills_at_once(plane: Supervised) -> None:
    plane.start(plane.spec("one", IGNORES_TERM, grace=60), stop_timeout=60)
    until(lambda: plane.log("one"))
    child, supervisor = plane.pid("one"), plane.note()
    os.kill(supervisor, signal.SIGTERM)
    until(lambda: not plane.home.info.exists())
    assert procfs.start_of(child)
    os.kill(supervisor, signal.SIGTERM)
    until(lambda: procfs.start_of(supervisor) is None)
    assert procfs.start_of(child) is None


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_process_is_there_until_its_last_thread_has_ended() -> None:
    """Its files and locks are, too: who begins when it is gone must find them free."""
    code = "import ctypes, threading, time; threading.Thread(target=time.sleep, args=(600,)).start(); "
    code += "print(1, flush=True); ctypes.CDLL(None).pthread_exit(None)"
    with subprocess.Popen([sys.executable, "-S", "-c", code], stdout=subprocess.PIPE) as process:
        try:
            start = procfs.start_of(process.pid)
            until(lambda: psutil.Process(process.pid).status() == psutil.STATUS_ZOMBIE)
            assert procfs.start_of(process.pid) == start
        finally:
            process.kill()
        until(lambda: procfs.start_of(process.pid) is None)


def test_it_is_small(plane: Supervised) -> None:
    plane.start(plane.spec("one"))
    plane.running("one")
    assert psutil.Process(plane.note()).memory_info().rss < 24 << 20


def _restarted(plane: Supervised, key: str, times: int) -> ProcessView | None:
    view = plane.views()[key]
    return view if view.restarts >= times else None


def _in_state(plane: Supervised, key: str, state: State) -> ProcessView | None:
    view = plane.views().get(key)
    return view if view is not None and view.state is state else None


def _with_fingerprint(plane: Supervised, key: str, fingerprint: str) -> ProcessView | None:
    view = plane.views()[key]
    return view if view.fingerprint == fingerprint and view.state is State.RUNNING else None


def _other_pid(plane: Supervised, key: str, pid: int | None) -> ProcessView | None:
    view = plane.views().get(key)
    return view if view is not None and view.pid not in (None, pid) else None
