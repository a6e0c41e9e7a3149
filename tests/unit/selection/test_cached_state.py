"""What a gateway chooses by: the newest that anybody was told, and whatever is known when the file cannot be read."""

from __future__ import annotations

import logging
import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from mizzen.graph.table_types import Policy
from mizzen.selection import cached_state, state_db
from mizzen.selection.cached_state import PAUSE_SECONDS, StateCache
from mizzen.selection.change_marker import ChangeMarker
from mizzen.selection.state_db import Credit, FeedbackEntry

GREEDY = Policy(name="egreedy", epsilon=0.0)
"""Chooses the best, and nothing else."""
PER_USER = Policy(name="egreedy", epsilon=0.0, per_user=True)
ABC = ("a", "b", "c")


class Machine:
    """What the gateways of one plane share, and one that gives feedback."""

    def __init__(self, folder: Path) -> None:
        self.path, self.word = folder / state_db.FILE, folder / "run" / "selection"
        self.now = 0.0
        self._given = 0
        self._views: list[StateCache] = []

    def view(self, seed: int = 1) -> StateCache:
        self._views.append(StateCache(self.path, self.word, random.Random(seed), clock=lambda: self.now))
        return self._views[-1]

    def give(self, arm: str, reward: float, *, user: str = "", policy: Policy = GREEDY, told: bool = True) -> None:
        self._given += 1
        given = FeedbackEntry("u1", str(self._given), b"", reward, 0.0, [Credit("n", policy, ABC, arm, 0.5, user)], [])
        connection = state_db.open_db(self.path)
        assert state_db.record_feedback(connection, [given], random.Random(2)) == ["counted"]
        connection.close()
        if told:
            ChangeMarker(self.word).bump()

    def best(self) -> str:
        """As it is stored."""
        connection = state_db.open_db(self.path)
        found = state_db.read_state(connection, "u1", "n", "")
        connection.close()
        assert found is not None
        return found.best

    def close(self) -> None:
        for one in self._views:
            one.close()


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    yield made
    made.close()


def test_all_gateways_begin_with_the_same_best(machine: Machine) -> None:
    chosen = {machine.view(seed).selector_for("u1", "n", GREEDY, ABC).choose("") for seed in range(10)}
    assert len(chosen) == 1
    assert chosen.pop()[1] == 1.0


def test_what_was_told_is_in_the_next_choice_of_every_gateway(machine: Machine) -> None:
    selectors = [machine.view(seed).selector_for("u1", "n", GREEDY, ABC) for seed in range(3)]
    for arm, reward in (("b", 0.2), ("c", 0.9), ("c", 0.0), ("a", 0.6), ("c", 1.0)):
        machine.give(arm, reward)
        assert {selector.choose("")[0] for selector in selectors} == {machine.best()}


def test_while_the_word_is_the_same_the_file_is_not_read(machine: Machine) -> None:
    selector = machine.view().selector_for("u1", "n", GREEDY, ABC)
    machine.give("b", 1.0)
    assert selector.choose("") == ("b", 1.0)
    machine.give("b", 0.0, told=False)
    machine.give("c", 1.0, told=False)
    assert selector.choose("") == ("b", 1.0)
    ChangeMarker(machine.word).bump()
    assert selector.choose("") == ("c", 1.0)


def test_users_have_their_own_choice_once_they_gave_feedback(machine: Machine) -> None:
    selector = machine.view().selector_for("u1", "n", PER_USER, ABC)
    machine.give("b", 0.5, policy=PER_USER)
    assert {selector.choose(user)[0] for user in ("", "ann", "bob")} == {"b"}
    machine.give("c", 1.0, policy=PER_USER, user="ann")
    assert [selector.choose(user)[0] for user in ("", "ann", "bob", "ann")] == ["b", "c", "b", "c"]
    machine.give("a", 1.0, policy=PER_USER)
    assert [selector.choose(user)[0] for user in ("", "ann", "bob")] == ["a", "c", "a"]
    assert machine.view().selector_for("u1", "n", GREEDY, ABC).choose("ann") == ("a", 1.0), (
        "the plan does not ask who it is"
    )


def test_of_many_users_only_some_are_in_memory(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cached_state, "MAX_USERS", 3)
    selector = machine.view().selector_for("u1", "n", PER_USER, ABC)
    machine.give("b", 0.5, policy=PER_USER)
    machine.give("c", 1.0, policy=PER_USER, user="user-7")
    for _ in range(2):
        assert [selector.choose(f"user-{n}")[0] for n in range(10)] == ["b"] * 7 + ["c"] + ["b"] * 2
    assert len(selector._user_states) == 3


