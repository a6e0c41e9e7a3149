"""Random graphs are valid, the reference answers them, and what fails is made small."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from tests.unit.graph.random_graphs import MOST_KEYS, MOST_NODES, Case, cases, keys_of, random_case, smallest
from tests.unit.graph.reference import Calls, Outcome, Script, interpret


@given(cases())
@settings(max_examples=200, deadline=None)
def test_a_random_case_has_an_answer_or_a_failure(case: Case) -> None:
    result = interpret(case.graph, case.script, case.request, case.deadline, case.choices)
    assert result == interpret(case.graph, case.script, case.request, case.deadline, case.choices)
    assert (result.failure is None) == bool(result.outputs)
    names = [node.name for node in case.graph.nodes]
    keys = dict(zip(names, keys_of(case.graph), strict=True))
    for output in result.outputs:
        assert (output.values is None) != (output.error is None)
        assert output.key in keys[output.key.split("/")[0]]
    assert list(result.taken) == [name for name in names if name in result.taken]
    assert {place[0] for place, _ in result.called} <= set(result.taken)
    assert all(place[1] in keys[place[0]] for place, _ in result.called)
    if result.failure is not None:
        return
    assert any(output.error is None for output in result.outputs)
    assert case.deadline is None or result.at <= case.deadline


@given(cases(), st.integers(1, 10))
@settings(max_examples=100, deadline=None)
def test_calls_that_take_as_many_times_longer_within_as_many_times_more_answer_the_same(case: Case, times: int) -> None:
    def slower(outcome: Outcome) -> Outcome:
        return replace(outcome, ticks=outcome.ticks * times)

    runs = {
        place: Calls(slower(calls.merge), slower(calls.implementation), slower(calls.route))
        for place, calls in case.script.runs.items()
    }
    nodes = [structs.replace(node, timeout_ms=node.timeout_ms and node.timeout_ms * times) for node in case.graph.nodes]
    long = interpret(
        structs.replace(case.graph, nodes=tuple(nodes)),
        Script(runs),
        case.request,
        case.deadline and case.deadline * times,
        case.choices,
    )
    short = interpret(case.graph, case.script, case.request, case.deadline, case.choices)
    assert long == replace(short, at=short.at * times)


@pytest.mark.parametrize("seed", range(50))
def test_a_random_graph_is_valid_and_equal_for_equal_seeds(seed: int) -> None:
    case = random_case(Random(seed))
    assert case == random_case(Random(seed))
    nodes = case.graph.nodes
    assert 1 <= len(nodes) <= MOST_NODES
    for v, node in enumerate(nodes):
        assert all(u < v for u in node.dependencies)
        assert len(set(node.dependencies)) == len(node.dependencies)
        assert node.children == tuple(w for w, other in enumerate(nodes) if v in other.dependencies)
        if node.route is not None:
            assert {*node.route.children, *node.route.shadows} == set(node.children)
            assert node.route.children
        if node.merge is not None:
            assert len(node.merge.weights) in (0, len(node.dependencies))
            assert node.dependencies
    assert all(len(keys) <= MOST_KEYS for keys in keys_of(case.graph))


def test_a_failing_case_is_made_small() -> None:
    def unsure(case: Case) -> bool:
        result = interpret(case.graph, case.script, case.request, case.deadline, case.choices)
        return result.confidence is not None and result.confidence < 1

    for seed in [seed for seed in range(200) if unsure(random_case(Random(seed)))]:
        found = smallest(random_case(Random(seed)), unsure)
        assert unsure(found)
        assert len(found.graph.nodes) <= 6
