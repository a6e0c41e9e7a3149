"""A gateway's cache of bandit states: read from state.db only when it has changed.

The marker that all gateways share says whether it has (`change_marker.py`). So acknowledged feedback affects the next
choice of every gateway, and without changes a choice does not touch the file. Everything runs in the event loop: a
switch to a thread costs ten times as much as a read.

A prediction must never fail because of learned state. While the file cannot be read, bandits choose by the last known
state, or from an empty one; the file is retried once a second.
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

from mizzen.graph.bandits import BanditState, Choice, policy_of
from mizzen.graph.table_types import Policy
from mizzen.selection import state_db
from mizzen.selection.change_marker import ChangeMarker

BUSY_SECONDS = 0.25
"""How long a new plan waits for other writers; nothing else here waits."""
PAUSE_SECONDS = 1.0
"""Pause after a failure."""
MAX_USERS = 4096
"""Users of a node whose states are cached; the states of others are read again."""

T = TypeVar("T")

log = logging.getLogger(__name__)


class StateCache:
    """One gateway's view of the file. Opened when the first bandit appears."""

    def __init__(
        self, path: Path, marker_path: Path, rng: Random, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._path = path
        self._marker_path = marker_path
        self._rng = rng
        self._clock = clock
        self._connection: sqlite3.Connection | None = None
        self._marker: ChangeMarker | None = None
        self._cell: _Cell | None = None
        self._retry_at = 0.0
        """When the file may be tried again."""
        self._warned = False

    def selector_for(self, uid: str, node: str, policy: Policy, arms: Sequence[str]) -> Selector:
        """Return the Selector for this node, valid while its plan is. The stored state has these arms from now on."""
        if self._cell is None:
            self._cell = self._open_marker()
        return Selector(self, self._cell, self._rng, uid=uid, node=node, policy=policy, arms=tuple(arms))

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def try_with(self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        """Call `work` with a connection; None if the file cannot be used now."""
        if self._clock() < self._retry_at:
            return None
        try:
            if self._connection is None:
                self._connection = state_db.open_db(self._path, seconds=BUSY_SECONDS)
            found = work(self._connection)
        except sqlite3.Error as error:
            self.close()
            self._retry_at = self._clock() + PAUSE_SECONDS
            self._warn_once(error)
            return None
        if self._warned:
            log.info("%s can be used again", self._path.name)
            self._warned = False
        return found

    def bump(self) -> None:
        if self._marker is not None:
            self._marker.bump()

    def _open_marker(self) -> _Cell:
        try:
            self._marker = ChangeMarker(self._marker_path)
        except OSError as error:
            log.warning(
                "%s cannot be mapped, so each choice reads the learned state again: %s", self._marker_path.name, error
            )
            return _AlwaysChanged()
        return self._marker.cell

    def _warn_once(self, error: Exception) -> None:
        if not self._warned:
            self._warned = True
            log.warning("%s cannot be used; bandits choose by the last known state: %s", self._path.name, error)


class Selector:
    """Chooses an arm at one node."""

    __slots__ = (
        "_arms", "_bandit", "_cache", "_cell", "_node", "_per_user", "_policy", "_rng", "_seen_marker", "_select",
        "_shared", "_started", "_uid", "_user_states",
    )  # fmt: skip

    def __init__(
        self, cache: StateCache, cell: _Cell, rng: Random, *, uid: str, node: str, policy: Policy, arms: tuple[str, ...]
    ) -> None:
        self._cache = cache
        self._cell = cell
        self._rng = rng
        self._uid = uid
        self._node = node
        self._policy = policy
        self._arms = arms
        self._per_user = policy.per_user
        self._bandit = policy_of(policy)
        self._select = self._bandit.select
        self._started = False
        """The file has this plan's arms."""
        self._shared = self._bandit.init(arms, rng)
        self._seen_marker = -1
        """The marker when `_shared` was read; a marker is never -1."""
        self._user_states: dict[str, tuple[int, BanditState | None]] = {}
        """By user: the marker, and their state, or None if they have none."""
        self._read_shared(cell[0])

    def choose(self, user: str) -> Choice:
        """Return an arm and the probability of choosing it. `user` may be empty."""
        word = self._cell[0]
        if user and self._per_user:
            known = self._user_states.get(user)
            if known is None or known[0] != word:
                known = self._read_user(user, word)
            if known[1] is not None:
                return self._select(known[1], self._rng)
        if word != self._seen_marker:
            self._read_shared(word)
        return self._select(self._shared, self._rng)

    def _read_shared(self, word: int) -> None:
        found = self._cache.try_with(self._load_or_create)
        if found is not None:
            # A gateway with another plan may have stored other arms.
            self._shared = self._bandit.adjust_arms(found, self._arms, self._rng)
            self._seen_marker = word

    def _load_or_create(self, connection: sqlite3.Connection) -> BanditState:
        if self._started:
            found = state_db.read_state(connection, self._uid, self._node, "")
            if found is not None:
                return found
        found = state_db.begin_state(connection, self._uid, self._node, self._policy, self._arms, rng=self._rng)
        self._started = True
        self._cache.bump()
        return found

    def _read_user(self, user: str, word: int) -> tuple[int, BanditState | None]:
        # In a list, because None is a valid result.
        found = self._cache.try_with(lambda connection: [state_db.read_state(connection, self._uid, self._node, user)])
        if found is None:
            return self._user_states.get(user) or (-1, None)
        state = found[0] and self._bandit.adjust_arms(found[0], self._arms, self._rng)
        if user not in self._user_states and len(self._user_states) >= MAX_USERS:
            del self._user_states[next(iter(self._user_states))]
        known = self._user_states[user] = (word, state)
        return known


class _Cell(Protocol):
    def __getitem__(self, place: int, /) -> int: ...


class _AlwaysChanged:
    """Replaces a marker that cannot be mapped: every read differs, so no change is missed."""

    def __init__(self) -> None:
        self._next = count().__next__

    def __getitem__(self, place: int, /) -> int:
        return self._next()
