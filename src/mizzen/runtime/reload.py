"""New parameters for a model while it answers: loaded beside it in a thread, taken by the server between two batches.

    idle ──begin──> loading ──socket readable──> taken ──> idle

So no request sees both, and none waits.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from mizzen.runtime.frameworks.model import LoadedModel, LoadError

if TYPE_CHECKING:
    from typing import Self  # newer than the oldest Python a runtime works with

log = logging.getLogger("mizzen.runtime")


@dataclass(frozen=True, slots=True)
class Reload:
    """The body of a RELOAD frame."""

    folder: Path
    files: str = ""
    """What they are called; empty when nobody said."""
    entrypoint: str | None = None
    """None, here and below: as at the start."""
    trusted: bool | None = None

    @classmethod
    def of(cls, body: Any) -> Self:
        """ValueError when it is none."""
        if not isinstance(body, dict):
            raise ValueError("a RELOAD frame that holds no map")  # noqa: TRY004 - bad data, not a bad call
        folder, files = body.get("artifacts"), body.get("files", "")
        entrypoint, trusted = body.get("entrypoint"), body.get("trusted")
        if not isinstance(folder, str) or not isinstance(files, str):
            raise ValueError("a RELOAD frame needs artifacts, a text, and may say what they are called")  # noqa: TRY004
        if not isinstance(entrypoint, str | None) or not isinstance(trusted, bool | None):
            raise ValueError("a RELOAD frame with an odd entrypoint or trusted")  # noqa: TRY004
        return cls(Path(folder), files, entrypoint, trusted)


@dataclass(frozen=True, slots=True)
class Outcome:
    wish: Reload
    tokens: list[Any]
    """What `begin` was given, of all who asked for it."""
    model: LoadedModel | None
    fault: str = ""


class Reloader:
    """`socket` is readable when there is an outcome to take. One at a time."""

    def __init__(
        self, load: Callable[[LoadedModel, Reload], LoadedModel], told: Callable[[BaseException], str]
    ) -> None:
        """`told`: an error in words."""
        self._load = load
        self._told = told
        self._wish: Reload | None = None
        """What is under way."""
        self._tokens: list[Any] = []
        self._outcome: Outcome | None = None

    def __enter__(self) -> Self:
        self.socket, self._writer = socket.socketpair()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.socket.close()
        self._writer.close()

    def begin(self, model: LoadedModel, wish: Reload, token: Any) -> bool:
        """False when another one is under way. Who asks for the same, as after a restart of the plane, is told, too."""
        if self._wish is not None:
            if wish == self._wish:
                self._tokens.append(token)
            return wish == self._wish
        self._wish, self._tokens = wish, [token]
        # A daemon: who is told to end need not wait for it.
        threading.Thread(target=self._work, args=(model, wish), name="reload", daemon=True).start()
        return True

    def take_outcome(self) -> Outcome:
        """Once the socket is readable."""
        self.socket.recv(1)
        outcome = self._outcome
        assert outcome is not None
        self._outcome = self._wish = None
        return outcome

    def _work(self, model: LoadedModel, wish: Reload) -> None:
        tokens = self._tokens
        try:
            self._outcome = Outcome(wish, tokens, self._load(model, wish))
        except BaseException as error:  # the user's code may raise anything
            if not isinstance(error, LoadError):
                log.exception("reload")
            self._outcome = Outcome(
                wish, tokens, None, str(error) if isinstance(error, LoadError) else self._told(error)
            )
        with contextlib.suppress(OSError):  # the process ends
            self._writer.send(b"\0")
