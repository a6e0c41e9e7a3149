"""One request on its way to a replica, and the ways it may end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mizzen.gateway.request.head import RequestHead

OK, BAD_REQUEST, FAILED, LOST, UNAVAILABLE, EXPIRED = 200, 400, 500, 502, 503, 504

MAX_SECONDS = 60.0
"""The upper limit for the deadline of any request."""

LATE, NOT_READY = b"no answer within the deadline", b"no ready model"
"""The reasons for which a default output may replace an error."""


class Call:
    """One request on its way to a replica. Subclasses set all fields and implement `finish`."""

    __slots__ = ("began", "deadline", "head", "id", "item", "pending", "retry_alone", "size")

    item: Any
    """Its entry in an INFER frame."""
    id: bytes
    """A valid header value."""
    head: RequestHead
    size: int
    """Approximate size in a frame, in bytes."""
    began: float
    deadline: float
    pending: bool
    """A caller still waits for the answer."""
    retry_alone: bool
    """The process of its batch was lost: the call is sent once more, in a batch of its own."""

    def finish(self, code: int, payload: bytes, now: float, retry: int = 1, *, lacking: bytes = b"") -> None:
        """End the call with outputs as JSON text if the code is 200, else with a message in UTF-8.

        A call that several callers share may stay pending after its deadline, with a later deadline. `retry`: seconds
        after which a retry makes sense, for a 503; 0: not before an admin acts. `lacking`: LATE or NOT_READY, where a
        default output may replace the error.
        """
        raise NotImplementedError

    def finish_from_cache(self, payload: bytes, now: float, mark: bytes) -> None:
        """End the call with the answer to an identical request. `mark` is a header line that says so."""
        raise NotImplementedError

    def on_late_answer(self, code: int, payload: bytes) -> None:
        """The model answered after the call had ended."""

    def cancel(self, now: float) -> None:
        """The caller disconnected. A call that is not sent yet is dropped."""
        raise NotImplementedError

    def waiters(self) -> Sequence[Call]:
        """The calls that wait for this one; usually itself."""
        return (self,)

    def detach(self, waiter: Call) -> None:
        """One of the waiters moves to another queue on its own."""
