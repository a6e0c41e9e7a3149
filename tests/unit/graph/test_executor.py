"""Requests through graphs of any shape come to what the reference says, whatever is slow, late or broken on the way."""

from __future__ import annotations

import heapq
import struct
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from msgspec import structs

from mizzen.graph import table_types
from mizzen.graph.executor import CALL, MERGE, REQUEST, Entries, Failure, GraphRun, Message, MissingMessage
from mizzen.graph.messages import array_of
from mizzen.graph.prepared_nodes import PreparedNode, prepare_nodes, with_node_name
from mizzen.protocol.frames import framing
from tests.unit.graph import reference
from tests.unit.graph.random_graphs import Case, cases, random_case
from tests.unit.graph.reference import Outcome, Place

FOREVER = 10**9
PARTS = {CALL: "implementation", MERGE: "merge"}


def entries_of(message: reference.Message) -> Entries:
    return [
        (name, "FP64", [len(values)], framing.RAW, memoryview(struct.pack(f"<{len(values)}d", *values)))
        for name, values in message.items()
    ]


def message_of(entries: Entries) -> reference.Message:
    return {entry[0]: array_of(entry).tolist() for entry in entries}


class Asked:
    """A call that is under way."""

    def __init__(
        self, shape: PreparedNode, phase: int, about: Message, outcome: Outcome, sent: reference.Message
    ) -> None:
        self.shape, self.phase, self.about, self.outcome, self.sent = shape, phase, about, outcome, sent
        self.live = True


class Acted(GraphRun):
    """A run in a time that passes when nothing else happens."""

    def __init__(self, case: Case) -> None:
        limits = [limit for limit in (case.deadline, case.graph.timeout_ms) if limit is not None]
        super().__init__(prepare_nodes(case.graph), float(min(limits, default=FOREVER)))
        self.case = case
        self.time = 0
        self.events: list[tuple[int, int, Asked, bool]] = []
        self.serial = 0
        self.called: set[tuple[Place, str]] = set()
        self.ends: list[Failure | None] = []
        self.dropped: list[Asked] = []
        for shape in self.nodes:
            shape.timeout = shape.spec.timeout_ms  # ticks are milliseconds
            shape.target = shape.spec.call
            shape.choose = self._chooser(shape)

    def _chooser(self, shape: PreparedNode) -> Any:
        if shape.route is None or shape.route.kind == "call" or len(shape.next) < 2:
            return None
        names = [child.name for child, _ in shape.next]

        def choose(run: GraphRun) -> tuple[int, float]:
            key = self.choosing[shape.place]
            return names.index(self.case.choices[shape.name, key][0]), 0.0

        return choose

    choosing: dict[int, str] = {}  # noqa: RUF012 - set for each run

    def _route(self, shape: PreparedNode, message: Message) -> None:
        self.choosing = {shape.place: message.key}
        super()._route(shape, message)

    def now(self) -> float:
        return self.time

    def place_of(self, pending_call: Any) -> int:
        place: int = pending_call.shape.place
        return place

    def cancel_call(self, pending_call: Any) -> None:
        pending_call.live = False
        self.dropped.append(pending_call)

    def call_target(
        self,
        shape: PreparedNode,
        phase: int,
        message: Message,
        entries: Entries,
        *,
        deadline: float,
        extra_inputs: dict[str, str] | None = None,
    ) -> None:
        calls = self.case.script.of((shape.name, message.key))
        outcome = calls.implementation if phase == CALL else calls.merge if phase == MERGE else calls.route
        sent = message_of(entries)
        in_time = self.time < deadline
        if in_time and outcome.takes and len(sent) != 1:
            self.on_failure(shape, message, self._unfit(shape, message))
            return
        if in_time:
            self.called.add(((shape.name, message.key), PARTS.get(phase, "route")))
        asked = Asked(shape, phase, message, outcome, sent)
        self.pending.add(asked)
        self.serial += 1
        late = self.time + outcome.ticks > deadline
        at = int(max(deadline, self.time)) if late else self.time + outcome.ticks
        heapq.heappush(self.events, (at, self.serial, asked, late))

    def _unfit(self, shape: PreparedNode, message: Message) -> Failure:
        if message.origin == REQUEST:
            return Failure(400, with_node_name(shape, "unfit"), shape.place, message.order)
        giver = self.nodes[message.origin].name
        return Failure(502, f"node '{shape.name}' cannot take what node '{giver}' gave", shape.place, message.order)

    def answer(self) -> None:
        self.ends.append(None)

    def refuse(self, failure: Failure) -> None:
        self.ends.append(failure)

    def act(self) -> None:
        self.begin(entries_of(self.case.request))
        while self.events and not self.finished:
            self.time, _, asked, late = heapq.heappop(self.events)
            if asked.live:
                self._happen(asked, late)
        assert self.finished, "it never ended"

    def _happen(self, asked: Asked, late: bool) -> None:
        self.pending.discard(asked)
        shape, message, outcome = asked.shape, asked.about, asked.outcome
        if late:
            self.on_failure(shape, message, Failure(504, with_node_name(shape, "late"), shape.place, message.order))
        elif outcome.code == 400:
            self.on_failure(shape, message, self._unfit(shape, message))
        elif outcome.code != reference.ANSWERED:
            code = 502 if outcome.code == 500 else outcome.code
            self.on_failure(shape, message, Failure(code, with_node_name(shape, "broken"), shape.place, message.order))
        else:
            sent = {outcome.takes: next(iter(asked.sent.values()))} if outcome.takes else asked.sent
            routes = asked.phase not in (CALL, MERGE)
            given = {} if routes and outcome.empty else outcome.answer(sent)
            self.on_answer(shape, asked.phase, message, entries_of(given), outcome.route if routes else None)


