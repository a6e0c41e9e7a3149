"""state.db: what bandits know, which feedback was given, and how well nodes do. Functions on a connection.

All gateways of a plane write it, each in short transactions that begin as writers, so that nobody's count is lost. What
is committed survives kill -9 and power loss (WAL, synchronous=FULL).

Of each node there is one shared state, and with `perUser` one of each user who has given feedback. Which arms there are
is said by the shared one alone: `begin_state` sets them, when a gateway takes a plan. Feedback never does, or a gateway
that still has the old plan would bring back what an edit has removed. An arm that is added is told by its number
(`since`) from one of the same name that was removed before: users' rows of that one count no more, and nobody has to
go through all users in order to remove them.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Collection, Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from random import Random
from typing import Literal, NamedTuple

from mizzen.graph.bandits import Arm, Rule, State, policy_of
from mizzen.graph.table_types import Policy

FILE = "state.db"
"""In the data dir."""
SCHEMA = 1
BUSY_SECONDS = 1.0
"""How long one waits for another to write; each takes about as long as the disk takes to sync."""
MOST_USERS = 100_000
"""Of one node, with a state of their own; further ones use what is shared."""
STEP = 1000
"""Rows that are removed at a time: others write in between."""

Outcome = Literal["counted", "repeated", "different"]
"""Of a feedback. repeated: the same was given before, and nothing changes. different: another was."""

_TABLES = (
    """CREATE TABLE nodes (
        uid TEXT NOT NULL, node TEXT NOT NULL, edition INTEGER NOT NULL, users INTEGER NOT NULL,
        PRIMARY KEY (uid, node)) WITHOUT ROWID""",
    """CREATE TABLE arms (
        uid TEXT NOT NULL, node TEXT NOT NULL, user TEXT NOT NULL, arm TEXT NOT NULL, since INTEGER NOT NULL,
        count INTEGER NOT NULL, sum REAL NOT NULL, weight REAL NOT NULL, best INTEGER NOT NULL,
        PRIMARY KEY (uid, node, user, arm)) WITHOUT ROWID""",
    """CREATE TABLE given (
        uid TEXT NOT NULL, id TEXT NOT NULL, digest BLOB NOT NULL, reward REAL NOT NULL, at REAL NOT NULL,
        PRIMARY KEY (uid, id)) WITHOUT ROWID""",
    "CREATE INDEX given_by_age ON given (at)",
    """CREATE TABLE quality (
        uid TEXT NOT NULL, node TEXT NOT NULL, version TEXT NOT NULL, rewards INTEGER NOT NULL,
        reward_sum REAL NOT NULL, truths INTEGER NOT NULL, accuracy_sum REAL NOT NULL,
        PRIMARY KEY (uid, node, version)) WITHOUT ROWID""",
)
_KEYS = {"arms": "uid, node, user, arm", "given": "uid, id", "quality": "uid, node, version", "nodes": "uid, node"}
_SHARED = "SELECT arm, count, sum, weight, best, since FROM arms WHERE uid = ? AND node = ? AND user = ''"
_OWN = """SELECT own.arm, own.count, own.sum, own.weight, own.best, own.since FROM arms AS own JOIN arms AS shared
    ON shared.uid = own.uid AND shared.node = own.node AND shared.user = '' AND shared.arm = own.arm
    AND shared.since = own.since WHERE own.uid = ? AND own.node = ? AND own.user = ?"""

_LATER = f"{FILE} is of a later release: its schema is {{}}, and not {SCHEMA}"
_ANY = "SELECT 1 FROM arms WHERE uid = ? AND node = ? AND user = ? LIMIT 1"


class Credit(NamedTuple):
    """A decision that is to learn from a feedback."""

    node: str
    policy: Policy
    arms: tuple[str, ...]
    """All that there are; used where nothing is known of the node yet."""
    arm: str
    p: float
    """The probability with which it was chosen."""
    user: str
    """Empty: nobody is known, or it does not matter."""


class Score(NamedTuple):
    """How well one version did at one node."""

    node: str
    version: str
    reward: float | None
    accuracy: float | None
    """By a truth that was given."""


class Given(NamedTuple):
    """One feedback."""

    uid: str
    """Of the graph."""
    id: str
    """Of the request."""
    digest: bytes
    """Of all that was given: what tells the same from another."""
    reward: float
    at: float
    """In seconds since 1970."""
    credits: Sequence[Credit]
    scores: Sequence[Score]


class NodeState(NamedTuple):
    node: str
    state: State
    """The shared one."""
    users: int
    """How many have one of their own."""


class Quality(NamedTuple):
    node: str
    version: str
    rewards: int
    reward_sum: float
    truths: int
    accuracy_sum: float


class _Held(NamedTuple):
    """A state, and the number of each of its arms."""

    state: State
    since: dict[str, int]


def opened(path: Path, *, seconds: float = BUSY_SECONDS) -> sqlite3.Connection:
    """Makes the file if it is not there. sqlite3.Error, also when a later release has written it.

    `seconds` is how long each write waits for others.
    """
    connection = sqlite3.connect(path, isolation_level=None, timeout=seconds, check_same_thread=False)
    try:
        _use_wal(connection, seconds)
        connection.execute("PRAGMA synchronous = FULL")
        if _schema(connection) != SCHEMA:
            _make(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def busy(error: sqlite3.Error) -> bool:
    """Only because others write."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


