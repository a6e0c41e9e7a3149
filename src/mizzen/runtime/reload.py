"""Reloading a model's parameters while it serves: loaded in a thread, adopted by the server between two batches.

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
from typing import TYPE_CHECKING, Any

from mizzen.runtime.frameworks.model import LoadedModel, LoadError

if TYPE_CHECKING:
    from typing import Self  # newer than the oldest Python that a runtime supports

log = logging.getLogger("mizzen.runtime")


@dataclass(frozen=True, slots=True)
class Reload:
    """The body of a RELOAD frame."""

    folder: Path
    files: str = ""
    """An identifier of the files; empty if the plane sent none."""
    entrypoint: str | None = None
    """None, here and below: same as at the start."""
    trusted: bool | None = None

    @classmethod
    def of(cls, body: Any) -> Self:
        """Parse the body. Raises ValueError if it is not valid."""
        if not isinstance(body, dict):
            raise ValueError("the body of a RELOAD frame must be a map")  # noqa: TRY004 - bad data, not a bad call
        folder, files = body.get("artifacts"), body.get("files", "")
        entrypoint, trusted = body.get("entrypoint"), body.get("trusted")
        if not isinstance(folder, str) or not isinstance(files, str):
            raise ValueError("a RELOAD frame needs the text artifacts; files must be a text, too")  # noqa: TRY004
        if not isinstance(entrypoint, str | None) or not isinstance(trusted, bool | None):
            raise ValueError("a RELOAD frame has an invalid entrypoint or trusted")  # noqa: TRY004
        return cls(Path(folder), files, entrypoint, trusted)


@dataclass(frozen=True, slots=True)
class ReloadOutcome:
    wish: Reload
    tokens: list[Any]
    """The tokens passed to `begin`, one for each request for this reload."""
    model: LoadedModel | None
    fault: str = ""


class Reloader:
    """Reloads in a thread, one at a time. `socket` is readable when there is an outcome to take."""

    def __init__(
        self, load: Callable[[LoadedModel, Reload], LoadedModel], describe: Callable[[BaseException], str]
    ) -> None:
        """`describe` returns the message of an error."""
        self._load = load
        self._describe = describe
        self._wish: Reload | None = None
        """The reload in progress."""
        self._tokens: list[Any] = []
        self._outcome: ReloadOutcome | None = None

    def __enter__(self) -> Self:
        self.socket, self._writer = socket.socketpair()
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()
        self._writer.close()

    def begin(self, model: LoadedModel, wish: Reload, token: Any) -> bool:
        """Start a reload; False if another one is in progress. A repeated request for the same one, as after a restart
        of the plane, also gets its outcome."""
        if self._wish is not None:
            if wish == self._wish:
                self._tokens.append(token)
            return wish == self._wish
        self._wish, self._tokens = wish, [token]
        # A daemon thread: the process need not wait for it at exit.
        threading.Thread(target=self._work, args=(model, wish), name="reload", daemon=True).start()
        return True

    def take_outcome(self) -> ReloadOutcome:
        """Return the outcome, once the socket is readable."""
        self.socket.recv(1)
        outcome = self._outcome
        assert outcome is not None
        self._outcome = self._wish = None
        return outcome

    def _work(self, model: LoadedModel, wish: Reload) -> None:
        tokens = self._tokens
        try:
            self._outcome = ReloadOutcome(wish, tokens, self._load(model, wish))
        except BaseException as error:  # the user's code may raise anything
            if not isinstance(error, LoadError):
                log.exception("reload")
            self._outcome = ReloadOutcome(
                wish, tokens, None, str(error) if isinstance(error, LoadError) else self._describe(error)
            )
        with contextlib.suppress(OSError):  # the process ends
            self._writer.send(b"\0")
