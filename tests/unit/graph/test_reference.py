"""The reference itself, on small graphs with answers that were worked out by hand."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from mizzen.graph import table_types
from tests.unit.graph.random_graphs import CALLEE
from tests.unit.graph.reference import (
    Calls,
    Decision,
    Failure,
    Message,
    Outcome,
    Output,
    Place,
    Result,
    Script,
    interpret,
    mean,
    vote,
)

SPLIT: dict[str, Any] = {"kind": "split"}
MAB: dict[str, Any] = {"kind": "mab", "policy": table_types.Policy(name="egreedy", epsilon=0.1)}
ROUTER: dict[str, Any] = {"kind": "call", "call": CALLEE}
MEAN = table_types.Merging(kind="mean")
PARTIAL = table_types.Merging(kind="mean", partial=True)
VOTE = table_types.Merging(kind="vote")
COMBINER = table_types.Merging(kind="call", call=CALLEE)


def node(name: str, *dependencies: str, calls: bool = True, **fields: Any) -> dict[str, Any]:
    return {"name": name, "on": dependencies, "call": CALLEE if calls else None, **fields}


def graph(*nodes: dict[str, Any], timeout_ms: int | None = None) -> table_types.CompiledGraph:
    """With children, and with routes that lead to all of them but shadows."""
    places = {given["name"]: v for v, given in enumerate(nodes)}
    made = []
    for given_node in nodes:
        fields = dict(given_node)
        name, on, route = fields["name"], fields.pop("on"), fields.pop("route", None)
        children = tuple(places[other["name"]] for other in nodes if name in other["on"])
        if route is not None:
            shadows = tuple(places[shadow] for shadow in route.get("shadows", ()))
            open_to = tuple(child for child in children if child not in shadows)
            route = table_types.Routing(**{**route, "children": open_to, "shadows": shadows})
        dependencies = tuple(places[dependency] for dependency in on)
        made.append(table_types.Node(dependencies=dependencies, children=children, route=route, **fields))
    return table_types.CompiledGraph(uid="u", generation=1, nodes=tuple(made), timeout_ms=timeout_ms)


def adds(offset: float, ticks: int = 1, **fields: Any) -> Calls:
    return Calls(implementation=Outcome(ticks=ticks, offset=offset, **fields))


def fails(code: int, ticks: int = 1) -> Calls:
    return Calls(implementation=Outcome(ticks=ticks, code=code))


def says(route: str | None, **fields: Any) -> Calls:
    return Calls(route=Outcome(route=route, **{"empty": True, **fields}))


def asked(
    of: table_types.CompiledGraph,
    script: dict[str, Calls] | None = None,
    *,
    deadline: int | None = None,
    choices: dict[str, str] | None = None,
    request: Message | None = None,
) -> Result:
    """Runs are named by their keys, which begin with the name of the node."""
    runs: dict[Place, Calls] = {(key.split("/")[0], key): calls for key, calls in (script or {}).items()}
    chosen: dict[Place, list[str]] = {(key.split("/")[0], key): [child] for key, child in (choices or {}).items()}
    return interpret(of, Script(runs), request or {"x": [1.0, 2.0]}, deadline, chosen)


def answer(result: Result) -> dict[str, list[float] | str]:
    """By key the values of the tensor `x`, or the failing node."""
    assert result.failure is None, result.failure
    return {
        output.key: output.values["x"] if output.values is not None else _node(output.error)
        for output in result.outputs
    }


def failure(result: Result) -> tuple[int, str]:
    assert result.failure is not None
    assert result.outputs == ()
    return result.failure.code, result.failure.node


def _node(error: Failure | None) -> str:
    assert error is not None
    return f"{error.code} {error.node}"


# The examples of the seed


@pytest.mark.parametrize("route", [SPLIT, MAB])
def test_three_ways_take_one(route: dict[str, Any]) -> None:
    three = graph(node("a", calls=False, route=route), node("b", "a"), node("c", "a"), node("d", "a"))
    script = {"b": adds(10), "c": adds(20), "d": adds(30)}
    result = asked(three, script, choices={"a": "c"})
    assert result == Result(
        outputs=(Output("c", {"x": [21.0, 22.0]}),),
        taken=("a", "c"),
        decisions=(Decision("a", ("c",)),),
        called=frozenset({(("c", "c"), "implementation")}),
        at=1,
    )
    assert (result.nodes, result.routing) == ("a,c", "a=c")


def test_an_ensemble_of_three() -> None:
    three = graph(node("a"), node("b"), node("c"), node("d", "a", "b", "c", calls=False, merge=MEAN))
    result = asked(three, {"a": adds(0), "b": adds(3, ticks=5), "c": adds(6)})
    assert answer(result) == {"d": [4.0, 5.0]}
    assert (result.nodes, result.routing, result.confidence, result.at) == ("a,b,c,d", "", None, 5)


def test_a_single_model() -> None:
    assert answer(asked(graph(node("classifier")), {"classifier": adds(1)})) == {"classifier": [2.0, 3.0]}


def test_a_pipeline_with_a_combiner() -> None:
    pipeline = graph(
        node("into"),
        node("one", "into"),
        node("two", "into"),
        node("combiner", "two", "one", calls=False, merge=COMBINER),
        node("out", "combiner"),
    )
    script = {
        "into": adds(1),
        "one": adds(10),
        "two": adds(100),
        "combiner": Calls(merge=Outcome(ticks=2)),
        "out": Calls(implementation=Outcome(scale=2.0)),
    }
    result = asked(pipeline, script)
    assert result.outputs == (Output("out", {"two.x": [204.0, 206.0], "one.x": [24.0, 26.0]}),)
    assert (result.nodes, result.at) == ("into,one,two,combiner,out", 5)


# Routes


def diamond(route: dict[str, Any] | None, **join: Any) -> table_types.CompiledGraph:
    return graph(
        node("a", calls=False, route=route), node("b", "a"), node("c", "a"), node("d", "b", "c", calls=False, **join)
    )


def test_a_join_merges_what_was_taken_and_waits_for_nothing_else() -> None:
    result = asked(diamond(SPLIT, merge=MEAN), {"b": adds(1), "c": adds(5, ticks=99)}, choices={"a": "b"})
    assert answer(result) == {"d": [2.0, 3.0]}
    assert (result.nodes, result.at) == ("a,b,d", 1)


def test_a_join_of_nothing_is_not_taken_nor_is_what_follows_it() -> None:
    of = graph(
        node("a", calls=False, route=SPLIT),
        node("b", "a"),
        node("c", "a"),
        node("d", "a"),
        node("join", "b", "c", calls=False, merge=MEAN),
        node("after", "join"),
        node("last", "after", "d", calls=False, merge=MEAN),
    )
    result = asked(of, {"d": adds(2)}, choices={"a": "d"})
    assert answer(result) == {"last": [3.0, 4.0]}
    assert result.nodes == "a,d,last"


def test_a_route_with_one_child_takes_it_and_only_a_router_is_asked() -> None:
    for route, called in ((SPLIT, 1), (MAB, 1), (ROUTER, 2)):
        result = asked(graph(node("a", calls=False, route=route), node("b", "a")))
        assert (result.routing, len(result.called)) == ("a=b", called)


@pytest.mark.parametrize(
    ("said", "routing", "outputs"),
    [
        ("*", "a=b,c", {"b": [1.0, 2.0], "c": [1.0, 2.0]}),
        ("c,b", "a=b,c", {"b": [1.0, 2.0], "c": [1.0, 2.0]}),
        ("c", "a=c", {"c": [1.0, 2.0]}),
        ("", "a=", {"a": [1.0, 2.0]}),
    ],
)
def test_a_router_takes_all_several_one_or_none(said: str, routing: str, outputs: dict[str, Any]) -> None:
    of = graph(node("a", calls=False, route=ROUTER), node("b", "a"), node("c", "a"))
    result = asked(of, {"a": says(said)})
    assert (result.routing, answer(result)) == (routing, outputs)


@pytest.mark.parametrize("said", [None, "d", "b,d", "*,b"])
def test_a_router_that_says_nothing_or_nonsense_fails(said: str | None) -> None:
    of = graph(node("a", calls=False, route=ROUTER), node("b", "a"))
    assert failure(asked(of, {"a": says(said)})) == (502, "a")


def test_none_makes_an_output_of_one_run_beside_those_that_go_on() -> None:
    of = graph(node("a"), node("b"), node("c", "a", "b", calls=False, route=ROUTER), node("d", "c"))
    result = asked(of, {"c/a": says(""), "c/b": says("*"), "d/c/b": adds(1)})
    assert answer(result) == {"c/a": [1.0, 2.0], "d/c/b": [2.0, 3.0]}
    assert result.routing == "c/a=;c/b=d"


def test_none_at_a_node_before_a_join() -> None:
    of = graph(node("a", route=ROUTER), node("b"), node("c", "a", "b", calls=False, merge=MEAN))
    result = asked(of, {"a": Calls(Outcome(), Outcome(offset=1), Outcome(route="", empty=True)), "b": adds(5)})
    assert answer(result) == {"a": [2.0, 3.0], "c": [6.0, 7.0]}


def test_a_router_sees_the_answer_of_its_node_and_may_change_it() -> None:
    of = graph(node("a", route=ROUTER), node("b", "a", calls=False))
    changed = Calls(implementation=Outcome(offset=1), route=Outcome(scale=10.0))
    assert answer(asked(of, {"a": changed})) == {"b": [20.0, 30.0]}


def test_choices_that_could_not_be_are_refused() -> None:
    of = graph(node("a", calls=False, route={**SPLIT, "weights": (1.0, 0.0)}), node("b", "a"), node("c", "a"))
    assert asked(of, choices={"a": "b"}).routing == "a=b"
    with pytest.raises(ValueError, match=r"took \['c'\], and could take one of \['b'\]"):
        asked(of, choices={"a": "c"})
    with pytest.raises(KeyError):
        asked(of)


# A run for each arrival


def test_without_a_merge_a_node_runs_for_each_arrival() -> None:
    result = asked(diamond(None), {"b": adds(1, ticks=7), "c": adds(2)})
    assert answer(result) == {"d/b": [2.0, 3.0], "d/c": [3.0, 4.0]}
    assert result.at == 7


def test_one_arrival_of_two_is_keyed_and_answers_plain() -> None:
    assert answer(asked(diamond(SPLIT), choices={"a": "c"})) == {"d/c": [1.0, 2.0]}


def test_keys_grow_and_a_merge_ends_them() -> None:
    of = graph(node("b"), node("a"), node("c", "a", "b"), node("d", "c"), node("e", "d", calls=False, merge=COMBINER))
    result = asked(of, {"d/c/b": adds(1)})
    assert result.outputs == (Output("e", {"d/c/a.x": [1.0, 2.0], "d/c/b.x": [2.0, 3.0]}),)


def test_an_ensemble_shares_the_weight_of_a_dependency_among_its_messages() -> None:
    of = graph(
        node("a"),
        node("b"),
        node("c", "a", "b", calls=False),
        node("d"),
        node("e", "c", "d", calls=False, merge=table_types.Merging(kind="mean", weights=(2.0, 2.0))),
    )
    # (1 * 4 + 1 * 8 + 2 * 16) / 4
    result = asked(of, {"a": adds(4), "b": adds(8), "d": adds(16)}, request={"x": [0.0]})
    assert answer(result) == {"e": [11.0]}


def test_each_run_is_routed_by_itself() -> None:
    of = graph(node("a"), node("b"), node("c", "a", "b", calls=False, route=SPLIT), node("d", "c"), node("e", "c"))
    result = asked(of, choices={"c/a": "e", "c/b": "d"})
    assert [output.key for output in result.outputs] == ["d/c/b", "e/c/a"]
    assert result.routing == "c/a=e;c/b=d"


# Failures


@pytest.mark.parametrize(("code", "told"), [(400, 400), (500, 502), (502, 502), (503, 503), (504, 504)])
def test_codes(code: int, told: int) -> None:
    assert failure(asked(graph(node("a")), {"a": fails(code)})) == (told, "a")


def test_the_first_failing_node_in_topological_order_decides_not_the_first_in_time() -> None:
    of = graph(node("a"), node("b"), node("c", "a"))
    assert failure(asked(of, {"b": fails(500, ticks=1), "a": fails(503, ticks=30)})) == (503, "a")
    assert failure(asked(of, {"b": fails(500, ticks=1), "a": adds(0, ticks=30)}, deadline=20)) == (504, "a")
    assert failure(asked(of, {"b": fails(500, ticks=30), "c": fails(503)})) == (502, "b")


def test_of_runs_of_one_node_the_first_slot_decides() -> None:
    of = graph(node("a"), node("b"), node("c", "b", "a"))
    result = asked(of, {"c/b": fails(503, ticks=9), "c/a": fails(500)})
    assert [(found.key, found.code) for found in result.failures] == [("c/b", 503), ("c/a", 502)]
    assert failure(result) == (503, "c")


def test_bad_input_is_the_clients_fault_only_if_it_is_the_clients_message() -> None:
    of = graph(node("a", calls=False), node("b", "a"), node("c", "b", calls=False), node("d", "c"))
    assert failure(asked(of, {"b": fails(400)})) == (400, "b")
    result = asked(of, {"d": fails(400)})
    assert result.failure == Failure(502, "d", "d", giver="b")


def test_bad_input_after_a_merge() -> None:
    own = graph(node("a", calls=False), node("b", calls=False), node("c", "a", "b", merge=MEAN))
    assert failure(asked(own, {"c": fails(400)})) == (400, "c")
    mixed = graph(node("a", calls=False), node("b"), node("c", "a", "b", merge=MEAN))
    assert asked(mixed, {"c": fails(400)}).failure == Failure(502, "c", "c", giver="b")
    called = graph(node("a", calls=False), node("c", "a", merge=COMBINER))
    assert failure(asked(called, {"c": Calls(merge=Outcome(code=400))})) == (400, "c")
    assert asked(called, {"c": fails(400)}).failure == Failure(502, "c", "c", giver="c")


def test_what_cannot_run_here_is_told_so_when_it_is_reached() -> None:
    of = graph(node("a", calls=False, route=SPLIT), node("b", "a", lacking="no engine"), node("c", "a"))
    assert failure(asked(of, choices={"a": "b"})) == (503, "b")
    assert answer(asked(of, choices={"a": "c"})) == {"c": [1.0, 2.0]}


# Skips


def test_a_skipped_member_is_left_out_of_the_merge() -> None:
    of = graph(node("a"), node("b", skip=True), node("c", "a", "b", calls=False, merge=MEAN))
    result = asked(of, {"a": adds(4), "b": fails(500)})
    assert (answer(result), result.nodes, result.confidence) == ({"c": [5.0, 6.0]}, "a,b,c", None)


def test_a_mark_passes_nodes_without_calling_them_and_is_an_error_entry_at_the_end() -> None:
    of = graph(node("a"), node("b", skip=True), node("c", "b"), node("d", "c", calls=False, merge=MEAN))
    result = asked(of, {"b": fails(503)})
    assert answer(result) == {"a": [1.0, 2.0], "d": "503 b"}
    assert result.nodes == "a,b"
    assert result.called == {(("a", "a"), "implementation"), (("b", "b"), "implementation")}


def test_a_mark_goes_to_all_children_of_a_route() -> None:
    of = graph(node("a", route=SPLIT, skip=True), node("b", "a"), node("c", "a"), node("d"))
    result = asked(of, {"a": fails(500)}, choices={"a": "b"})
    assert answer(result) == {"b": "502 a", "c": "502 a", "d": [1.0, 2.0]}
    assert result.routing == ""


def test_one_mark_for_each_arrival() -> None:
    of = graph(node("a"), node("b", skip=True), node("c", "a", "b"))
    assert answer(asked(of, {"b": fails(500)})) == {"c/a": [1.0, 2.0], "c/b": "502 b"}


def test_marks_alone_fail_the_request_with_the_first() -> None:
    of = graph(node("a", skip=True), node("b", skip=True), node("c", "b"), node("d", "a"))
    assert failure(asked(of, {"a": fails(503, ticks=9), "b": fails(500)})) == (503, "a")


def test_a_merge_of_marks_alone_is_skipped_and_a_mark_beside_what_was_not_taken_too() -> None:
    of = graph(
        node("a", calls=False, route=SPLIT),
        node("b", "a", skip=True),
        node("c", "a"),
        node("d", "b", "c", merge=MEAN),
        node("e"),
    )
    result = asked(of, {"b": fails(500)}, choices={"a": "b"})
    assert answer(result) == {"d": "502 b", "e": [1.0, 2.0]}


@pytest.mark.parametrize("calls", [Calls(merge=Outcome(code=500)), fails(500), Calls(route=Outcome(code=500))])
def test_merge_implementation_and_route_are_all_skipped(calls: Calls) -> None:
    of = graph(node("z"), node("a", "z", merge=COMBINER, route=ROUTER, skip=True), node("b", "a"), node("c"))
    result = asked(of, {"a": calls})
    assert answer(result) == {"b": "502 a", "c": [1.0, 2.0]}
    assert result.decisions == ()


# Deadlines


def test_what_ends_at_the_deadline_is_in_time() -> None:
    of = graph(node("a"), node("b", "a"))
    script = {"a": adds(0, ticks=3), "b": adds(0, ticks=4)}
    assert asked(of, script, deadline=7).at == 7
    assert failure(asked(of, script, deadline=6)) == (504, "b")
    assert failure(asked(graph(node("a"), node("b", "a"), timeout_ms=6), script)) == (504, "b")


def test_the_time_of_a_node_covers_its_merge_implementation_and_route_and_begins_with_them() -> None:
    def of(timeout: int) -> table_types.CompiledGraph:
        return graph(node("z"), node("a", "z", merge=COMBINER, route=ROUTER, timeout_ms=timeout), node("b", "a"))

    run = Calls(Outcome(ticks=2), Outcome(ticks=3), Outcome(ticks=4, empty=True))
    script = {"z": adds(0, ticks=50), "a": run, "b": adds(0, ticks=50)}
    assert asked(of(9), script).at == 109
    assert failure(asked(of(8), script)) == (504, "a")


def test_a_node_that_is_late_by_its_own_time_is_skipped_then() -> None:
    of = graph(node("a", skip=True, timeout_ms=3), node("b"), node("c", "a", "b", merge=MEAN))
    result = asked(of, {"a": adds(0, ticks=4), "b": adds(1), "c": adds(0, ticks=5)}, deadline=8)
    assert (answer(result), result.at) == ({"c": [2.0, 3.0]}, 8)


# Partial ensembles


def test_fifteen_of_sixteen() -> None:
    members = [f"m{i}" for i in range(16)]
    of = graph(*(node(name) for name in members), node("all", *members, calls=False, merge=PARTIAL))
    script = {name: adds(float(i)) for i, name in enumerate(members)}
    on_time = asked(of, script, deadline=10, request={"x": [0.0]})
    assert (answer(on_time), on_time.confidence, on_time.at) == ({"all": [7.5]}, 1.0, 1)
    late = asked(of, {**script, "m15": adds(15, ticks=11)}, deadline=10, request={"x": [0.0]})
    assert (answer(late), late.confidence, late.at) == ({"all": [7.0]}, 15 / 16, 10)
    assert late.nodes == ",".join([*members, "all"])


def test_only_the_deadline_makes_it_partial() -> None:
    of = graph(node("a"), node("b"), node("c", "a", "b", calls=False, merge=PARTIAL))
    assert failure(asked(of, {"a": fails(503)}, deadline=10)) == (503, "a")
    assert asked(of, {"a": adds(0, ticks=11)}, deadline=10).confidence == 0.5
    whole = graph(node("a"), node("b"), node("c", "a", "b", calls=False, merge=MEAN))
    assert failure(asked(whole, {"a": adds(0, ticks=11)}, deadline=10)) == (504, "a")


def test_confidence_is_of_the_weight_of_those_taken_with_skipped_ones_in_it() -> None:
    weighted = table_types.Merging(kind="mean", partial=True, weights=(1.0, 2.0, 5.0, 100.0))
    of = graph(
        node("r", calls=False, route=ROUTER),
        node("a", "r"),
        node("b", "r", skip=True),
        node("c", "r"),
        node("d", "r"),
        node("e", "a", "b", "c", "d", calls=False, merge=weighted),
    )
    result = asked(of, {"r": says("a,b,c"), "b": fails(500), "c": adds(0, ticks=99)}, deadline=20)
    assert (answer(result), result.confidence) == ({"e": [1.0, 2.0]}, 1 / 8)


def test_those_that_share_a_weight_share_it_also_with_the_late() -> None:
    of = graph(
        node("a"),
        node("b"),
        node("c", "a", "b"),
        node("d"),
        node("e", "c", "d", calls=False, merge=PARTIAL),
    )
    # 1/2 of c has come, and all of d: (1/2 * 0 + 1 * 3) / (3/2)
    result = asked(of, {"c/a": adds(9, ticks=99), "d": adds(3)}, deadline=20, request={"x": [0.0]})
    assert (answer(result), result.confidence) == ({"e": [2.0]}, 3 / 4)


def test_members_that_weigh_nothing() -> None:
    weighted = table_types.Merging(kind="mean", partial=True, weights=(0.0, 0.0, 1.0))
    of = graph(node("a"), node("b"), node("c"), node("d", "a", "b", "c", calls=False, merge=weighted))
    script = {"a": adds(0), "b": adds(4)}
    assert answer(asked(of, script, request={"x": [0.0]})) == {"d": [0.0]}
    result = asked(of, {**script, "c": adds(0, ticks=99)}, deadline=9, request={"x": [0.0]})
    assert (answer(result), result.confidence) == ({"d": [2.0]}, 0.0)


def test_a_late_mark_passes_nodes_on_its_way_to_a_partial_merge() -> None:
    of = graph(node("a", timeout_ms=2), node("b", "a"), node("c"), node("d", "b", "c", merge=PARTIAL))
    result = asked(of, {"a": adds(0, ticks=3), "c": adds(1), "d": adds(0, ticks=5)})
    assert (answer(result), result.confidence, result.at) == ({"d": [2.0, 3.0]}, 0.5, 7)
    assert result.nodes == "a,c,d"


def test_a_late_mark_ends_the_request_at_an_output_or_a_whole_merge() -> None:
    of = graph(node("a"), node("b"), node("c", "a", "b", calls=False, merge=PARTIAL), node("d", "a", "b", merge=MEAN))
    result = asked(of, {"a": adds(0, ticks=11)}, deadline=10)
    assert result.failures == (Failure(504, "a", "a", found="d"),)
    of = graph(node("a"), node("b"), node("c", "a", "b", calls=False, merge=PARTIAL), node("d", "a"))
    assert failure(asked(of, {"a": adds(0, ticks=11)}, deadline=10)) == (504, "a")


def test_a_failure_decides_over_a_late_mark_that_ends_further_down() -> None:
    of = graph(node("a"), node("b"), node("c", "a", "b", calls=False, merge=PARTIAL), node("d", "a"))
    assert failure(asked(of, {"a": adds(0, ticks=11), "b": fails(500)}, deadline=10)) == (502, "b")


def test_a_partial_merge_of_marks_alone_passes_the_first_late_one_on() -> None:
    def of(**second: Any) -> table_types.CompiledGraph:
        return graph(
            node("a", skip=True), node("b", **second), node("c", "b", "a", merge=PARTIAL), node("d"),
            node("e", "c", "d", calls=False, merge=PARTIAL),
        )  # fmt: skip

    late = asked(of(), {"a": fails(500), "b": adds(0, ticks=99)}, deadline=9)
    assert (answer(late), late.confidence, late.nodes) == ({"e": [1.0, 2.0]}, 0.5, "a,b,d,e")
    skipped = asked(of(skip=True), {"a": fails(500), "b": fails(503)})
    assert (answer(skipped), skipped.confidence) == ({"e": [1.0, 2.0]}, 0.5)
    nothing = asked(of(), {"a": fails(500), "b": adds(0, ticks=99), "d": adds(0, ticks=99)}, deadline=9)
    assert failure(nothing) == (504, "b")


def test_the_least_confidence_of_several() -> None:
    of = graph(
        node("a"), node("b"), node("c", "a", "b", calls=False, merge=PARTIAL),
        node("d", "b", calls=False, merge=PARTIAL),
    )  # fmt: skip
    result = asked(of, {"a": adds(0, ticks=11)}, deadline=10)
    assert (answer(result), result.confidence) == ({"c": [1.0, 2.0], "d": [1.0, 2.0]}, 0.5)


def test_a_vote_is_as_sure_as_those_that_agree() -> None:
    voting = table_types.Merging(kind="vote", partial=True)
    of = graph(node("a"), node("b"), node("c"), node("d"), node("e", "a", "b", "c", "d", calls=False, merge=voting))
    result = asked(of, {"b": adds(7), "d": adds(0, ticks=99)}, deadline=9)
    assert answer(result) == {"e": [1.0, 2.0]}
    assert result.confidence == pytest.approx(3 / 4 * 2 / 3)


# Shadows


def test_a_shadow_neither_delays_nor_fails_nor_answers() -> None:
    of = graph(
        node("a", calls=False, route={**SPLIT, "shadows": ("s",)}),
        node("b", "a"),
        node("s", "a"),
        node("behind", "s"),
        node("join", "b", "s", calls=False, merge=MEAN),
    )
    result = asked(of, {"b": adds(1), "s": fails(500, ticks=99)}, deadline=5)
    assert (answer(result), result.nodes, result.routing, result.at) == ({"join": [2.0, 3.0]}, "a,b,join", "a=b", 1)


def test_no_mark_goes_to_a_shadow() -> None:
    of = graph(node("a", route={**SPLIT, "shadows": ("s",)}, skip=True), node("b", "a"), node("s", "a"), node("c"))
    assert answer(asked(of, {"a": fails(500)})) == {"b": "502 a", "c": [1.0, 2.0]}


# Messages


def test_means_and_votes() -> None:
    assert mean([{"x": [1.0], "y": [2.0]}, {"y": [4.0], "x": [3.0]}], [1.0, 3.0]) == {"x": [2.5], "y": [3.5]}
    assert mean([{"x": [1.0, 3.0]}, {"x": [2.0, 3.0]}], [1.0, 1.0], threshold=1.5) == {"x": [1.0, 1.0]}
    one, third = Fraction(1), Fraction(1, 3)
    assert vote([{"x": [1.0, 1.0]}, {"x": [2.0, 2.0]}, {"x": [2.0, 3.0]}], [one] * 3) == ({"x": [2.0, 1.0]}, 0.5)
    assert vote([{"x": [5.0]}, {"x": [4.0]}], [one, 3 * one]) == ({"x": [4.0]}, 0.75)
    assert vote([{"x": [5.0]}, *[{"x": [4.0]}] * 3], [one, third, third, third]) == ({"x": [5.0]}, 0.5)


def test_an_ensemble_of_unequal_tensors_fails_at_its_node() -> None:
    of = graph(node("a"), node("b"), node("c", "a", "b", calls=False, merge=VOTE))
    assert failure(asked(of, {"a": adds(0, gives="x")})) == (502, "c")
    assert failure(asked(of, {"a": adds(0, gives="y")}, request={"x": [1.0]})) == (502, "c")


def test_a_sole_tensor_takes_the_name_of_a_sole_input() -> None:
    of = graph(node("a"), node("b", "a"))
    result = asked(of, {"a": adds(0, gives="sum"), "b": adds(1, takes="pixels")})
    assert result.outputs == (Output("b", {"pixels": [4.0]}),)
    two = {"x": [1.0], "y": [2.0]}
    assert failure(asked(of, {"a": adds(0, takes="pixels")}, request=two)) == (400, "a")
    assert asked(of, {"b": adds(0, takes="pixels")}, request=two).failure == Failure(502, "b", "b", giver="a")
