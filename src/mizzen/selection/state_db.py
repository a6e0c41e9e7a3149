"""state.db: bandit states, received feedback, and the quality of nodes. Functions on a connection.

All gateways of a plane write it, in short transactions that begin as writers, so that no count is lost. Commits survive
kill -9 and power loss (WAL, synchronous=FULL).

Each node has one shared state, and with `perUser` one state per user who sent feedback. Only the shared state defines
the arms: `begin_state` sets them when a gateway takes a plan. Feedback never does; else a gateway with the old plan
would restore arms that an edit removed. An added arm gets a number (`since`) that distinguishes it from a removed arm
of the same name. Users' rows of the removed arm no longer count, and need not be deleted user by user.
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

from mizzen.graph.bandits import Arm, BanditPolicy, BanditState, policy_of
from mizzen.graph.table_types import Policy

FILE = "state.db"
"""In the data dir."""
SCHEMA = 1
BUSY_SECONDS = 1.0
"""How long a writer waits for others; a write takes about as long as a disk sync."""
MAX_USERS = 100_000
"""Users of one node with their own state; more users use the shared state."""
DELETE_BATCH = 1000
"""Rows removed per transaction, so that other writers get a turn in between."""

FeedbackOutcome = Literal["counted", "repeated", "different"]
"""Of one feedback. repeated: the same was received before. different: other feedback was. Both change nothing."""

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

_ANY = "SELECT 1 FROM arms WHERE uid = ? AND node = ? AND user = ? LIMIT 1"


class Credit(NamedTuple):
    """A routing decision that learns from a feedback."""

    node: str
    policy: Policy
    arms: tuple[str, ...]
    """All arms; used if the node has no state yet."""
    arm: str
    p: float
    """The probability of choosing it."""
    user: str
    """Empty: unknown or irrelevant."""


class Score(NamedTuple):
    """Quality of one version at one node."""

    node: str
    version: str
    reward: float | None
    accuracy: float | None
    """Measured against ground truth from the feedback."""


class FeedbackEntry(NamedTuple):
    """One feedback."""

    uid: str
    """Of the graph."""
    id: str
    """Of the request."""
    digest: bytes
    """Of the whole feedback; distinguishes a repetition from other feedback."""
    reward: float
    at: float
    """Seconds since 1970."""
    credits: Sequence[Credit]
    scores: Sequence[Score]


class NodeState(NamedTuple):
    node: str
    state: BanditState
    """The shared state."""
    users: int
    """Number of users with their own state."""


class Quality(NamedTuple):
    node: str
    version: str
    rewards: int
    reward_sum: float
    truths: int
    accuracy_sum: float


class _NumberedState(NamedTuple):
    """A state, and the `since` number of each arm."""

    state: BanditState
    since: dict[str, int]


def open_db(path: Path, *, seconds: float = BUSY_SECONDS) -> sqlite3.Connection:
    """Open the file, and create it if it is missing. Raises sqlite3.Error, also if a newer Mizzen wrote it.

    `seconds`: how long each write waits for others.
    """
    connection = sqlite3.connect(path, isolation_level=None, timeout=seconds, check_same_thread=False)
    try:
        _use_wal(connection, seconds)
        connection.execute("PRAGMA synchronous = FULL")
        if not is_created(connection):
            _create_tables(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def is_busy(error: sqlite3.Error) -> bool:
    """Whether the error is only due to other writers."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


def read_state(connection: sqlite3.Connection, uid: str, node: str, user: str) -> BanditState | None:
    """Return a user's state, None if the user has none; for an empty user the shared state. A user's state lacks arms
    that were added since, and its `best` is empty if that arm was removed."""
    held = _load(connection, uid, node, storage_name(user))
    return held and held.state


def list_states(connection: sqlite3.Connection, uid: str) -> list[NodeState]:
    nodes = connection.execute("SELECT node, users FROM nodes WHERE uid = ? ORDER BY node", (uid,)).fetchall()
    found = ((node, read_state(connection, uid, node, ""), users) for node, users in nodes)
    return [NodeState(node, shared, users) for node, shared, users in found if shared is not None]


def list_qualities(connection: sqlite3.Connection, uid: str) -> list[Quality]:
    rows = connection.execute(
        "SELECT node, version, rewards, reward_sum, truths, accuracy_sum FROM quality WHERE uid = ?"
        " ORDER BY node, version",
        (uid,),
    )
    return [Quality(*row) for row in rows]


