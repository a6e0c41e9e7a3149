"""The life of an attempt, with real runners and real commands."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from mizzen.runs import records
from tests.support.planes import wait_until
from tests.support.runner.attempts import LIMIT, Attempts

WAITS = """
    import time
    print("begun", flush=True)
    time.sleep(600)
"""


def test_a_command_that_ends_well_leaves_its_lines_and_an_exit_record(attempts: Attempts) -> None:
    ended = attempts.run("print('one'); print('two')")
    assert (ended.code, ended.reason, ended.message, ended.retry) == (0, "", "", False)
    assert ended.started is not None
    assert ended.started <= ended.ended
    assert attempts.printed() == ["[worker-0] one", "[worker-0] two"]


def test_a_log_that_is_kept_in_blobs_is_no_longer_here(attempts: Attempts) -> None:
    attempts.run("print('one')")
    assert not attempts.place().log(0).exists()
    assert not attempts.place().times(0).exists()
    assert attempts.printed() == ["[worker-0] one"]


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ("sys.exit(1)", 1),
        ("os.kill(os.getpid(), signal.SIGKILL)", 137),
        ("os.kill(os.getpid(), signal.SIGTERM)", 143),
        ("os._exit(200)", 200),
    ],
)
def test_how_a_command_ends_is_the_code_of_the_runner_and_of_the_record(
    attempts: Attempts, how: str, code: int
) -> None:
    ended = attempts.run(f"import os, signal, sys; print('last words', flush=True); {how}")
    assert (ended.code, ended.reason, ended.retry) == (code, "", False)
    assert (ended.message, ended.last_lines) == ("", "last words")


def test_a_bad_end_is_told_with_the_last_lines_only(attempts: Attempts) -> None:
    ended = attempts.run("for i in range(10000): print('line', i)\nraise RuntimeError('no good')")
    assert ended.code == 1
    assert ended.last_lines.endswith("RuntimeError: no good")
    assert len(ended.last_lines.splitlines()) == 20
    long = attempts.run("print('x' * 100_000); raise SystemExit(3)", attempt=1)
    assert long.code == 3
    assert 0 < len(long.last_lines) <= 4000
    assert (ended.message, long.message) == ("", ""), "what it printed is not for everybody"


def test_a_runner_that_is_started_again_after_the_end_runs_nothing(attempts: Attempts) -> None:
    first = attempts.run("import sys; print('ran'); sys.exit(3)")
    assert attempts.run() == first
    assert attempts.printed() == ["[worker-0] ran"]


def test_the_command_runs_in_the_folder_of_its_code_with_the_contract_around_it(attempts: Attempts) -> None:
    script = attempts.code(
        """
        import json, os, pathlib
        from helper import said
        for name in ("CHECKPOINT_DIR", "LOG_DIR"):
            assert pathlib.Path(os.environ[f"MIZZEN_{name}"]).is_dir(), name
        print(said, json.loads(os.environ["MIZZEN_PARAMS"])["rate"], os.environ["WHO"], os.environ["TOKEN"])
        print(*sorted(name for name in os.environ if name.startswith("MIZZEN_")))
        print(os.environ["MIZZEN_JOB"])
        """,
        **{"helper.py": "said = 'helped'"},
    )
    ended = attempts.run(
        files=script,
        hyperparameters={"rate": 0.5},
        env={"WHO": "me", "MIZZEN_JOB": "another"},
        secret_names=("TOKEN",),
        environ={"TOKEN": "t0k3n", "MIZZEN_BLOB_STORE_SECRET": "s3cr3t", "MIZZEN_DATASET_ACCESS_KEY_ID": "k"},
    )
    assert ended.code == 0, ended.message
    assert attempts.printed() == [
        "[worker-0] helped 0.5 me t0k3n",
        "[worker-0] MIZZEN_ATTEMPT MIZZEN_CHECKPOINT_DIR MIZZEN_DATA_DIR MIZZEN_JOB MIZZEN_LOG_DIR MIZZEN_PARAMS "
        "MIZZEN_PROGRESS MIZZEN_REPLICA",
        "[worker-0] iris-1-abcde",
    ]


def test_term_is_no_end_and_the_same_attempt_goes_on_where_its_log_was(attempts: Attempts) -> None:
    runner = attempts.start(WAITS)
    attempts.until_printed("begun")
    runner.terminate()
    assert runner.wait(LIMIT) == 143
    assert attempts.place().path_of_stopped(0).exists()
    assert attempts.exit() is None
    ended = attempts.run("print('again')")
    assert ended.code == 0
    assert not attempts.place().path_of_stopped(0).exists()
    assert attempts.printed() == ["[worker-0] begun", "[worker-0] again"]


def test_a_command_that_ends_well_when_told_to_stop_was_stopped_all_the_same(attempts: Attempts) -> None:
    runner = attempts.start(
        """
        import signal, sys, time
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        print("begun", flush=True)
        time.sleep(600)
        """
    )
    attempts.until_printed("begun")
    runner.terminate()
    assert runner.wait(LIMIT) == 143
    assert attempts.exit() is None
    assert attempts.place().path_of_stopped(0).exists()


def test_a_command_that_is_deaf_to_term_is_killed_after_its_grace_with_all_it_started(attempts: Attempts) -> None:
    runner = attempts.start(
        """
        import signal, subprocess, sys, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
        print("child", child.pid, flush=True)
        time.sleep(600)
        """,
        grace=0.5,
        environ={"MIZZEN_PROCESS_RUN": f"test-{os.getpid()}"},
    )
    attempts.until_printed("child")
    child = int(attempts.printed()[0].split()[-1])
    runner.terminate()
    assert runner.wait(LIMIT) == 143
    wait_until(lambda: not alive(child), "its child is gone")


def test_a_daemon_without_environment_in_a_session_of_its_own_does_not_outlive_the_command(attempts: Attempts) -> None:
    """Forked twice: its parent is gone, and nothing of it tells whose it is."""
    ended = attempts.run(
        """
        import os, sys, time
        read, write = os.pipe()
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.write(write, str(os.getpid()).encode())
                os.execve(sys.executable, ["daemon", "-c", "import time; time.sleep(600)"], {})
            os._exit(0)
        os.wait()
        print(os.read(read, 20).decode())
        """
    )
    assert ended.code == 0
    wait_until(lambda: not alive(int(attempts.printed()[0].split()[-1])), "the daemon is gone")


def test_orphans_that_end_while_the_command_runs_are_reaped(attempts: Attempts) -> None:
    runner = attempts.start(
        """
        import os, time
        read, write = os.pipe()
        if os.fork() == 0:
            if os.fork() == 0:
                os.write(write, f"{os.getpid()}\\n".encode())
            os._exit(0)
        os.wait()
        print("orphan", os.read(read, 20).decode().strip(), flush=True)
        time.sleep(600)
        """
    )
    attempts.until_printed("orphan")
    orphan = Path("/proc") / attempts.printed()[0].split()[-1]
    wait_until(lambda: not orphan.exists(), "not even its entry in the table of processes is left")
    runner.terminate()
    assert runner.wait(LIMIT) == 143


def test_what_a_command_leaves_running_does_not_outlive_it(attempts: Attempts) -> None:
    ended = attempts.run(
        """
        import subprocess, sys
        print(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]).pid)
        """
    )
    assert ended.code == 0
    child = int(attempts.printed()[0].split()[-1])
    wait_until(lambda: not alive(child), "its child is gone")


def test_everything_down_at_once_is_an_interruption_and_not_a_second_run(attempts: Attempts) -> None:
    runner = attempts.start(WAITS)
    attempts.until_printed("begun")
    attempts.end_as_the_supervisor_does(runner)
    ended = attempts.run()
    assert (ended.code, ended.reason, ended.retry) == (137, "Interrupted", True)
    assert ended.started is not None
    assert attempts.printed() == ["[worker-0] begun"]


def test_a_runner_killed_after_the_command_had_ended_tells_of_that_end_when_started_again(attempts: Attempts) -> None:
    attempts.run("print('ran'); raise SystemExit(5)")
    attempts.place().exit(0).unlink()
    ended = attempts.run()
    assert (ended.code, ended.reason) == (5, "")
    assert attempts.printed() == ["[worker-0] ran"]


def test_the_log_of_an_attempt_whose_runner_was_killed_is_kept_by_the_next(attempts: Attempts) -> None:
    runner = attempts.start(WAITS)
    attempts.until_printed("begun")
    attempts.end_as_the_supervisor_does(runner)
    attempts.run("print('again')", attempt=1)
    assert not attempts.place().log(0).exists()
    assert attempts.printed() == ["[worker-0] begun", "[worker-0] again"]


def test_code_that_is_not_there_is_told(attempts: Attempts) -> None:
    files = attempts.code("print('never')")
    attempts.blobs.path(files[0].digest).unlink()
    ended = attempts.run(files=files)
    assert (ended.code, ended.reason, ended.retry, ended.started) == (1, "CodeUnavailable", False, None)
    assert files[0].digest in ended.message
    assert (attempts.data_dir / "last-words").read_text() == ended.message


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("no-such-program", "--fast"), "there is no program 'no-such-program'"),
        (("./train.py",), "is not executable"),
    ],
)
def test_a_command_that_cannot_be_started_is_told(attempts: Attempts, command: tuple[str, ...], said: str) -> None:
    ended = attempts.run("print('never')", command=command)
    assert (ended.code, ended.reason, ended.retry) == (127, "CommandNotFound", False)
    assert said in ended.message


def test_python_is_the_interpreter_that_the_engine_names(attempts: Attempts, tmp_path: Path) -> None:
    other = tmp_path / "env" / "bin" / "python"
    other.parent.mkdir(parents=True)
    other.symlink_to(sys.executable)
    ended = attempts.run(
        "import os; print(os.environ['PATH'].split(':')[0]); print(os.environ['PYTHONPATH'])",
        environ={"MIZZEN_PYTHON": str(other), "MIZZEN_COMMAND_PYTHONPATH": "/parts"},
        env={"PYTHONPATH": "/mine"},
    )
    assert ended.code == 0, ended.message
    assert attempts.printed() == [f"[worker-0] {other.parent}", "[worker-0] /parts:/mine"]


def test_a_task_of_another_attempt_than_the_one_asked_for_is_refused(attempts: Attempts) -> None:
    runner = attempts.start("print('never')", environ={"MIZZEN_ATTEMPT": "7"})
    assert runner.wait(LIMIT) == 78
    assert "attempt 7" in (attempts.data_dir / "last-words").read_text()
    assert attempts.exit() is None


def test_what_the_code_reports_is_kept_line_by_line(attempts: Attempts) -> None:
    attempts.run(
        """
        import json, os, pathlib, time
        progress = pathlib.Path(os.environ["MIZZEN_PROGRESS"])
        past = progress.parent.with_name("progress.jsonl")
        for step in (1, 2):
            progress.write_text(json.dumps({"step": step, "metrics": {"loss": 1 / step}}))
            while not past.exists() or f'"step": {step}' not in past.read_text():
                time.sleep(0.01)
        """
    )
    lines = attempts.place().past_progress.read_text().splitlines()
    assert ['"step": 1' in lines[0], '"step": 2' in lines[1], len(lines)] == [True, True, 2]


def test_a_report_tells_what_the_runner_does_and_which_process_it_watches(attempts: Attempts) -> None:
    runner = attempts.start(WAITS)
    attempts.until_printed("begun")
    wait_until(lambda: (records.read(attempts.place().report) or {}).get("phase") == "running", "it says so")
    report = records.read(attempts.place().report)
    assert report is not None
    assert alive(report["pid"])
    assert os.getsid(report["pid"]) == runner.pid, "the supervisor's kill reaches it"
    assert os.getpgid(report["pid"]) == report["pid"], "it signals nobody but itself"


def test_a_command_refused_memory_is_told_as_such(attempts: Attempts) -> None:
    ended = attempts.run("data = bytearray(1 << 32)", environ={"MIZZEN_MEMORY": str(256 << 20)})
    assert (ended.code, ended.reason) == (1, "OutOfMemory")
    assert "MemoryError" in ended.last_lines
    assert "spec.resources.memory" in ended.message


def test_signals_of_the_code_to_its_own_group_do_not_reach_the_runner(attempts: Attempts) -> None:
    ended = attempts.run("import os, signal; os.killpg(0, signal.SIGKILL)")
    assert ended.code == 128 + signal.SIGKILL


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
