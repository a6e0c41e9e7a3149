"""What bandits know, as a gateway looks at it for each request: read from state.db when it has changed, and only then.

The word that all gateways share says whether it has (`word.py`). So what was acknowledged to anybody is in the next
choice of every gateway, and a choice without a change costs no look into the file. All of it happens in the event loop:
a thread's turn costs ten times a read.

A prediction must not fail because of what is learnt. While the file cannot be read, choices go on by what is known, or
from nothing; the file is tried again once a second.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from random import Random
from typing import Protocol, TypeVar

from mizzen.graph.bandits import Choice, State, policy_of
from mizzen.graph.table_types import Policy
from mizzen.selection import state_db
from mizzen.selection.change_marker import Word

BUSY_SECONDS = 0.25
"""How long a plan that is new waits for others to write; nothing else here waits for anybody."""
PAUSE_SECONDS = 1.0
"""After a failure, nothing is tried for so long."""
MOST_USERS = 4096
"""Whose states are in memory, of each node; those of others are read again."""

T = TypeVar("T")

log = logging.getLogger(__name__)


class View:
    """The file, as one gateway reads it. Opened when the first bandit is there."""

    def __init__(self, path: Path, word: Path, rng: Random, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._word_path = word
        self._rng = rng
        self._clock = clock
        self._connection: sqlite3.Connection | None = None
        self._word: Word | None = None
        self._cell: _Cell | None = None
        self._again = 0.0
        """When the file may be tried."""
        self._complained = False

    def of(self, uid: str, node: str, policy: Policy, arms: Sequence[str]) -> Selector:
        """How to choose at this node, for as long as its plan is used. What is stored has these arms from now on."""
        if self._cell is None:
            self._cell = self._look()
        return Selector(self, self._cell, self._rng, uid=uid, node=node, policy=policy, arms=tuple(arms))

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def attempt(self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        """None when the file cannot be used just now."""
        if self._clock() < self._again:
            return None
        try:
            if self._connection is None:
                self._connection = state_db.opened(self._path, seconds=BUSY_SECONDS)
            found = work(self._connection)
        except sqlite3.Error as error:
            self.close()
            self._again = self._clock() + PAUSE_SECONDS
            self._complain(error)
            return None
        if self._complained:
            log.info("%s can be used again", self._path.name)
            self._complained = False
        return found

    def bump(self) -> None:
        if self._word is not None:
            self._word.bump()

    def _look(self) -> _Cell:
        try:
            self._word = Word(self._word_path)
        except OSError as error:
            log.warning(
                "%s cannot be mapped, so each choice reads what is learnt anew: %s", self._word_path.name, error
            )
            return _Restless()
        return self._word.cell

    def _complain(self, error: Exception) -> None:
        if not self._complained:
            self._complained = True
            log.warning("%s cannot be used; bandits choose by what they knew: %s", self._path.name, error)


class Selector:
    """Chooses at one node."""

    __slots__ = (
        "_arms", "_begun", "_cell", "_node", "_own", "_per_user", "_policy", "_rng", "_rule", "_seen", "_select",
        "_shared", "_uid", "_view",
    )  # fmt: skip

    def __init__(
        self, view: View, cell: _Cell, rng: Random, *, uid: str, node: str, policy: Policy, arms: tuple[str, ...]
    ) -> None:
        self._view = view
        self._cell = cell
        self._rng = rng
        self._uid = uid
        self._node = node
        self._policy = policy
        self._arms = arms
        self._per_user = policy.per_user
        self._rule = policy_of(policy)
        self._select = self._rule.select
        self._begun = False
        """This plan's arms are those of the file."""
        self._shared = self._rule.init(arms, rng)
        self._seen = -1
        """The word that was there when `_shared` was read; no word is -1."""
        self._own: dict[str, tuple[int, State | None]] = {}
        """Of users: the word, and their state, or None where they have none."""
        self._read_shared(cell[0])

    def choose(self, user: str) -> Choice:
        """An arm, and the probability with which it was chosen. `user` may be empty."""
        word = self._cell[0]
        if user and self._per_user:
            known = self._own.get(user)
            if known is None or known[0] != word:
                known = self._read_own(user, word)
            if known[1] is not None:
                return self._select(known[1], self._rng)
        if word != self._seen:
            self._read_shared(word)
        return self._select(self._shared, self._rng)

    def _read_shared(self, word: int) -> None:
        found = self._view.attempt(self._stored)
        if found is not None:
            # A gateway that has another plan may have stored other arms.
            self._shared = self._rule.adjusted(found, self._arms, self._rng)
            self._seen = word

    def _stored(self, connection: sqlite3.Connection) -> State:
        if self._begun:
            found = state_db.state(connection, self._uid, self._node, "")
            if found is not None:
                return found
        found = state_db.begin_state(connection, self._uid, self._node, self._policy, self._arms, rng=self._rng)
        self._begun = True
        self._view.bump()
        return found

    def _read_own(self, user: str, word: int) -> tuple[int, State | None]:
        # In a list, since None is an answer of its own.
        found = self._view.attempt(lambda connection: [state_db.state(connection, self._uid, self._node, user)])
        if found is None:
            return self._own.get(user) or (-1, None)
        state = found[0] and self._rule.adjusted(found[0], self._arms, self._rng)
        if user not in self._own and len(self._own) >= MOST_USERS:
            del self._own[next(iter(self._own))]
        known = self._own[user] = (word, state)
        return known


class _Cell(Protocol):
    def __getitem__(self, place: int, /) -> int: ...


class _Restless:
    """In place of the word when there is none: it always differs from what was seen, so no change is missed."""

    def __init__(self) -> None:
        self._next = count().__next__

    def __getitem__(self, place: int, /) -> int:
        return self._next()
