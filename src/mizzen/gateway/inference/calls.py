"""One request on its way to a replica, and the ways it may end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from mizzen.gateway.inference.protocols import Options
    from mizzen.gateway.route_table import Endpoint

OK, BAD_REQUEST, FAILED, LOST, UNAVAILABLE, EXPIRED = 200, 400, 500, 502, 503, 504

CEILING_SECONDS = 60.0
"""No request lives longer, whatever it asks for."""

LATE, NOBODY = b"no answer within the deadline", b"no ready model"
"""Why a call may end with a default answer, where its server has one."""


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

    def settle(self, code: int, payload: bytes, now: float, retry: int = 1, *, lacking: bytes = b"") -> None:
        """The end: outputs as JSON text when the code is 200, else a message in UTF-8. At its deadline a call may
        stay live all the same, with a later one: others wait for it, too.

        `retry`: in how many seconds it is worth asking again, where the code is 503; 0: not before somebody acts.
        `lacking`: LATE or NOBODY, where a default answer may take the place of the error.
        """
        raise NotImplementedError

    def found(self, payload: bytes, now: float, mark: bytes) -> None:
        """The end: somebody else asked the same, and this was the answer. `mark` is a header line that says so."""
        raise NotImplementedError

    def missed(self, code: int, payload: bytes) -> None:
        """An answer came after the end."""

    def cancel(self, now: float) -> None:
        """The caller has gone. What was not sent yet never is."""
        raise NotImplementedError

    def parties(self) -> Sequence[Call]:
        """Those who wait for it."""
        return (self,)

    def let_go(self, party: Call) -> None:
        """One of them goes to another queue by itself."""


class Work(Protocol):
    """What goes on for a call elsewhere than in a queue."""

    def abandon(self) -> None:
        """Nobody waits for what comes of it."""


class Placed(Call):
    """A call of something that has a name: it can be asked of whatever the name stands for next."""

    __slots__ = ("endpoint", "work")

    endpoint: Endpoint
    work: Work | None
    """Where the name is that of a graph: its way through it."""

    def move(self, endpoint: Endpoint) -> None:
        """What it waited for is served no more; its name still is."""
        raise NotImplementedError