def count_feedback(connection: sqlite3.Connection, uid: str) -> int:
    """Count the feedback within the retention time."""
    return int(connection.execute("SELECT count(*) FROM given WHERE uid = ?", (uid,)).fetchone()[0])


def is_created(connection: sqlite3.Connection) -> bool:
    """False while the file is still being created. Raises sqlite3.Error if a newer Mizzen wrote it."""
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version > SCHEMA:
        raise sqlite3.DatabaseError(f"a newer Mizzen wrote {FILE} (schema {version}; this version supports {SCHEMA})")
    return version == SCHEMA


def begin_state(
    connection: sqlite3.Connection, uid: str, node: str, policy: Policy, arms: Sequence[str], *, rng: Random
) -> BanditState:
    """Return the shared state, with these arms from now on. The first caller stores it; all others find the same."""
    found = read_state(connection, uid, node, "")
    if found is not None and found.arms.keys() == set(arms):
        return found
    with _transaction(connection):
        return _begin(connection, uid, node, policy_of(policy), arms, rng=rng).state


def record_feedback(
    connection: sqlite3.Connection, batch: Sequence[FeedbackEntry], rng: Random, *, max_users: int = MAX_USERS
) -> list[FeedbackOutcome]:
    """Record a batch in one transaction; it is durable on return. Raises sqlite3.Error if it is not known to be
    counted; submitting it again is safe. Raises ValueError for an invalid reward."""
    with _transaction(connection):
        taking = _FeedbackTransaction(connection, rng, max_users)
        outcomes = [taking.record(given) for given in batch]
        taking.write()
    return outcomes


def prune(connection: sqlite3.Connection, now: float, max_seconds: float) -> int:
    """Delete feedback ids older than `max_seconds`: such feedback can no longer arrive. Returns how many."""
    return _remove(connection, "given", "at < ?", now - max_seconds)


def list_uids(connection: sqlite3.Connection) -> set[str]:
    """Return the uids of all stored objects."""
    return {uid for table in _KEYS for uid in _list_uids(connection, table)}


def forget(connection: sqlite3.Connection, uids_alive: Collection[str]) -> set[str]:
    """Delete everything about deleted graphs and return their uids. A graph that is created meanwhile and missing from
    `uids_alive` loses its little state; its gateways then start over."""
    dead = list_uids(connection) - set(uids_alive)
    for uid in dead:
        for table in _KEYS:
            _remove(connection, table, "uid = ?", uid)
    return dead


def storage_name(name: str) -> str:
    """Return the stored form of a user or request id. Clients choose them; a digest replaces long or non-ASCII ones."""
    if name.isascii() and len(name) <= 128 and name[:1] != "#":
        return name
    return "#" + blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


class _FeedbackTransaction:
    """One transaction of feedback. Each state is read once and written once, however much feedback it gets."""

    def __init__(self, connection: sqlite3.Connection, rng: Random, max_users: int) -> None:
        self._connection = connection
        self._rng = rng
        self._max_users = max_users
        self._states: dict[tuple[str, str, str], _NumberedState] = {}
        self._changed: set[tuple[str, str, str]] = set()

    def record(self, feedback: FeedbackEntry) -> FeedbackOutcome:
        key = (feedback.uid, storage_name(feedback.id))
        before = self._connection.execute("SELECT digest FROM given WHERE uid = ? AND id = ?", key).fetchone()
        if before is not None:
            return "repeated" if before[0] == feedback.digest else "different"
        self._connection.execute(
            "INSERT INTO given VALUES (?, ?, ?, ?, ?)", (*key, feedback.digest, feedback.reward, feedback.at)
        )
        for credit in feedback.credits:
            self._credit(feedback.uid, credit, feedback.reward)
        for score in feedback.scores:
            self._score(feedback.uid, score)
        return "counted"

    def write(self) -> None:
        for uid, node, user in self._changed:
            _write_state(self._connection, uid, node, user, self._states[uid, node, user])

    def _credit(self, uid: str, credit: Credit, reward: float) -> None:
        rule = policy_of(credit.policy)
        shared = uid, credit.node, ""
        if shared not in self._states:
            self._states[shared] = _load(self._connection, *shared) or _begin(
                self._connection, uid, credit.node, rule, credit.arms, rng=self._rng
            )
        own = uid, credit.node, storage_name(credit.user) if credit.policy.per_user else ""
        learns = own if own in self._states or self._load_user_state(own, rule) else shared
        rule.observe(self._states[learns].state, credit.arm, credit.p, reward, self._rng)
        self._changed.add(learns)

    def _load_user_state(self, own: tuple[str, str, str], bandit: BanditPolicy) -> bool:
        """Load or create a user's state. False if there are too many users already."""
        uid, node, _ = own
        shared = self._states[uid, node, ""]
        found = _load(self._connection, *own)
        if found is not None:
            known = bandit.adjust_arms(found.state, tuple(shared.state.arms), self._rng)
        elif (
            self._connection.execute(_ANY, own).fetchone()
            or self._connection.execute(
                "UPDATE nodes SET users = users + 1 WHERE uid = ? AND node = ? AND users < ?",
                (uid, node, self._max_users),
            ).rowcount
        ):
            known = shared.state.copy()  # a new user, or one with no arm left
        else:
            return False
        self._states[own] = _NumberedState(known, shared.since)
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


