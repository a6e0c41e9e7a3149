"""A Plan becomes a closure once, when its Table arrives; a request then costs one call of it.

No input or output, no tasks: a closure hands the call to a Caller and returns. How the answer comes back is a matter
between the call and whoever serves it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from mizzen.graph.table_types import Plan

Call = TypeVar("Call")
Call_contra = TypeVar("Call_contra", contravariant=True)


class Caller(Protocol[Call_contra]):
    """One served version, as a plan sees it."""

    @property
    def ready(self) -> bool:
        """Somebody is there to answer now."""

    @property
    def busy(self) -> int:
        """Calls that wait here or are being answered."""

    def submit(self, call: Call_contra, /) -> None:
        """Takes the call and sees to its end, good or bad. Returns at once."""


def run(plan: Plan, find: Callable[[str], Caller[Call]]) -> Callable[[Call], None]:
    """What to do with each call of this plan. `find` knows the caller of a server's id.

    ValueError when the plan names no server at all.
    """
    callers = [find(server) for server in plan.servers]
    if not callers:
        raise ValueError("a plan without servers answers nothing")
    if len(callers) == 1:
        return callers[0].submit
    return _least_busy(callers)


def _least_busy(callers: Sequence[Caller[Call]]) -> Callable[[Call], None]:
    def submit(call: Call) -> None:
        min(callers, key=_load).submit(call)

    return submit


def _load(caller: Caller[Call]) -> tuple[bool, int]:
    return not caller.ready, caller.busy
