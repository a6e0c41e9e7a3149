"""What was learnt from feedback, for those who only look: state.db is opened to be read, and never made here."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from mizzen.graph.bandits import State
from mizzen.selection import state_db
from mizzen.selection.state_db import NodeState, Quality

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Learnt:
    """Of one graph, all at one moment."""

    nodes: dict[str, NodeState] = field(default_factory=dict)
    """By node, those with a bandit."""
    own: dict[str, State] = field(default_factory=dict)
    """What is known of the user who was asked for, by node; not there where that is what is known of all."""
    qualities: tuple[Quality, ...] = ()
    given: int = 0
    """Feedback that came, as far back as that is kept."""


NOTHING = Learnt()


class Reader:
    """Each call opens the file anew. sqlite3.Error when it is there and cannot be read."""

    def __init__(self, path: Path | None) -> None:
        """None: there is none, as where there is no such file yet."""
        self._path = path

    def of(self, uid: str, user: str = "") -> Learnt:
        def look(connection: sqlite3.Connection) -> Learnt:
            nodes = {each.node: each for each in state_db.states(connection, uid)}
            own = {node: state_db.state(connection, uid, node, user) for node in nodes} if user else {}
            return Learnt(
                nodes,
                {node: state for node, state in own.items() if state is not None},
                tuple(state_db.qualities(connection, uid)),
                state_db.given(connection, uid),
            )

        return self._looked(look, NOTHING)

    def qualities(self) -> list[tuple[str, Quality]]:
        """Of all graphs and models, by uid."""
        return self._looked(
            lambda connection: [
                (uid, quality)
                for uid in sorted(state_db.uids(connection))
                for quality in state_db.qualities(connection, uid)
            ],
            [],
        )

    def _looked(self, look: Callable[[sqlite3.Connection], T], nothing: T) -> T:
        if self._path is None or not self._path.exists():
            return nothing
        place = f"{self._path.absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(place, uri=True, isolation_level=None, timeout=state_db.BUSY_SECONDS)) as opened:
            opened.execute("BEGIN")  # so that all is of one moment
            return look(opened) if state_db.made(opened) else nothing
