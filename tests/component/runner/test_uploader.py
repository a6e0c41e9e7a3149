"""What a command leaves is put away, whatever is in it and whatever goes wrong with the store."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from mizzen.runs import log_segments
from tests.component.runner.test_checkpoints import SAVES
from tests.support import disks
from tests.support.planes import wait_until
from tests.support.runner.attempts import LIMIT, Attempts

MB = 1 << 20


def test_a_large_log_is_there_to_the_last_line_and_in_segments(attempts: Attempts) -> None:
    line = "0123456789 the quick brown fox jumps over the lazy dog"
    count = 64 * MB // (len(line) + 1)
    script = f"import sys\nfor i in range({count}): sys.stdout.write('{line}\\n')\nprint('the end')"
    attempts.run(script, environ={"MIZZEN_LOG_BYTES": str(128 * MB)})
    kept = log_segments.read(attempts.blobs.documents, log_segments.name_of(attempts.job.uid, "worker-0", 0))
    assert kept is not None
    assert len(kept.segments) > 3
    assert attempts.printed(tail=2) == [f"[worker-0] {line}", "[worker-0] the end"]
    lines = attempts.printed()
    assert len(lines) == count + 1
    assert set(lines[:-1]) == {f"[worker-0] {line}"}


def test_bytes_that_are_no_text_are_kept_as_they_are(attempts: Attempts) -> None:
    attempts.run("import os, sys; sys.stdout.buffer.write(bytes(range(256)) * 1000 + os.urandom(0) + b'\\xff')")
    kept = log_segments.read(attempts.blobs.documents, log_segments.name_of(attempts.job.uid, "worker-0", 0))
    assert kept is not None
    data = b"".join(attempts.blobs.path(segment.digest).read_bytes() for segment in kept.segments)
    assert hashlib.sha256(data).digest() == hashlib.sha256(bytes(range(256)) * 1000 + b"\xff").digest()


def test_lines_of_two_replicas_are_in_the_order_in_which_they_were_printed(attempts: Attempts) -> None:
    """They take turns, each waiting until the other's line has been noticed."""
    turns = """
        import os, pathlib, sys, time
        mine = int(os.environ["MIZZEN_REPLICA"][-1])
        here = pathlib.Path(os.environ["MIZZEN_CHECKPOINT_DIR"])
        for turn in range(8):
            while not (here / f".turn-{turn}").exists():
                time.sleep(0.01)
            if turn % 2 == mine:
                print("turn", turn, flush=True)
                times = here.parent / "replicas" / f"worker-{mine}" / "0.times"
                while times.stat().st_size < 16 * (turn // 2 + 1):
                    time.sleep(0.01)
                (here / f".turn-{turn + 1}").touch()
    """
    cluster = {"worker": ("127.0.0.1:1", "127.0.0.1:2")}
    runners = [attempts.start(turns, replica=f"worker-{index}", cluster=cluster) for index in (0, 1)]
    for replica in ("worker-0", "worker-1"):
        attempts.until_begun(replica)
    (attempts.job.checkpoints / ".turn-0").touch()
    assert [runner.wait(LIMIT) for runner in runners] == [0, 0]
    assert attempts.printed() == [f"[worker-{turn % 2}] turn {turn}" for turn in range(8)]


class Behind:
    """A store behind the blobs that is away until it is told to be there."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._obstacle = folder / "sha256"
        self._obstacle.write_text("where its folder should be")
        self.environ = {"MIZZEN_BLOB_STORE": f"file://{folder}"}

    def come(self) -> None:
        self._obstacle.unlink()


def test_a_store_that_does_not_answer_is_waited_for_while_the_command_runs(attempts: Attempts) -> None:
    behind = Behind(attempts.data_dir / "behind")
    runner = attempts.start(f"{SAVES}\n    rename('c-1', 'x')\n    wait_for('.end')", environ=behind.environ)
    wait_until(lambda: "retrying" in attempts.message(), "it is told")
    assert attempts.kept() == []
    behind.come()
    wait_until(attempts.kept, "the checkpoint is kept")
    wait_until(lambda: attempts.message() == "", "nothing is wrong any more")
    (attempts.job.checkpoints / ".end").touch()
    assert runner.wait(LIMIT) == 0


def test_what_cannot_be_kept_ends_the_attempt_and_may_be_tried_again(attempts: Attempts) -> None:
    behind = Behind(attempts.data_dir / "behind")
    ended = attempts.run(f"{SAVES}\n    rename('c-1', 'x')", environ=behind.environ, keep_seconds=1.0)
    assert (ended.code, ended.reason, ended.retry) == (1, "StorageUnavailable", True)
    behind.come()
    ended = attempts.run("print('again')", environ=behind.environ, attempt=1)
    assert ended.code == 0
    assert [each.name for each in attempts.kept()] == ["c-1"], "what was complete then is kept by the next attempt"
    assert attempts.printed() == ["[worker-0] again"]


def test_told_to_stop_while_it_puts_away_it_does_the_rest_later_and_runs_nothing_again(attempts: Attempts) -> None:
    behind = Behind(attempts.data_dir / "behind")
    runner = attempts.start(f"{SAVES}\n    print('ran')\n    (folder / 'last').write_text('x')", environ=behind.environ)
    wait_until(lambda: "retrying" in attempts.message(), "it is told")
    runner.terminate()
    assert runner.wait(LIMIT) == 143
    assert attempts.exit() is None
    behind.come()
    assert attempts.run(environ=behind.environ).code == 0
    assert [each.name for each in attempts.kept()] == ["last"]
    assert attempts.printed() == ["[worker-0] ran"]


def test_a_log_alone_that_cannot_be_kept_spoils_nothing_and_stays_here(attempts: Attempts) -> None:
    behind = Behind(attempts.data_dir / "behind")
    ended = attempts.run("print('one')", environ=behind.environ, keep_seconds=1.0)
    assert (ended.code, ended.reason) == (0, "")
    assert attempts.place().log(0).exists()
    assert attempts.printed() == ["[worker-0] one"]


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Attempts]:
    with disks.small_disk(tmp_path / "disk", 48 * MB) as disk:
        made = Attempts(disk)
        try:
            yield made
        finally:
            made.close()


FILLS = """
    import os, sys
    with open(os.path.join(os.environ["MIZZEN_LOG_DIR"], "ballast"), "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1 << 16))
        except OSError:
            pass
"""


def test_a_command_that_fails_on_a_full_disk_is_told_as_such(small: Attempts) -> None:
    ended = small.run(f"{FILLS}\n    sys.exit(1)", keep_seconds=1.0)
    assert (ended.code, ended.reason, ended.retry) == (1, "NoRoom", True)
    assert "disk is full" in ended.message


def test_a_checkpoint_for_which_there_is_no_room_is_told_as_such(small: Attempts) -> None:
    ended = small.run(
        f"""
    import os, pathlib
    folder = pathlib.Path(os.environ["MIZZEN_CHECKPOINT_DIR"])
    (folder / ".new").write_bytes(bytes({30 * MB}))
    os.rename(folder / ".new", folder / "c-1")
    """,
        keep_seconds=1.0,
    )
    assert (ended.code, ended.reason, ended.retry) == (1, "NoRoom", True)
    assert small.kept() == []


def test_a_command_that_works_well_beside_a_full_disk_has_worked_well(small: Attempts) -> None:
    ended = small.run(FILLS, keep_seconds=1.0)
    assert (ended.code, ended.reason) == (0, "")