def _load(connection: sqlite3.Connection, uid: str, node: str, user: str) -> _NumberedState | None:
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
    return _NumberedState(BanditState(arms, best), since)


def _begin(
    connection: sqlite3.Connection, uid: str, node: str, bandit: BanditPolicy, arms: Sequence[str], *, rng: Random
) -> _NumberedState:
    """Create or adjust the shared state. Call it inside a transaction."""
    found = _load(connection, uid, node, "")
    known = bandit.init(arms, rng) if found is None else bandit.adjust_arms(found.state, arms, rng)
    connection.execute(
        "INSERT INTO nodes VALUES (?, ?, 1, 0) ON CONFLICT (uid, node) DO UPDATE SET edition = edition + 1", (uid, node)
    )
    (edition,) = connection.execute("SELECT edition FROM nodes WHERE uid = ? AND node = ?", (uid, node)).fetchone()
    since = {} if found is None else found.since
    begun = _NumberedState(known, {arm: since.get(arm, edition) for arm in known.arms})
    _write_state(connection, uid, node, "", begun)
    return begun


def _write_state(connection: sqlite3.Connection, uid: str, node: str, user: str, held: _NumberedState) -> None:
    connection.execute("DELETE FROM arms WHERE uid = ? AND node = ? AND user = ?", (uid, node, user))
    connection.executemany(
        "INSERT INTO arms VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (uid, node, user, name, held.since[name], arm.count, arm.total, arm.weight, name == held.state.best)
            for name, arm in held.state.arms.items()
        ],
    )


def _remove(connection: sqlite3.Connection, table: str, where: str, value: object) -> int:
    key = _KEYS[table]
    step = f"DELETE FROM {table} WHERE ({key}) IN (SELECT {key} FROM {table} WHERE {where} LIMIT {DELETE_BATCH})"  # noqa: S608 - constant names
    total = 0
    while removed := connection.execute(step, (value,)).rowcount:
        total += removed
    return total


def _list_uids(connection: sqlite3.Connection, table: str) -> Iterator[str]:
    """Yield uids by index steps rather than a scan of all rows."""
    uid = ""
    while True:
        (uid,) = connection.execute(f"SELECT min(uid) FROM {table} WHERE uid > ?", (uid,)).fetchone()  # noqa: S608
        if uid is None:
            return
        yield uid


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")  # a reader that becomes a writer could fail because of writes in between
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            with contextlib.suppress(sqlite3.Error):  # the original error is more useful
                connection.execute("ROLLBACK")
        raise


def _use_wal(connection: sqlite3.Connection, seconds: float) -> None:
    """Retry while busy: if several processes open a new file at once, SQLite reports busy without waiting."""
    until = time.monotonic() + seconds
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() >= until:
                raise
            time.sleep(0.005)
        else:
            return


def _create_tables(connection: sqlite3.Connection) -> None:
    with _transaction(connection):
        if is_created(connection):  # another process was faster
            return
        for table in _TABLES:
            connection.execute(table)
        connection.execute(f"PRAGMA user_version = {SCHEMA}")
