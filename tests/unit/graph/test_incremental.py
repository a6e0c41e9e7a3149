"""Merges that are called for each arrival: what they are asked, and what comes of their answers."""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from mizzen.graph import table_types
from mizzen.graph.executor import CALL, MERGE, Entries, Failure, GraphRun, Message
from mizzen.graph.prepared_nodes import PreparedNode, prepare_nodes
from mizzen.protocol.frames import framing

CALLEE = table_types.Callee(name="any")


def tensor(name: str, value: float) -> Entries:
    return [(name, "FP64", [1], framing.RAW, memoryview(struct.pack("<d", value)))]


class Asked(NamedTuple):
    shape: PreparedNode
    phase: int
    message: Message
    names: tuple[str, ...]
    asks: dict[str, str] | None


class Manual(GraphRun):
    """Whoever tests it answers."""

    def __init__(self, graph: table_types.CompiledGraph) -> None:
        super().__init__(prepare_nodes(graph), 1.0)
        for shape in self.nodes:
            shape.target = shape.spec.call
        self.asked: list[Asked] = []
        self.end: Failure | str = ""

    def now(self) -> float:
        return 0.0

    def place_of(self, pending_call: Any) -> int:
        place: int = pending_call.shape.place
        return place

    def cancel_call(self, pending_call: Any) -> None:
        self.asked.remove(pending_call)

    def call_target(
        self, shape: PreparedNode, phase: int, message: Message, entries: Entries, *, deadline: float,
        extra_inputs: dict[str, str] | None = None,
    ) -> None:  # fmt: skip
        asked = Asked(shape, phase, message, tuple(entry[0] for entry in entries), extra_inputs)
        self.asked.append(asked)
        self.pending.add(_Held(asked))

    def answer(self) -> None:
        self.end = "answered"

    def refuse(self, failure: Failure) -> None:
        self.end = failure

    def give(self, node: str, phase: int, entries: Entries) -> None:
        """The oldest call of this node in this phase is answered."""
        asked = next(each for each in self.asked if each.shape.name == node and each.phase == phase)
        self.asked.remove(asked)
        self.pending = {held for held in self.pending if held.asked is not asked}
        self.on_answer(asked.shape, phase, asked.message, entries)


class _Held:
    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self.shape = asked.shape


def graph(*, route: table_types.Routing | None = None) -> table_types.CompiledGraph:
    merge = table_types.Merging(kind="call", call=CALLEE, incremental=True)
    return table_types.CompiledGraph(
        uid="u",
        generation=1,
        nodes=(
            table_types.Node(name="root", children=(1, 2), route=route),
            table_types.Node(name="a", dependencies=(0,), children=(3,), call=CALLEE),
            table_types.Node(name="b", dependencies=(0,), children=(3,), call=CALLEE),
            table_types.Node(name="joined", dependencies=(1, 2), merge=merge),
        ),
    )


def test_it_is_asked_for_each_arrival_and_told_how_many_may_come() -> None:
    run = Manual(graph())
    run.begin(tensor("x", 1.0))
    run.give("b", CALL, tensor("y", 2.0))
    first = run.asked[-1]
    assert (first.phase, first.names, first.asks) == (MERGE, ("b.y",), {"pending_requests": "1"})
    run.give("joined", MERGE, [])  # not yet
    run.give("a", CALL, tensor("y", 3.0))
    second = run.asked[-1]
    assert (second.names, second.asks) == (("a.y",), {"pending_requests": "0"})
    run.give("joined", MERGE, tensor("z", 5.0))
    assert run.end == "answered"
    (output,) = run.outputs
    assert output.key == "joined"
    assert isinstance(output.result, list)
    assert output.result[0][0] == "z"


def test_the_first_that_is_not_empty_is_what_came_of_all() -> None:
    run = Manual(graph())
    run.begin(tensor("x", 1.0))
    run.give("a", CALL, tensor("y", 3.0))
    run.give("joined", MERGE, tensor("z", 5.0))
    run.give("b", CALL, tensor("y", 2.0))
    assert run.end == ""
    run.give("joined", MERGE, [])
    assert run.end == "answered"
    assert len(run.outputs) == 1


def test_two_answers_are_a_fault_of_the_merge() -> None:
    run = Manual(graph())
    run.begin(tensor("x", 1.0))
    run.give("a", CALL, tensor("y", 3.0))
    run.give("b", CALL, tensor("y", 2.0))
    run.give("joined", MERGE, tensor("z", 5.0))
    run.give("joined", MERGE, tensor("z", 6.0))
    assert isinstance(run.end, Failure)
    assert run.end.code == 502
    assert "node 'joined': its merge answered twice" in run.end.text


def test_so_is_none() -> None:
    run = Manual(graph())
    run.begin(tensor("x", 1.0))
    run.give("a", CALL, tensor("y", 3.0))
    run.give("b", CALL, tensor("y", 2.0))
    run.give("joined", MERGE, [])
    run.give("joined", MERGE, [])
    assert isinstance(run.end, Failure)
    assert "its merge gave only empty answers" in run.end.text


def test_branches_that_are_not_taken_are_not_waited_for() -> None:
    run = Manual(graph(route=table_types.Routing(kind="split", children=(1, 2), weights=(1.0, 0.0))))
    run.nodes[0].choose = lambda run: (0, 0.0)
    run.begin(tensor("x", 1.0))
    run.give("a", CALL, tensor("y", 3.0))
    assert run.asked[-1].asks == {"pending_requests": "0"}
    run.give("joined", MERGE, tensor("z", 5.0))
    assert run.end == "answered"