def without_thresholds(case: Case) -> Case:
    """Where there are votes: what a threshold gives are integers, which are no votes for a float; the reference knows
    no datatypes."""
    if not any(node.merge is not None and node.merge.kind == "vote" for node in case.graph.nodes):
        return case
    nodes = tuple(
        structs.replace(node, merge=node.merge and structs.replace(node.merge, threshold=None))
        for node in case.graph.nodes
    )
    return replace(case, graph=structs.replace(case.graph, nodes=nodes))


def compare(case: Case) -> None:
    case = without_thresholds(case)
    wanted = reference.interpret(case.graph, case.script, case.request, case.deadline, case.choices)
    run = Acted(case)
    run.act()
    assert len(run.ends) == 1
    lost = run.ends[0]
    if wanted.failure is not None:
        assert lost is not None, f"it answered; expected {wanted.failure}"
        assert (lost.code, _named(lost)) in {(each.code, each.node) for each in wanted.failures}
        assert lost.code == wanted.failure.code or len(wanted.failures) > 1
        assert not run.pending
        return
    assert lost is None, f"{lost}; expected an answer"
    assert [output.key for output in run.outputs] == [output.key for output in wanted.outputs]
    for output, expected in zip(run.outputs, wanted.outputs, strict=True):
        if expected.values is None:
            assert type(output.result) is MissingMessage
            assert expected.error is not None
            assert (output.result.failure.code, _named(output.result.failure)) == (
                expected.error.code,
                expected.error.node,
            )
        else:
            assert isinstance(output.result, list)
            found = message_of(output.result)
            assert list(found) == list(expected.values)
            for name, values in expected.values.items():
                assert found[name] == pytest.approx(values, rel=1e-9, abs=1e-9)
    assert tuple(node.name for node, taken in zip(case.graph.nodes, run.reached, strict=True) if taken) == wanted.taken
    decisions = sorted(run.decisions, key=lambda each: (each.place, each.order))
    assert [(each.key, _names(case, each.chosen)) for each in decisions] == [
        (each.key, each.children) for each in wanted.decisions
    ]
    assert run.confidence == (None if wanted.confidence is None else pytest.approx(wanted.confidence))
    assert run.called == wanted.called
    assert run.time == wanted.at


def _named(failure: Failure) -> str:
    return failure.text.split("'")[1]


def _names(case: Case, places: Sequence[int]) -> tuple[str, ...]:
    return tuple(case.graph.nodes[place].name for place in places)


@settings(deadline=None)
@given(cases())
def test_a_request_comes_to_what_the_reference_says(case: Case) -> None:
    compare(case)


@pytest.mark.parametrize("seed", range(300))
def test_so_do_larger_graphs(seed: int) -> None:
    compare(random_case(Random(seed)))


def test_a_thousand_nodes_that_ask_nobody_are_no_deep_stack() -> None:
    nodes = [
        table_types.Node(
            name=f"n{place}",
            dependencies=(place - 1,) if place else (),
            children=(place + 1,) if place < 999 else (),
            route=None if place == 999 else table_types.Routing(kind="split", children=(place + 1,)),
        )
        for place in range(1000)
    ]
    graph = table_types.CompiledGraph(uid="u", generation=1, nodes=tuple(nodes))
    case = Case(graph, reference.Script(), {"x": [1.0]}, None, {}, ())
    compare(case)