def state(connection: sqlite3.Connection, uid: str, node: str, user: str) -> State | None:
    """The shared one for no user. Of a user: None where they have none of their own; an arm that was added since is
    not in it, and `best` is empty when it was removed."""
    held = _held(connection, uid, node, kept_as(user))
    return held and held.state


def states(connection: sqlite3.Connection, uid: str) -> list[NodeState]:
    nodes = connection.execute("SELECT node, users FROM nodes WHERE uid = ? ORDER BY node", (uid,)).fetchall()
    found = ((node, state(connection, uid, node, ""), users) for node, users in nodes)
    return [NodeState(node, shared, users) for node, shared, users in found if shared is not None]


def qualities(connection: sqlite3.Connection, uid: str) -> list[Quality]:
    rows = connection.execute(
        "SELECT node, version, rewards, reward_sum, truths, accuracy_sum FROM quality WHERE uid = ?"
        " ORDER BY node, version",
        (uid,),
    )
    return [Quality(*row) for row in rows]


def given(connection: sqlite3.Connection, uid: str) -> int:
    """How much feedback there was, as far back as that is kept."""
    return int(connection.execute("SELECT count(*) FROM given WHERE uid = ?", (uid,)).fetchone()[0])


def made(connection: sqlite3.Connection) -> bool:
    """False while whoever makes the file has not come to an end. sqlite3.Error when a later release has written it."""
    found = _schema(connection)
    if found > SCHEMA:
        raise sqlite3.DatabaseError(_LATER.format(found))
    return found == SCHEMA


def begin_state(
    connection: sqlite3.Connection, uid: str, node: str, policy: Policy, arms: Sequence[str], *, rng: Random
) -> State:
    """The shared state, for these arms from now on. The first to ask stores it; all others find the same."""
    found = state(connection, uid, node, "")
    if found is not None and found.arms.keys() == set(arms):
        return found
    with _writing(connection):
        return _begun(connection, uid, node, policy_of(policy), arms, rng=rng).state


def take(
    connection: sqlite3.Connection, batch: Sequence[Given], rng: Random, *, most_users: int = MOST_USERS
) -> list[Outcome]:
    """All of them in one transaction: when this returns, they are durable. sqlite3.Error: none was counted, as far as
    anybody knows; giving them again is safe. ValueError: one has a reward that is none."""
    with _writing(connection):
        taking = _Taking(connection, rng, most_users)
        outcomes = [taking.take(given) for given in batch]
        taking.write()
    return outcomes