def test_an_edit_changes_the_arms_of_what_is_known(machine: Machine) -> None:
    gateway = machine.view()
    gateway.selector_for("u1", "n", PER_USER, ABC)
    machine.give("a", 1.0, policy=PER_USER)
    machine.give("b", 0.5, policy=PER_USER)
    machine.give("a", 1.0, policy=PER_USER, user="ann")
    edited = gateway.selector_for("u1", "n", PER_USER, ("b", "c", "d"))
    assert (edited.choose("")[0], edited.choose("ann")[0]) == ("b", "b"), "the best of what is left"


def test_a_gateway_with_the_old_plan_keeps_choosing_among_its_arms_and_changes_nothing(machine: Machine) -> None:
    old = machine.view(1).selector_for("u1", "n", GREEDY, ABC)
    machine.give("a", 1.0)
    machine.give("b", 0.5)
    new = machine.view(2).selector_for("u1", "n", GREEDY, ("b", "d"))
    for _ in range(3):
        ChangeMarker(machine.word).bump()
        assert old.choose("")[0] in ABC
        assert new.choose("")[0] == "b"
    machine.give("d", 1.0)
    assert new.choose("") == ("d", 1.0), "its feedback was not forgotten for the sake of the old plan"
    assert old.choose("") == ("b", 1.0)


def test_what_was_forgotten_is_begun_anew(machine: Machine) -> None:
    selectors = [machine.view(seed).selector_for("u1", "n", GREEDY, ABC) for seed in range(4)]
    connection = state_db.open_db(machine.path)
    assert state_db.forget(connection, set()) == {"u1"}
    connection.close()
    ChangeMarker(machine.word).bump()
    for selector in selectors:
        selector.choose("")
    assert len({selector.choose("") for selector in selectors}) == 1


def test_a_file_that_is_none_stops_no_choice_and_is_complained_of_once(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    machine.path.write_bytes(b"this is no database, and long enough to be read as one" * 100)
    caplog.set_level(logging.INFO)
    selector = machine.view().selector_for("u1", "n", GREEDY, ABC)
    first = selector.choose("ann")
    assert first[0] in ABC
    for _ in range(5):
        machine.now += 2 * PAUSE_SECONDS
        assert selector.choose("") == first, "it does not waver"
    assert len(caplog.records) == 1
    assert "state.db cannot be used" in caplog.text
    machine.path.unlink()
    machine.give(next(arm for arm in ABC if arm != first[0]), 1.0)
    assert selector.choose("") == first, "not tried again yet"
    machine.now += 2 * PAUSE_SECONDS
    assert selector.choose("")[0] != first[0]
    assert len(caplog.records) == 2
    assert "can be used again" in caplog.text


def test_while_the_file_cannot_be_read_the_last_that_was_known_counts(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    selector = machine.view().selector_for("u1", "n", PER_USER, ABC)
    machine.give("b", 1.0, policy=PER_USER)
    machine.give("c", 1.0, policy=PER_USER, user="ann")
    before = [selector.choose(user) for user in ("", "ann")]

    def broken(*_: object) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    with monkeypatch.context() as patched:
        patched.setattr(state_db, "read_state", broken)
        machine.give("a", 1.0, policy=PER_USER)
        machine.give("a", 1.0, policy=PER_USER)
        for _ in range(3):
            assert [selector.choose(user) for user in ("", "ann")] == before
            assert selector.choose("new") == before[0]
            machine.now += 2 * PAUSE_SECONDS
    machine.give("b", 0.0, policy=PER_USER)
    assert selector.choose("") == ("a", 1.0)


def test_without_a_word_each_choice_reads_the_file(machine: Machine, caplog: pytest.LogCaptureFixture) -> None:
    machine.word.mkdir(parents=True)
    selector = machine.view().selector_for("u1", "n", PER_USER, ABC)
    assert "cannot be mapped" in caplog.text
    for arm, reward in (("c", 1.0), ("c", 0.0), ("a", 0.75), ("b", 1.0)):
        machine.give(arm, reward, policy=PER_USER, told=False)
        best = machine.best()
        assert [selector.choose(user)[0] for user in ("", "ann")] == [best, best]
    assert best == "b"


def test_a_writer_that_does_not_end_delays_a_new_plan_a_little_and_fails_nothing(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cached_state, "BUSY_SECONDS", 0.01)
    writer = state_db.open_db(machine.path)
    writer.execute("BEGIN IMMEDIATE")
    selector = machine.view().selector_for("u1", "n", GREEDY, ABC)
    assert selector.choose("")[0] in ABC
    writer.execute("ROLLBACK")
    machine.now += 2 * PAUSE_SECONDS
    chosen = selector.choose("")
    stored = state_db.read_state(writer, "u1", "n", "")
    assert stored is not None, "stored as soon as it can be"
    assert chosen == (stored.best, 1.0)
    writer.close()


def test_nothing_is_made_before_there_is_a_bandit(machine: Machine) -> None:
    machine.view().close()
    assert not machine.path.exists()
    assert not machine.word.exists()
