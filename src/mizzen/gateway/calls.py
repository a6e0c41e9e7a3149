"""One request on its way to a replica, and the ways it may end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mizzen.gateway.dialects import Options

OK, BAD_REQUEST, FAILED, LOST, UNAVAILABLE, EXPIRED = 200, 400, 500, 502, 503, 504


class Call:
    """One request on its way to a replica. Whoever makes one sets all fields and gives `settle` a body."""

    __slots__ = ("alone", "began", "deadline", "id", "item", "live", "options", "size")

    item: Any
    """Its entry in an INFER frame."""
    id: bytes
    """Fit to be the value of a header."""
    options: Options
    size: int
    """Bytes it takes in a frame, near enough."""
    began: float
    deadline: float
    live: bool
    """Nobody waits for the answer of a call that is not."""
    alone: bool
    """It was in a batch whose process was lost: sent once more, and by itself."""

    def settle(self, code: int, payload: bytes, now: float, retry: int = 1) -> None:
        """The end: outputs as JSON text when the code is 200, else a message in UTF-8.

        `retry`: in how many seconds it is worth asking again, where the code is 503; 0: not before somebody acts.
        """
        raise NotImplementedError

    def cancel(self, now: float) -> None:
        """The caller has gone. What was not sent yet never is."""
        raise NotImplementedError