def prune(connection: sqlite3.Connection, now: float, max_seconds: float) -> int:
    """Forgets which feedback was given longer ago than that: by then nobody can give it again. Says how many."""
    return _removed(connection, "given", "at < ?", now - max_seconds)


def uids(connection: sqlite3.Connection) -> set[str]:
    """Of all that something is known of."""
    return {uid for table in _KEYS for uid in _uids(connection, table)}


def forget(connection: sqlite3.Connection, uids_alive: Collection[str]) -> set[str]:
    """All that is known of graphs that are no more; says which. One that is made meanwhile, and not among the living
    yet, loses what little it has: its gateways then begin anew."""
    dead = uids(connection) - set(uids_alive)
    for uid in dead:
        for table in _KEYS:
            _removed(connection, table, "uid = ?", uid)
    return dead


def kept_as(name: str) -> str:
    """Of a user or a request, who choose it themselves: one that is long, or not ASCII, has a digest in its place."""
    if name.isascii() and len(name) <= 128 and name[:1] != "#":
        return name
    return "#" + blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


class _Taking:
    """One transaction of feedback: each state is read once and written once, however much it learns."""

    def __init__(self, connection: sqlite3.Connection, rng: Random, most_users: int) -> None:
        self._connection = connection
        self._rng = rng
        self._most_users = most_users
        self._held: dict[tuple[str, str, str], _Held] = {}
        self._learnt: set[tuple[str, str, str]] = set()

    def take(self, given: Given) -> Outcome:
        key = (given.uid, kept_as(given.id))
        before = self._connection.execute("SELECT digest FROM given WHERE uid = ? AND id = ?", key).fetchone()
        if before is not None:
            return "repeated" if before[0] == given.digest else "different"
        self._connection.execute(
            "INSERT INTO given VALUES (?, ?, ?, ?, ?)", (*key, given.digest, given.reward, given.at)
        )
        for credit in given.credits:
            self._credit(given.uid, credit, given.reward)
        for score in given.scores:
            self._score(given.uid, score)
        return "counted"

    def write(self) -> None:
        for uid, node, user in self._learnt:
            _write(self._connection, uid, node, user, self._held[uid, node, user])

    def _credit(self, uid: str, credit: Credit, reward: float) -> None:
        rule = policy_of(credit.policy)
        shared = uid, credit.node, ""
        if shared not in self._held:
            self._held[shared] = _held(self._connection, *shared) or _begun(
                self._connection, uid, credit.node, rule, credit.arms, rng=self._rng
            )
        own = uid, credit.node, kept_as(credit.user) if credit.policy.per_user else ""
        learns = own if own in self._held or self._has_own(own, rule) else shared
        rule.observe(self._held[learns].state, credit.arm, credit.p, reward, self._rng)
        self._learnt.add(learns)

    def _has_own(self, own: tuple[str, str, str], rule: Rule) -> bool:
        """Reads or makes the state of a user. False when there are too many already."""
        uid, node, _ = own
        shared = self._held[uid, node, ""]
        found = _held(self._connection, *own)
        if found is not None:
            known = rule.adjusted(found.state, tuple(shared.state.arms), self._rng)
        elif (
            self._connection.execute(_ANY, own).fetchone()
            or self._connection.execute(
                "UPDATE nodes SET users = users + 1 WHERE uid = ? AND node = ? AND users < ?",
                (uid, node, self._most_users),
            ).rowcount
        ):
            known = shared.state.copy()  # a new one, or one of whose arms none is left
        else:
            return False
        self._held[own] = _Held(known, shared.since)
        return True

    def _score(self, uid: str, score: Score) -> None:
        self._connection.execute(
            """INSERT INTO quality VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (uid, node, version) DO UPDATE SET
            rewards = rewards + excluded.rewards, reward_sum = reward_sum + excluded.reward_sum,
            truths = truths + excluded.truths, accuracy_sum = accuracy_sum + excluded.accuracy_sum""",
            (
                uid, score.node, score.version, score.reward is not None, score.reward or 0.0,
                score.accuracy is not None, score.accuracy or 0.0,
            ),
        )  # fmt: skip


