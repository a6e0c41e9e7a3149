"""state.db: feedback counts once, users have states of their own, edits forget what they remove."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mizzen.graph.bandits import Arm, BanditState
from mizzen.graph.table_types import Policy
from mizzen.selection import state_db
from mizzen.selection.state_db import Credit, FeedbackEntry, FeedbackOutcome, NodeState, Quality, Score

EGREEDY = Policy(name="egreedy", epsilon=0.1)
PER_USER = Policy(name="egreedy", epsilon=0.1, per_user=True)
ABC = ("a", "b", "c")


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    opened = state_db.open_db(tmp_path / state_db.FILE)
    yield opened
    opened.close()


def credit(arm: str, *, policy: Policy = EGREEDY, user: str = "", node: str = "router", p: float = 0.5) -> Credit:
    return Credit(node, policy, ABC, arm, p, user)


def feedback(
    id_: str, reward: float, *learners: Credit, uid: str = "u1", at: float = 0.0, digest: bytes = b""
) -> FeedbackEntry:
    return FeedbackEntry(uid, id_, digest or repr(reward).encode(), reward, at, learners, ())


def take(
    connection: sqlite3.Connection, *batch: FeedbackEntry, most_users: int = state_db.MAX_USERS
) -> list[FeedbackOutcome]:
    return state_db.record_feedback(connection, batch, random.Random(1), max_users=most_users)


def begin(
    connection: sqlite3.Connection, *arms: str, policy: Policy = EGREEDY, uid: str = "u1", seed: int = 1
) -> BanditState:
    return state_db.begin_state(connection, uid, "router", policy, arms, rng=random.Random(seed))


def counts(connection: sqlite3.Connection, user: str = "", uid: str = "u1") -> dict[str, tuple[int, float]] | None:
    found = state_db.read_state(connection, uid, "router", user)
    return None if found is None else {name: (arm.count, arm.total) for name, arm in sorted(found.arms.items())}


def test_feedback_adds_to_the_arm_that_served(connection: sqlite3.Connection) -> None:
    assert take(connection, feedback("1", 0.9, credit("b")), feedback("2", 0.0, credit("b"))) == ["counted", "counted"]
    assert take(connection, feedback("3", 0.25, credit("c"))) == ["counted"]
    assert counts(connection) == {"a": (0, 0.0), "b": (2, 0.9), "c": (1, 0.25)}
    found = state_db.read_state(connection, "u1", "router", "")
    assert found is not None
    assert found.best == "b"
    assert state_db.read_state(connection, "u1", "other", "") is None
    assert state_db.read_state(connection, "u2", "router", "") is None


def test_the_same_feedback_counts_once_and_another_for_the_same_id_never(connection: sqlite3.Connection) -> None:
    once = feedback("1", 0.5, credit("a"))
    assert take(connection, once, once, feedback("1", 0.25, credit("a"))) == ["counted", "repeated", "different"]
    assert take(connection, once, feedback("1", 1.0, credit("b"))) == ["repeated", "different"]
    assert take(connection, once._replace(uid="u2")) == ["counted"], "ids are those of one graph"
    assert counts(connection) == {"a": (1, 0.5), "b": (0, 0.0), "c": (0, 0.0)}


def test_all_decisions_of_a_request_learn(connection: sqlite3.Connection) -> None:
    take(
        connection, feedback("1", 1.0, credit("a"), credit("b", node="second"), credit("a"), credit("c", node="second"))
    )
    shown = state_db.list_states(connection, "u1")
    assert [(one.node, one.users) for one in shown] == [("router", 0), ("second", 0)]
    assert counts(connection) == {"a": (2, 2.0), "b": (0, 0.0), "c": (0, 0.0)}
    assert {name: arm.count for name, arm in shown[1].state.arms.items()} == {"a": 0, "b": 1, "c": 1}


def test_a_transaction_is_taken_whole_or_not_at_all(connection: sqlite3.Connection) -> None:
    with pytest.raises(ValueError, match="reward"):
        take(connection, feedback("1", 1.0, credit("a")), feedback("2", 7.0, credit("a")))
    assert not connection.in_transaction
    assert counts(connection) is None
    assert take(connection, feedback("1", 1.0, credit("a"))) == ["counted"]


def test_scores_are_kept_by_node_and_version(connection: sqlite3.Connection) -> None:
    def scored(id: str, *scores: Score) -> FeedbackEntry:  # noqa: A002
        return feedback(id, 0.5)._replace(scores=scores)

    take(connection, scored("1", Score("m", "1", 0.5, None), Score("m", "2", 0.0, 1.0)))
    take(connection, scored("2", Score("m", "1", 0.25, 0.0), Score("k", "1", None, None)))
    take(connection, scored("2", Score("m", "1", 0.25, 0.0)))
    assert state_db.list_qualities(connection, "u1") == [
        Quality("k", "1", 0, 0.0, 0, 0.0),
        Quality("m", "1", 2, 0.75, 1, 0.0),
        Quality("m", "2", 1, 0.0, 1, 1.0),
    ]
    assert state_db.list_qualities(connection, "u2") == []


def test_the_first_best_is_stored_once_for_all(tmp_path: Path) -> None:
    connections = [state_db.open_db(tmp_path / state_db.FILE) for _ in range(4)]
    begun = [begin(connection, *ABC, seed=seed) for seed, connection in enumerate(connections)]
    assert all(state == begun[0] for state in begun)
    bests = {begin(connections[0], *ABC, uid=f"u{seed}", seed=seed).best for seed in range(100, 140)}
    assert bests == set(ABC), "drawn for each graph"
    for connection in connections:
        connection.close()


def test_a_state_comes_back_as_it_was(connection: sqlite3.Connection) -> None:
    exp3 = Policy(name="exp3")
    begin(connection, *ABC, policy=exp3)
    for number in range(20):
        take(connection, feedback(str(number), number / 20, credit(ABC[number % 3], policy=exp3, p=0.3)))
    stored = state_db.read_state(connection, "u1", "router", "")
    assert stored is not None
    assert len({arm.weight for arm in stored.arms.values()}) == 3
    assert sum(arm.weight for arm in stored.arms.values()) == pytest.approx(3)
    assert begin(connection, *ABC, policy=exp3) == stored
    assert state_db.list_states(connection, "u1") == [NodeState("router", stored, 0)]


def test_an_edit_forgets_what_it_removes_and_keeps_the_rest(connection: sqlite3.Connection) -> None:
    begin(connection, *ABC)
    take(connection, feedback("1", 1.0, credit("a")), feedback("2", 0.5, credit("b")))
    begin(connection, "b", "c", "d")
    assert counts(connection) == {"b": (1, 0.5), "c": (0, 0.0), "d": (0, 0.0)}
    found = state_db.read_state(connection, "u1", "router", "")
    assert found is not None
    assert found.best == "b"
    begin(connection, *ABC)
    assert counts(connection) == {"a": (0, 0.0), "b": (1, 0.5), "c": (0, 0.0)}


def test_feedback_from_a_gateway_with_the_old_plan_brings_back_nothing(connection: sqlite3.Connection) -> None:
    begin(connection, *ABC)
    begin(connection, "b", "c", "d")
    assert take(connection, feedback("1", 1.0, credit("a")), feedback("2", 1.0, credit("b"))) == ["counted", "counted"]
    assert counts(connection) == {"b": (1, 1.0), "c": (0, 0.0), "d": (0, 0.0)}


def test_a_user_starts_from_what_is_shared_and_then_goes_alone(connection: sqlite3.Connection) -> None:
    take(connection, feedback("1", 1.0, credit("a", policy=PER_USER)))
    assert counts(connection, "ann") is None, "the shared one is used"
    take(connection, feedback("2", 0.5, credit("b", policy=PER_USER, user="ann")))
    take(connection, feedback("3", 0.0, credit("a", policy=PER_USER)))
    take(connection, feedback("4", 0.5, credit("b", policy=PER_USER, user="ann")))
    assert counts(connection, "ann") == {"a": (1, 1.0), "b": (2, 1.0), "c": (0, 0.0)}
    assert counts(connection) == {"a": (2, 1.0), "b": (0, 0.0), "c": (0, 0.0)}
    assert [one.users for one in state_db.list_states(connection, "u1")] == [1]


def test_without_per_user_nobody_has_a_state_of_their_own(connection: sqlite3.Connection) -> None:
    take(connection, feedback("1", 1.0, credit("a", user="ann")))
    assert counts(connection, "ann") is None
    assert counts(connection) == {"a": (1, 1.0), "b": (0, 0.0), "c": (0, 0.0)}


def test_beyond_the_most_users_the_shared_state_learns(connection: sqlite3.Connection) -> None:
    batch = [feedback(str(n), 1.0, credit("a", policy=PER_USER, user=f"user-{n}")) for n in range(4)]
    take(connection, *batch, most_users=2)
    take(connection, feedback("again", 1.0, credit("a", policy=PER_USER, user="user-0")), most_users=2)
    found = [counts(connection, f"user-{n}") for n in range(4)]
    assert [one and one["a"] for one in found] == [(2, 2.0), (1, 1.0), None, None]
    shared = counts(connection)
    assert shared is not None
    assert shared["a"] == (2, 2.0)
    assert [one.users for one in state_db.list_states(connection, "u1")] == [2]


def test_an_edit_reaches_users_too(connection: sqlite3.Connection) -> None:
    begin(connection, *ABC)
    for number, arm in enumerate(ABC):
        take(connection, feedback(str(number), 1.0, credit(arm, policy=PER_USER, user="ann")))
    begin(connection, "b", "c", "d")
    assert counts(connection, "ann") == {"b": (1, 1.0), "c": (1, 1.0)}
    begin(connection, *ABC)
    assert counts(connection, "ann") == {"b": (1, 1.0), "c": (1, 1.0)}, "another arm of the same name"
    take(connection, feedback("9", 0.5, credit("a", policy=PER_USER, user="ann")))
    assert counts(connection, "ann") == {"a": (1, 0.5), "b": (1, 1.0), "c": (1, 1.0)}


def test_a_best_that_an_edit_removed_is_replaced_when_the_user_learns(connection: sqlite3.Connection) -> None:
    begin(connection, *ABC)
    take(connection, feedback("1", 1.0, credit("a", policy=PER_USER, user="ann")))
    begin(connection, "b", "c")
    before = state_db.read_state(connection, "u1", "router", "ann")
    assert before is not None
    assert before.best == ""
    take(connection, feedback("2", 0.5, credit("c", policy=PER_USER, user="ann")))
    after = state_db.read_state(connection, "u1", "router", "ann")
    assert after is not None
    assert after.best == "c"


def test_a_user_of_whose_arms_none_is_left_starts_anew_and_is_the_same_user(connection: sqlite3.Connection) -> None:
    begin(connection, "a")
    take(connection, feedback("1", 1.0, credit("a", policy=PER_USER, user="ann")))
    begin(connection, "b")
    take(connection, feedback("2", 0.5, credit("b", policy=PER_USER)))
    take(connection, feedback("3", 1.0, credit("b", policy=PER_USER, user="ann")))
    assert counts(connection, "ann") == {"b": (2, 1.5)}
    assert [one.users for one in state_db.list_states(connection, "u1")] == [1]


@given(st.lists(st.text(st.characters(exclude_categories=()), max_size=200), max_size=6, unique=True))
def test_any_name_can_be_kept_and_none_is_another(names: list[str]) -> None:
    kept = [state_db.storage_name(name) for name in names]
    assert len(set(kept)) == len(names)
    assert all(one.isascii() and len(one) <= 128 for one in kept)
    assert state_db.storage_name("ann") == "ann"
    assert state_db.storage_name("") == ""
    assert state_db.storage_name(state_db.storage_name("é")) != state_db.storage_name("é")


def test_names_that_sqlite_cannot_write_harm_nobody(connection: sqlite3.Connection) -> None:
    strange = feedback("\ud800", 1.0, credit("a", policy=PER_USER, user="\udfff" * 1000))
    assert take(connection, strange, feedback("\x00", 1.0, credit("a")), strange) == ["counted", "counted", "repeated"]
    assert counts(connection, "\udfff" * 1000) == {"a": (1, 1.0), "b": (0, 0.0), "c": (0, 0.0)}


def test_what_was_given_long_ago_is_forgotten_in_steps(
    connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_db, "DELETE_BATCH", 3)
    take(connection, *(feedback(str(n), 1.0, credit("a"), at=float(n)) for n in range(20)))
    assert state_db.prune(connection, now=100.0, max_seconds=90.0) == 10
    assert state_db.prune(connection, now=100.0, max_seconds=90.0) == 0
    assert take(connection, feedback("10", 1.0, credit("a"))) == ["repeated"]
    assert counts(connection) == {"a": (20, 20.0), "b": (0, 0.0), "c": (0, 0.0)}, "what was learnt stays"


def test_graphs_that_are_no_more_are_forgotten(connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_db, "DELETE_BATCH", 2)
    for uid in ("u1", "u2", "u3"):
        for n in range(3):
            one = feedback(str(n), 1.0, credit("a", policy=PER_USER, user=f"user-{n}"), uid=uid)
            take(connection, one._replace(scores=[Score("m", str(n), 1.0, None)]))
    take(connection, feedback("only", 1.0, uid="u4"))
    before = state_db.list_qualities(connection, "u2"), state_db.list_states(connection, "u2")
    assert state_db.forget(connection, {"u2", "new"}) == {"u1", "u3", "u4"}
    assert state_db.forget(connection, {"u2", "new"}) == set()
    assert (state_db.list_qualities(connection, "u2"), state_db.list_states(connection, "u2")) == before
    assert counts(connection, "user-1", uid="u2") is not None
    left = [connection.execute(f"SELECT DISTINCT uid FROM {table}").fetchall() for table in ("arms", "given", "nodes")]
    assert left == [[("u2",)]] * 3


def test_what_is_acknowledged_is_synced(connection: sqlite3.Connection) -> None:
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)


def test_a_file_of_a_later_release_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / state_db.FILE
    connection = state_db.open_db(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(sqlite3.DatabaseError, match="newer Mizzen"):
        state_db.open_db(path)


def test_a_busy_file_is_told_from_a_broken_one(tmp_path: Path) -> None:
    path = tmp_path / state_db.FILE
    writer, other = state_db.open_db(path), state_db.open_db(path, seconds=0.0)
    writer.execute("BEGIN IMMEDIATE")
    with pytest.raises(sqlite3.OperationalError) as caught:
        take(other, feedback("1", 1.0, credit("a")))
    assert state_db.is_busy(caught.value)
    writer.close()
    other.close()
    path.write_bytes(b"this is no database, and long enough to be read as one" * 100)
    with pytest.raises(sqlite3.DatabaseError) as broken:
        state_db.open_db(path)
    assert not state_db.is_busy(broken.value)


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(
            st.just("give"), st.integers(0, 8), st.sampled_from("abcd"), st.integers(0, 4), st.sampled_from(["", "x"])
        ),
        st.tuples(st.just("edit"), st.sets(st.sampled_from("abcd"), min_size=1)),
    ),
    max_size=25,
)  # fmt: skip


@given(OPERATIONS)
def test_whatever_happens_the_counts_are_those_of_a_plain_model(operations: list[tuple[object, ...]]) -> None:
    connection = state_db.open_db(Path(":memory:"))
    begin(connection, "a", "b")
    shared, own, given_before = {"a": [0, 0.0], "b": [0, 0.0]}, dict[str, list[float]](), dict[int, bytes]()
    has_own = False
    for number, (what, *rest) in enumerate(operations):
        if what == "edit":
            arms = set(rest[0])  # type: ignore[call-overload]
            begin(connection, *sorted(arms))
            shared = {arm: shared.get(arm, [0, 0.0]) for arm in arms}
            own = {arm: own[arm] for arm in own if arm in arms}
            continue
        id_, arm, quarters, user = rest
        assert isinstance(id_, int)
        assert isinstance(quarters, int)
        assert isinstance(arm, str)
        one = feedback(
            str(id_), quarters / 4, credit(arm, policy=PER_USER, user=str(user)), digest=b"%d" % (number % 2)
        )
        expected = (
            "counted" if id_ not in given_before else "repeated" if given_before[id_] == one.digest else "different"
        )
        assert take(connection, one) == [expected]
        if expected != "counted":
            continue
        given_before[id_] = one.digest
        if user and not has_own:
            own, has_own = {name: [*numbers] for name, numbers in shared.items()}, True
        if user:  # all of the user's rows may have gone with an edit: then they start anew
            own = {name: own.get(name, [*shared[name]] if not own else [0, 0.0]) for name in shared}
        learns = own if user else shared
        if arm in learns:
            learns[arm] = [learns[arm][0] + 1, learns[arm][1] + quarters / 4]
    assert counts(connection) == {name: tuple(numbers) for name, numbers in sorted(shared.items())}
    assert (counts(connection, "x") or {}) == {name: tuple(numbers) for name, numbers in sorted(own.items())}
    connection.close()


def test_arms_compare_by_what_is_known() -> None:
    assert Arm(1, 0.5) == Arm(1, 0.5, 1.0) != Arm(1, 0.5, 0.9)
