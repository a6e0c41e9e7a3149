"""What was learnt, for those who only look."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from mizzen.graph.table_types import Policy
from mizzen.selection import state_db
from mizzen.selection.state_db import Credit, FeedbackEntry, Quality, Score
from mizzen.selection.state_reader import NOTHING_LEARNED, StateReader

POLICY = Policy(name="egreedy", epsilon=0.1, per_user=True)


def feedback(id_: str, reward: float, user: str = "", uid: str = "u") -> FeedbackEntry:
    credit = Credit("a", POLICY, ("b", "c"), "b", 0.9, user)
    return FeedbackEntry(uid, id_, id_.encode(), reward, 1.0, (credit,), (Score("b", "7", reward, None),))


def learn(path: Path, *batch: FeedbackEntry) -> None:
    with closing(state_db.open_db(path)) as connection:
        state_db.record_feedback(connection, batch, Random(1))


def test_without_a_file_nothing_is_known_and_none_is_made(tmp_path: Path) -> None:
    for reader in (StateReader(None), StateReader(tmp_path / "state.db")):
        assert reader.read("u") == NOTHING_LEARNED
        assert reader.qualities() == []
    assert list(tmp_path.iterdir()) == []


def test_states_qualities_and_feedback_are_read(tmp_path: Path) -> None:
    path = tmp_path / "state #1.db"
    learn(path, feedback("1", 1.0), feedback("2", 0.5), feedback("3", 0.0, "ann"), feedback("4", 1.0, uid="other"))
    reader = StateReader(path)
    found = reader.read("u")
    assert found.nodes["a"].state.arms["b"].count == 2
    assert (found.nodes["a"].users, found.feedback_count, found.user_states) == (1, 3, {})
    assert found.qualities == (Quality("b", "7", 3, 1.5, 0, 0.0),)
    assert reader.read("u", "ann").user_states["a"].arms["b"].count == 3
    assert reader.read("u", "bob").user_states == {}
    assert [(uid, quality.rewards) for uid, quality in reader.qualities()] == [("other", 1), ("u", 3)]


def test_it_reads_while_others_write(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    learn(path, feedback("1", 1.0))
    with closing(state_db.open_db(path)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        assert StateReader(path).read("u").feedback_count == 1
        writer.execute("ROLLBACK")


def test_a_file_that_is_being_made_is_as_none(tmp_path: Path) -> None:
    (tmp_path / "state.db").touch()
    assert StateReader(tmp_path / "state.db").read("u") == NOTHING_LEARNED


def test_a_file_of_a_later_release_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(sqlite3.DatabaseError, match="newer Mizzen"):
        StateReader(path).qualities()