def _held(connection: sqlite3.Connection, uid: str, node: str, user: str) -> _Held | None:
    rows = connection.execute(*((_OWN, (uid, node, user)) if user else (_SHARED, (uid, node)))).fetchall()
    if not rows:
        return None
    best = ""
    arms: dict[str, Arm] = {}
    since: dict[str, int] = {}
    for arm, count, total, weight, is_best, number in rows:
        arms[arm] = Arm(count, total, weight)
        since[arm] = number
        if is_best:
            best = arm
    return _Held(State(arms, best), since)


def _begun(
    connection: sqlite3.Connection, uid: str, node: str, rule: Rule, arms: Sequence[str], *, rng: Random
) -> _Held:
    """Inside a transaction."""
    found = _held(connection, uid, node, "")
    known = rule.init(arms, rng) if found is None else rule.adjusted(found.state, arms, rng)
    connection.execute(
        "INSERT INTO nodes VALUES (?, ?, 1, 0) ON CONFLICT (uid, node) DO UPDATE SET edition = edition + 1", (uid, node)
    )
    (edition,) = connection.execute("SELECT edition FROM nodes WHERE uid = ? AND node = ?", (uid, node)).fetchone()
    since = {} if found is None else found.since
    begun = _Held(known, {arm: since.get(arm, edition) for arm in known.arms})
    _write(connection, uid, node, "", begun)
    return begun


def _write(connection: sqlite3.Connection, uid: str, node: str, user: str, held: _Held) -> None:
    connection.execute("DELETE FROM arms WHERE uid = ? AND node = ? AND user = ?", (uid, node, user))
    connection.executemany(
        "INSERT INTO arms VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (uid, node, user, name, held.since[name], arm.count, arm.total, arm.weight, name == held.state.best)
            for name, arm in held.state.arms.items()
        ],
    )


def _removed(connection: sqlite3.Connection, table: str, where: str, value: object) -> int:
    key = _KEYS[table]
    step = f"DELETE FROM {table} WHERE ({key}) IN (SELECT {key} FROM {table} WHERE {where} LIMIT {STEP})"  # noqa: S608  of our own words
    total = 0
    while removed := connection.execute(step, (value,)).rowcount:
        total += removed
    return total


def _uids(connection: sqlite3.Connection, table: str) -> Iterator[str]:
    """By stepping from one to the next, and not through all rows."""
    uid = ""
    while True:
        (uid,) = connection.execute(f"SELECT min(uid) FROM {table} WHERE uid > ?", (uid,)).fetchone()  # noqa: S608
        if uid is None:
            return
        yield uid


@contextlib.contextmanager
def _writing(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")  # a reader that becomes a writer may find that others have written meanwhile
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            with contextlib.suppress(sqlite3.Error):  # the error that led here says more
                connection.execute("ROLLBACK")
        raise


def _use_wal(connection: sqlite3.Connection, seconds: float) -> None:
    """Of several who open a new file at once, SQLite tells some that it is busy without any waiting."""
    until = time.monotonic() + seconds
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if not busy(error) or time.monotonic() >= until:
                raise
            time.sleep(0.005)
        else:
            return


def _schema(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _make(connection: sqlite3.Connection) -> None:
    with _writing(connection):
        found = _schema(connection)
        if found > SCHEMA:
            raise sqlite3.DatabaseError(_LATER.format(found))
        if found == SCHEMA:  # another was faster
            return
        for table in _TABLES:
            connection.execute(table)
        connection.execute(f"PRAGMA user_version = {SCHEMA}")
