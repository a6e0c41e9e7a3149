"""What bandits have learnt is data: it is in a backup, as of one moment, and comes back. Records of answers are not."""

from __future__ import annotations

import os
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from mizzen.backups import create
from mizzen.backups.create import BackupRequest
from mizzen.errors import BadRequest
from mizzen.graph.bandits import Arm
from mizzen.graph.table_types import Policy
from mizzen.selection import state_db
from mizzen.selection.state_db import Credit, FeedbackEntry, Score
from tests.support.backups.folders import TAKEN, Quiet, backup, data_dir, names, restore

UID, NODE, ARMS = "u-1", "a", ("b", "c")
POLICY = Policy(name="egreedy", epsilon=0.1)


def feedback(number: int, arm: str = "b") -> FeedbackEntry:
    credit = Credit(NODE, POLICY, ARMS, arm, 0.9, "")
    return FeedbackEntry(UID, f"id-{number}", b"d", 1.0, float(number), [credit], [Score(arm, "1", 1.0, None)])


def give(folder: Path, *given: FeedbackEntry) -> list[state_db.FeedbackOutcome]:
    with closing(state_db.open_db(folder / state_db.FILE)) as connection:
        return state_db.record_feedback(connection, given, Random(1))


def arm(folder: Path, name: str = "b") -> Arm:
    with closing(state_db.open_db(folder / state_db.FILE)) as connection:
        found = state_db.read_state(connection, UID, NODE, "")
    assert found is not None
    return found.arms[name]


def test_what_is_learnt_comes_back_and_is_learnt_once(tmp_path: Path) -> None:
    there = data_dir(tmp_path / "data", b"one")
    give(there, feedback(1), feedback(2), feedback(3, "c"))
    backup(there, tmp_path / "b.tar")
    give(there, feedback(4))
    restore(tmp_path / "b.tar", tmp_path / "again")
    again = tmp_path / "again"
    assert arm(again) == Arm(2, 2.0)
    assert arm(again, "c") == Arm(1, 1.0)
    with closing(state_db.open_db(again / state_db.FILE)) as connection:
        assert [each.rewards for each in state_db.list_qualities(connection, UID)] == [2, 1]
    # Which feedback was given comes back, too: who sends it again is not counted twice.
    assert give(again, feedback(2), feedback(4)) == ["repeated", "counted"]
    assert names(tmp_path).isdisjoint({".b.tar.part", ".b.tar.db"})


def test_a_plane_that_learnt_nothing(tmp_path: Path) -> None:
    there = data_dir(tmp_path / "data", b"one")
    made = backup(there, tmp_path / "b.tar")
    assert state_db.FILE not in {item.path for item in made.manifest.items}
    restore(tmp_path / "b.tar", tmp_path / "again")
    assert state_db.FILE not in names(tmp_path / "again")


def test_a_log_that_was_not_written_back_is_part_of_it(tmp_path: Path) -> None:
    """As a gateway that was killed leaves it: all it acknowledged is in the log beside the file, and in the backup."""
    there = data_dir(tmp_path / "data", b"one")
    with closing(state_db.open_db(there / state_db.FILE)) as writer:
        state_db.record_feedback(writer, [feedback(1)], Random(1))
        assert (there / f"{state_db.FILE}-wal").stat().st_size
        backup(there, tmp_path / "b.tar")
    restore(tmp_path / "b.tar", tmp_path / "again")
    assert arm(tmp_path / "again") == Arm(1, 1.0)


def test_all_that_was_acknowledged_before_and_one_moment(tmp_path: Path) -> None:
    """Of each feedback either all is in it or nothing: what was given, what its arm learnt, how its version did."""
    there = data_dir(tmp_path / "data", b"one")
    acknowledged = 0
    stop = threading.Event()

    def write() -> None:
        nonlocal acknowledged
        with closing(state_db.open_db(there / state_db.FILE)) as connection:
            while not stop.is_set():
                state_db.record_feedback(connection, [feedback(acknowledged + 1)], Random(1))
                acknowledged += 1

    writing = threading.Thread(target=write)
    writing.start()
    try:
        for number in range(5):
            before = acknowledged
            while acknowledged == before and writing.is_alive():
                pass
            promised = acknowledged
            backup(there, tmp_path / f"{number}.tar")
            restore(tmp_path / f"{number}.tar", tmp_path / str(number))
            with closing(state_db.open_db(tmp_path / str(number) / state_db.FILE)) as found:
                [(given,)] = found.execute("SELECT count(*) FROM given").fetchall()
                [quality] = state_db.list_qualities(found, UID)
            assert promised <= given
            assert arm(tmp_path / str(number)) == Arm(given, float(given))
            assert quality.rewards == given
    finally:
        stop.set()
        writing.join()


def test_records_of_answers_stay_behind(tmp_path: Path) -> None:
    there = data_dir(tmp_path / "data", b"one")
    segment = there / "records" / UID / "0" / "00000001.seg"
    segment.parent.mkdir(parents=True)
    segment.write_bytes(b"of this machine")
    odd = segment.with_name("named-in-settings.json")
    odd.write_text("{}")
    wanted = BackupRequest(there, TAKEN, also=(odd.relative_to(there).as_posix(),))
    made = create.to_file(wanted, tmp_path / "b.tar", Quiet())
    assert made.left_out == (f"records/{UID}/0/named-in-settings.json",)
    restore(tmp_path / "b.tar", tmp_path / "again")
    assert not (tmp_path / "again" / "records").exists()


def test_of_a_newer_version(tmp_path: Path) -> None:
    there = data_dir(tmp_path / "data", b"one")
    give(there, feedback(1))
    with closing(sqlite3.connect(there / state_db.FILE)) as connection:
        connection.execute(f"PRAGMA user_version = {state_db.SCHEMA + 1}")
    backup(there, tmp_path / "b.tar")
    with pytest.raises(BadRequest, match="bandit state") as refused:
        restore(tmp_path / "b.tar", tmp_path / "again")
    assert "newer" in refused.value.hint
    assert sorted(os.listdir(tmp_path)) == ["b.tar", "data"]


def test_what_cannot_be_read_is_told_and_nothing_is_left(tmp_path: Path) -> None:
    there = data_dir(tmp_path / "data", b"one")
    (there / state_db.FILE).write_bytes(b"no database at all" * 1000)
    with pytest.raises(BadRequest, match=r"state\.db is damaged") as refused:
        backup(there, tmp_path / "b.tar")
    assert "move it away" in refused.value.hint
    assert os.listdir(tmp_path) == ["data"]
