"""Read-only access to state.db, for everything but gateways. Never creates the file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from mizzen.graph.bandits import BanditState
from mizzen.selection import state_db
from mizzen.selection.state_db import NodeState, Quality

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LearnedState:
    """A consistent snapshot of one graph's learned state."""

    nodes: dict[str, NodeState] = field(default_factory=dict)
    """By node; only nodes with a bandit."""
    user_states: dict[str, BanditState] = field(default_factory=dict)
    """States of the requested user by node; absent if the user has none and the shared state applies."""
    qualities: tuple[Quality, ...] = ()
    feedback_count: int = 0
    """Number of feedback entries within the retention time."""


NOTHING_LEARNED = LearnedState()


class StateReader:
    """Each call opens the file. Raises sqlite3.Error if it exists but cannot be read."""

    def __init__(self, path: Path | None) -> None:
        """None: no state, as if the file did not exist."""
        self._path = path

    def read(self, uid: str, user: str = "") -> LearnedState:
        def look(connection: sqlite3.Connection) -> LearnedState:
            nodes = {each.node: each for each in state_db.list_states(connection, uid)}
            own = {node: state_db.read_state(connection, uid, node, user) for node in nodes} if user else {}
            return LearnedState(
                nodes,
                {node: state for node, state in own.items() if state is not None},
                tuple(state_db.list_qualities(connection, uid)),
                state_db.count_feedback(connection, uid),
            )

        return self._query(look, NOTHING_LEARNED)

    def qualities(self) -> list[tuple[str, Quality]]:
        """Return the qualities of all graphs and models, with their uid."""
        return self._query(
            lambda connection: [
                (uid, quality)
                for uid in sorted(state_db.list_uids(connection))
                for quality in state_db.list_qualities(connection, uid)
            ],
            [],
        )

    def _query(self, look: Callable[[sqlite3.Connection], T], nothing: T) -> T:
        if self._path is None or not self._path.exists():
            return nothing
        place = f"{self._path.absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(place, uri=True, isolation_level=None, timeout=state_db.BUSY_SECONDS)) as opened:
            opened.execute("BEGIN")  # for a consistent snapshot
            return look(opened) if state_db.is_created(opened) else nothing
