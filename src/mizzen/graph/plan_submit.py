"""Turns a Plan into a closure that submits calls.

The gateway builds the closure once, when a Table arrives; each request then costs one function call. No I/O, no tasks:
the closure hands the call to a PlanTarget and returns. The target delivers the answer to the call itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from mizzen.graph.table_types import Plan

Call = TypeVar("Call")
Call_contra = TypeVar("Call_contra", contravariant=True)


class PlanTarget(Protocol[Call_contra]):
    """One served version, as a plan sees it."""

    @property
    def ready(self) -> bool:
        """Whether a replica can answer now."""

    @property
    def busy(self) -> int:
        """Number of calls that are queued or in progress."""

    def submit(self, call: Call_contra, /) -> None:
        """Take responsibility for the call until it succeeds or fails. Returns at once."""


def submitter_of(plan: Plan, find: Callable[[str], PlanTarget[Call]]) -> Callable[[Call], None]:
    """Return the function that submits calls of this plan. `find` maps a server id to its target.

    Raises ValueError if the plan has no servers.
    """
    callers = [find(server) for server in plan.servers]
    if not callers:
        raise ValueError("the plan has no servers")
    if len(callers) == 1:
        return callers[0].submit
    return _least_busy_submitter(callers)


def _least_busy_submitter(callers: Sequence[PlanTarget[Call]]) -> Callable[[Call], None]:
    def submit(call: Call) -> None:
        min(callers, key=_load_of).submit(call)

    return submit


def _load_of(caller: PlanTarget[Call]) -> tuple[bool, int]:
    return not caller.ready, caller.busy
