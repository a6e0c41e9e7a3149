"""A plan's closure: which of its servers gets a call."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mizzen.graph import plan_submit
from mizzen.graph.table_types import Plan


@dataclass
class Listed:
    """A Caller that keeps what it gets."""

    ready: bool = True
    load: int = 0
    calls: list[str] = field(default_factory=list)

    @property
    def busy(self) -> int:
        return self.load + len(self.calls)

    def submit(self, call: str) -> None:
        self.calls.append(call)


def plan_of(callers: dict[str, Listed]) -> Plan:
    return Plan(servers=tuple(callers))


def test_one_server_gets_everything() -> None:
    callers = {"a": Listed(ready=False, load=99)}
    run = plan_submit.submitter_of(plan_of(callers), callers.__getitem__)
    run("x")
    run("y")
    assert callers["a"].calls == ["x", "y"]


def test_the_least_busy_gets_the_call() -> None:
    callers = {"a": Listed(load=2), "b": Listed(load=1), "c": Listed(load=5)}
    run = plan_submit.submitter_of(plan_of(callers), callers.__getitem__)
    for call in "xyz":
        run(call)
    assert callers["b"].calls == ["x", "z"]
    assert callers["a"].calls == ["y"]


def test_ready_ones_come_first_however_busy() -> None:
    callers = {"a": Listed(ready=False), "b": Listed(load=1000)}
    run = plan_submit.submitter_of(plan_of(callers), callers.__getitem__)
    run("x")
    assert callers["b"].calls == ["x"]
    callers["b"].ready = False
    run("y")
    assert callers["a"].calls == ["y"]


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9)), min_size=1, max_size=6))
def test_never_a_worse_one(states: list[tuple[bool, int]]) -> None:
    callers = {str(at): Listed(ready, load) for at, (ready, load) in enumerate(states)}
    plan_submit.submitter_of(plan_of(callers), callers.__getitem__)("x")
    [chosen] = [caller for caller in callers.values() if caller.calls]
    best = min((not ready, load) for ready, load in states)
    assert (not chosen.ready, chosen.load) == best


def test_a_plan_without_servers_is_no_plan() -> None:
    nobody: dict[str, Listed] = {}
    with pytest.raises(ValueError, match="has no servers"):
        plan_submit.submitter_of(Plan(servers=()), nobody.__getitem__)


def test_an_unknown_server_is_said_at_once() -> None:
    nobody: dict[str, Listed] = {}
    with pytest.raises(KeyError):
        plan_submit.submitter_of(Plan(servers=("a",)), nobody.__getitem__)
