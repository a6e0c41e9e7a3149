from __future__ import annotations

import copy
import json
import re
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mizzen.errors import Invalid
from mizzen.kinds.graph.last_applied import ANNOTATION
from mizzen.kinds.graph.spec import MLGraphSpec
from mizzen.kinds.schema.findings import MOST, Context
from mizzen.kinds.schema.resource import Meta, Resource
from tests.support.examples import examples
from tests.unit.kinds.graphs import dag, examined, node, routed

NAMES = [f"n{index}" for index in range(12)]


@st.composite
def acyclic(draw: st.DrawFn) -> dict[str, list[str]]:
    """Nodes, in any order, with dependencies that follow a hidden order."""
    hidden = draw(st.permutations(NAMES[: draw(st.integers(1, len(NAMES)))]))
    found = {
        name: draw(st.lists(st.sampled_from(hidden[:index]), unique=True)) if index else []
        for index, name in enumerate(hidden)
    }
    return {name: found[name] for name in draw(st.permutations(list(found)))}


def _spec(dependencies: dict[str, list[str]]) -> dict[str, Any]:
    return dag(*(node(name, *needed) for name, needed in dependencies.items()))


@given(acyclic())
def test_graphs_without_cycles_are_accepted_and_ordered(dependencies: dict[str, list[str]]) -> None:
    spec = _spec(dependencies)
    assert not examined(spec).faults
    graph = MLGraphSpec.model_validate(spec)
    order = [one.name for one in graph.nodes_in_order()]
    assert sorted(order) == sorted(dependencies)
    assert all(order.index(on) < order.index(name) for name, needed in dependencies.items() for on in needed)
    children = graph.children()
    assert {(on, name) for name, needed in dependencies.items() for on in needed} == {
        (parent, child) for parent, names in children.items() for child in names
    }


@given(acyclic(), st.data())
def test_a_cycle_is_refused_and_a_real_one_is_named(dependencies: dict[str, list[str]], data: st.DataObject) -> None:
    assume(len(dependencies) > 1)
    ring = data.draw(st.lists(st.sampled_from(list(dependencies)), min_size=2, unique=True))
    for before, after in zip(ring, (*ring[1:], ring[0]), strict=True):
        if before not in dependencies[after]:
            dependencies[after].append(before)
    faults = examined(_spec(dependencies)).faults
    assert faults
    seen: set[str] = set()
    for fault in faults:
        assert fault.path == "spec.dag"
        *members, again = re.sub(r"^.*cycle: ", "", fault.message).split(" -> ")
        assert members[0] == again
        assert len(set(members)) == len(members) >= 2
        assert all(before in dependencies[after] for before, after in zip(members, (*members[1:], again), strict=True))
        assert min(members, key=list(dependencies).index) == members[0]
        assert not seen & set(members)
        seen |= set(members)


def test_long_chains_and_rings_are_no_trouble() -> None:
    chain = {f"n{index}": [f"n{index - 1}"] if index else [] for index in range(1000)}
    assert not examined(_spec(chain)).faults
    (fault,) = examined(_spec(chain | {"n0": ["n999"]})).faults
    assert fault.message.endswith("n999 -> n0")


def test_a_thousand_wrong_names_are_not_all_puzzled_over() -> None:
    spec = dag(*(node(f"node-{index}", f"nod-{index}") for index in range(1000)))
    assert len(examined(spec).faults) == MOST


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
words = st.sampled_from(
    [
        "name", "dependencies", "implementation", "kfservice", "svc", "ref", "inline", "custom", "route", "merge",
        "split",
        "traffic", "shadow", "key", "mab", "egreedy", "exp4", "cascade", "edge", "cloud", "hardExample", "parameters",
        "ensemble", "weights", "mode", "spec", "podspec", "containers", "image", "dag", "a", "b",
    ]
)  # fmt: skip
near_misses = st.recursive(
    json_values | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=4),
    max_leaves=25,
)


