"""What was saved while the runner could not look, before it was killed."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from mizzen.runner.checkpoints import entries
from tests.support.planes import wait_until
from tests.support.runner.attempts import Attempts

SAVES = """
    import os, pathlib, sys, time
    from mizzen.training import save_checkpoint
    folder = pathlib.Path(os.environ["MIZZEN_CHECKPOINT_DIR"])
    if os.environ["MIZZEN_ATTEMPT"] != "0":
        print("again", flush=True)
        time.sleep(600)
    print("begun", flush=True)
    while not (folder / ".go").exists():
        time.sleep(0.01)

    def tick(path):
        while (folder / ".tick").stat().st_mtime_ns <= path.stat().st_mtime_ns:
            time.sleep(0.001)
            (folder / ".tick").touch()

    (folder / ".tick").touch()
    for number in (9, 10, 11):
        new = folder / f".at-{number}"
        new.write_text(str(number))
        tick(new)
        os.rename(new, folder / f"at-{number}")
    (folder / ".tree").mkdir()
    (folder / ".tree" / "weights").write_text("w")
    tick(folder / ".tree" / "weights")
    os.rename(folder / ".tree", folder / "tree")
    save_checkpoint(lambda path: path.write_text("told"), name="told", step=12)
    (folder / "half").write_text("the first hal")
    (folder / "halves").mkdir()
    (folder / "halves" / "one").write_text("one of tw")
    print("saved", flush=True)
    (folder / ".saved").touch()
    time.sleep(600)
"""
WHOLE = ["at-10", "at-11", "at-9", "told-12", "tree"]


def names(attempts: Attempts) -> list[str]:
    return sorted(checkpoint.name for checkpoint in attempts.kept())


def kill_unseen(attempts: Attempts) -> None:
    """The runner hears of nothing that the command saves, and is killed."""
    runner = attempts.start(SAVES)
    attempts.until_printed("begun")
    os.kill(runner.pid, signal.SIGSTOP)
    (attempts.job.checkpoints / ".go").touch()
    wait_until((attempts.job.checkpoints / ".saved").exists, "all is saved")
    attempts.end_as_the_supervisor_does(runner)
    assert attempts.kept() == []


@pytest.mark.parametrize("reason", ["RunnerLost", "Interrupted"])
def test_a_runner_started_once_more_keeps_what_was_saved_and_runs_nothing(attempts: Attempts, reason: str) -> None:
    kill_unseen(attempts)
    if reason == "RunnerLost":
        attempts.place().path_of_lost(0).touch()
    ended = attempts.run()
    assert (ended.code, ended.reason, ended.retry) == (137, reason, True)
    assert ended.started is not None
    assert names(attempts) == WHOLE
    assert [each.name for each in attempts.kept()][-3:] == ["at-11", "at-10", "at-9"], "in the order they were saved in"
    assert attempts.printed() == ["[worker-0] begun", "[worker-0] saved"]


def test_the_next_attempt_keeps_it_as_soon_as_it_begins(attempts: Attempts) -> None:
    kill_unseen(attempts)
    attempts.start(attempt=1)
    attempts.until_printed("again")
    wait_until(lambda: names(attempts) == WHOLE, "all of them are kept while it runs")


def test_one_that_is_lost_and_told_to_stop_meanwhile_does_not_run_again(attempts: Attempts) -> None:
    kill_unseen(attempts)
    attempts.place().path_of_lost(0).touch()
    attempts.place().path_of_stopped(0).touch()
    assert attempts.run().reason == "RunnerLost"
    assert attempts.printed() == ["[worker-0] begun", "[worker-0] saved"]


def test_the_end_of_a_command_is_told_by_the_runner_after_the_one_that_saw_it(attempts: Attempts) -> None:
    attempts.run("import sys; print('ran'); sys.exit(5)")
    attempts.place().exit(0).unlink()
    attempts.place().path_of_lost(0).touch()
    ended = attempts.run()
    assert (ended.code, ended.reason, ended.last_lines) == (5, "", "ran")


def test_what_is_gone_or_cannot_be_kept_is_not_whole(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert entries.whole_since(tmp_path, "pipe") is None
    assert entries.whole_since(tmp_path, "gone") is None