@settings(max_examples=examples(120))
@given(
    st.dictionaries(words | st.text(max_size=5), near_misses, max_size=4),
    st.dictionaries(words, near_misses, max_size=5),
    st.booleans(),
    json_values,
)
def test_nothing_that_is_json_breaks_the_examination(
    spec: dict[str, Any], one: dict[str, Any], strict: bool, annotation: Any
) -> None:
    context = Context(annotations={ANNOTATION: annotation})
    examined(spec, context, strict=strict)
    examined({**spec, "dag": [one, {"name": "a"}]}, context, strict=strict)
    examined({**spec, "dag": {"name": "a", "route": one, "merge": one}}, context, strict=strict)


@given(st.dictionaries(words, near_misses, max_size=5), st.dictionaries(words, near_misses, max_size=3))
def test_one_object_is_a_list_of_one(one: dict[str, Any], rest: dict[str, Any]) -> None:
    assert examined({**rest, "dag": one}) == examined({**rest, "dag": [one]})


def _without_nulls(value: Any) -> Any:
    """As kubectl sends it."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def _applied(spec: dict[str, Any]) -> dict[str, str]:
    return {ANNOTATION: json.dumps({"apiVersion": "mizzen.dev/v1alpha1", "kind": "MLGraph", "spec": spec})}


routes = st.sampled_from(
    [
        {"split": None}, {"split": {"traffic": None}}, {"mab": {"thompson": None}},
        {"mab": {"ucb1": None, "perUser": True}},
        {"mab": {"egreedy": 0.1}}, {"mab": None}, {}, {"split": {"traffic": {"b": 100}, "key": None}},
    ]
)  # fmt: skip
merges = st.sampled_from([{"ensemble": None}, {"ensemble": {"weights": None, "method": "vote"}}, {}])


@given(routes, merges, st.booleans())
def test_what_kubectl_left_out_is_read_from_what_was_applied(
    route: dict[str, Any], merge: dict[str, Any], alone: bool
) -> None:
    nodes = [node("a", route=route), node("b", "a"), node("m", "a", "b", merge=merge)]
    written = {"dag": nodes[0] if alone else nodes}
    arrived = _without_nulls(written)
    untouched = copy.deepcopy(arrived)
    meant = MLGraphSpec.normalize(arrived, _applied(written))
    assert arrived == untouched
    assert meant == {"dag": [nodes[0]] if alone else nodes}
    assert MLGraphSpec.normalize(meant, _applied(written)) == meant
    assert examined(arrived, Context(annotations=_applied(written))) == examined(written, Context())
    stored = Resource("MLGraph", Meta("g", annotations=_applied(written)), arrived)
    assert MLGraphSpec.of(stored) == MLGraphSpec.model_validate(written)


def test_a_stored_spec_that_is_none_is_no_crash() -> None:
    broken: Any = ["x"]
    with pytest.raises(Invalid):
        MLGraphSpec.of(Resource("MLGraph", Meta("g"), broken))


def test_what_was_changed_since_stands() -> None:
    written = routed({"split": None}, "b", "c")
    changed = routed({"mab": {"egreedy": 0.1}}, "b", "c")
    assert MLGraphSpec.normalize(changed, _applied(written)) == changed
    renamed = dag(node("z", route={}), node("b", "z"))
    assert MLGraphSpec.normalize(renamed, _applied(written)) == renamed
    assert [str(warning) for warning in examined(renamed, Context(annotations=_applied(written))).warnings] == [
        "spec.dag[0].route: empty, so every child receives the output; for an even split write 'split: {}'"
    ]


@given(
    json_values
    | st.builds(json.dumps, near_misses)
    | st.builds(lambda x: json.dumps({"spec": {"dag": x}}), near_misses)
)
def test_garbage_in_the_annotation_changes_nothing(garbage: Any) -> None:
    spec = dag(node("nobody", route={}))
    assert MLGraphSpec.normalize(spec, {ANNOTATION: garbage}) == spec


def test_a_bottomless_annotation_changes_nothing() -> None:
    spec = dag(node("a", route={}))
    for depth in (400, 100_000):
        deep = "[" * depth + "]" * depth
        text = f'{{"spec": {{"dag": [{{"name": "a", "route": {{"split": {deep}}}}}]}}}}'
        assert MLGraphSpec.normalize(spec, {ANNOTATION: text}) == spec
