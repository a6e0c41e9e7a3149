from __future__ import annotations

from typing import Any

import pytest

from mizzen.kinds.graph.spec import MLGraphSpec
from tests.unit.kinds.graphs import dag, found, merged, node, routed

SPLIT = "spec.dag[0].route.split"
MAB = "spec.dag[0].route.mab"
CASCADE = "spec.dag[0].route.cascade"
MERGE = "spec.dag[2].merge"


@pytest.mark.parametrize(
    "split",
    [
        None, {}, {"traffic": None}, {"traffic": {"b": 90, "c": 10}}, {"traffic": {"b": 100}},
        {"traffic": {"b": 0, "c": 100}}, {"key": "user"}, {"key": "header:X-Tenant"}, {"shadow": ["c"]},
        {"traffic": {"b": 100}, "shadow": ["c"]},
    ],
)  # fmt: skip
def test_splits(split: Any) -> None:
    assert found(routed({"split": split}, "b", "c")) == []


@pytest.mark.parametrize(
    ("split", "faults"),
    [
        ({"traffic": {}}, [f"{SPLIT}.traffic: must sum to 100, not 0"]),
        ({"traffic": {"b": 90}}, [f"{SPLIT}.traffic: must sum to 100, not 90"]),
        ({"traffic": {"b": -10, "c": 110}}, [f"{SPLIT}.traffic.b: must be at least 0, not -10"]),
        ({"traffic": {"b": 33.3, "c": 66.7}},
         [f"{SPLIT}.traffic.b: must be a whole number, not 33.3",
          f"{SPLIT}.traffic.c: must be a whole number, not 66.7"]),
        ({"traffic": {"b": "50", "c": 50}}, [f"{SPLIT}.traffic.b: must be a whole number, not '50'"]),
        ({"traffic": {"b": 50, "canry": 50}},
         [f"{SPLIT}.traffic.canry: no child 'canry' of node 'a'; did you mean 'canary'?"]),
        ({"traffic": {"b": 50, "zzz": 50}},
         [f"{SPLIT}.traffic.zzz: no child 'zzz' of node 'a'; children are b, c, canary"]),
        ({"key": "cookie"}, [f"{SPLIT}.key: 'cookie' is not a valid key; expected user or header:<name>"]),
        ({"key": "header:"}, [f"{SPLIT}.key: 'header:' is not a valid key; expected user or header:<name>"]),
        ({"key": "header:a b"}, [f"{SPLIT}.key: 'header:a b' is not a valid key; expected user or header:<name>"]),
        ({"shadow": ["x"]}, [f"{SPLIT}.shadow[0]: no child 'x' of node 'a'; children are b, c, canary"]),
        ({"shadow": ["b", "b"]}, [f"{SPLIT}.shadow[1]: 'b' is given twice"]),
        ({"shadow": ["b", "c", "canary"]}, [f"{SPLIT}.shadow: every child of node 'a' is a shadow, so none of them "
        "answers"]),
        ({"traffic": {"b": 50, "c": 50}, "shadow": ["c"]},
         [f"{SPLIT}.shadow[0]: 'c' also has traffic; a shadow has no share of the traffic"]),
    ],
)  # fmt: skip
def test_what_is_no_split(split: Any, faults: list[str]) -> None:
    assert found(routed({"split": split}, "b", "c", "canary")) == faults


@pytest.mark.parametrize(
    "mab",
    [
        {"egreedy": 0}, {"egreedy": 1}, {"egreedy": 0.1, "perUser": True}, {"ucb1": None}, {"ucb1": {"c": 0.5}},
        {"thompson": None}, {"thompson": {}}, {"exp3": None}, {"exp3": {"eta": 0.1, "gamma": 0.2, "share": 0}},
    ],
)  # fmt: skip
def test_bandits(mab: Any) -> None:
    assert found(routed({"mab": mab}, "b", "c")) == []


@pytest.mark.parametrize(
    ("mab", "faults"),
    [
        (None, [f"{MAB}: one of egreedy, ucb1, thompson, exp3, exp4 is required"]),
        ({"perUser": True}, [f"{MAB}: one of egreedy, ucb1, thompson, exp3, exp4 is required"]),
        ({"egreedy": 0, "thompson": {}},
         [f"{MAB}: only one of egreedy, ucb1, thompson, exp3, exp4 may be set, not egreedy and thompson"]),
        ({"egreedy": -0.1}, [f"{MAB}.egreedy: must be at least 0, not -0.1"]),
        ({"egreedy": 1.5}, [f"{MAB}.egreedy: must be at most 1, not 1.5"]),
        ({"egreedy": "0.1"}, [f"{MAB}.egreedy: must be a number, not '0.1'"]),
        ({"egreedy": True}, [f"{MAB}.egreedy: must be a number, not true"]),
        ({"egreedy": float("nan")}, [f"{MAB}.egreedy: must be a number, not NaN"]),
        ({"egredy": 0.1}, [f"{MAB}: unknown field 'egredy'; did you mean 'egreedy'?"]),
        ({"ucb1": {"c": 0}}, [f"{MAB}.ucb1.c: must be above 0, not 0"]),
        ({"exp3": {"gamma": 1.1, "eta": 0}},
         [f"{MAB}.exp3.eta: must be above 0, not 0", f"{MAB}.exp3.gamma: must be at most 1, not 1.1"]),
        ({"thompson": {}, "perUser": "yes"}, [f"{MAB}.perUser: must be true or false, not 'yes'"]),
    ],
)  # fmt: skip
def test_what_is_no_bandit(mab: Any, faults: list[str]) -> None:
    assert found(routed({"mab": mab}, "b", "c")) == faults


def test_parameters_of_bandits_have_defaults() -> None:
    def route(**mab: Any) -> Any:
        return MLGraphSpec.model_validate(routed({"mab": mab}, "b")).dag[0].route

    assert route(ucb1=None).mab.ucb1.c == 2
    exp3, exp4 = route(exp3=None).mab.exp3, route(exp4={}).mab.exp4
    assert (exp3.eta, exp3.gamma, exp3.share) == (0.03, 0.05, 0.001)
    assert (exp4.eta, exp4.share, exp4.threshold) == (0.1, 0.01, None)
    assert route(egreedy=0).mab.policy == "egreedy"


def test_exp4_needs_its_one_ensemble() -> None:
    arms = (node("a", route={"mab": {"exp4": None}}), node("b", "a"), node("c", "a"))
    fault = [f"{MAB}.exp4: exactly one node must merge b, c, and only those, by an ensemble without weights"]
    assert found(dag(*arms, node("m", "c", "b", merge={"ensemble": None}))) == []
    assert found(dag(*arms)) == fault
    assert found(dag(*arms, node("m", "b", merge={"ensemble": None}))) == fault
    assert found(dag(*arms, node("x"), node("m", "b", "c", "x", merge={"ensemble": None}))) == fault
    assert found(dag(*arms, node("m", "b", "c", merge={"ensemble": {"weights": {"b": 1, "c": 1}}}))) == fault
    assert found(dag(*arms, *(node(name, "b", "c", merge={"ensemble": {}}) for name in ("m", "n")))) == fault


def test_a_threshold_stands_in_one_place() -> None:
    def graph(exp4: Any, ensemble: Any) -> Any:
        return dag(
            node("a", route={"mab": {"exp4": exp4}}), node("b", "a"), node("m", "b", merge={"ensemble": ensemble})
        )

    assert found(graph({"threshold": 0.5}, None)) == found(graph(None, {"threshold": 0.5})) == []
    assert found(graph({"threshold": 0.5}, {"threshold": 0.5})) == [
        f"{MAB}.exp4.threshold: its ensemble also has a threshold; set one of the two"
    ]


def test_at_most_one_route() -> None:
    assert found(routed({"implementation": {"kfservice": "router"}}, "b")) == []
    assert found(routed({"split": None, "mab": {"egreedy": 0.1}}, "b")) == [
        "spec.dag[0].route: only one of split, mab, implementation, cascade may be set, not split and mab"
    ]
    assert found(routed({"implementation": {}}, "b")) == [
        "spec.dag[0].route.implementation: one of name, kfservice, svc, ref, inline is required"
    ]
    assert found(routed({"spilt": None}, "b")) == ["spec.dag[0].route: unknown field 'spilt'; did you mean 'split'?"]


@pytest.mark.parametrize("route", [{}, None])
def test_an_empty_route_takes_all_children_with_a_warning(route: Any) -> None:
    assert found(routed(route, "b")) == [
        "spec.dag[0].route: empty, so every child receives the output; for an even split write 'split: {}'"
    ]


@pytest.mark.parametrize("route", [{"split": None}, {"mab": {"exp4": None}}, {"implementation": {"kfservice": "r"}}])
def test_a_route_to_nowhere_is_warned_of(route: Any) -> None:
    assert found(routed(route)) == [
        "spec.dag[0].route: no node depends on 'a', so there is nothing to route to"
    ]  # fmt: skip


def _cascade(**fields: Any) -> dict[str, Any]:
    rule = {"name": "Threshold", **fields.pop("rule", {})}
    return {"cascade": {"edge": "b", "cloud": "c", "hardExample": rule, **fields}}


@pytest.mark.parametrize(
    "rule",
    [
        {}, {"parameters": {"threshold": 0.9}}, {"parameters": None}, {"name": "EdgeOnly"}, {"name": "CloudOnly"},
        {"name": "IBT", "parameters": [{"key": "threshold_img", "value": "0.9"}, {"key": "threshold_box", "value": 1}]},
        {"name": "CrossEntropy", "parameters": {"threshold_cross_entropy": 0}}, {"name": "Random"},
        {"name": "Confidence", "parameters": {"threshold": 1}},
    ],
)  # fmt: skip
def test_cascades(rule: dict[str, Any]) -> None:
    assert found(routed(_cascade(rule=rule, mode="mining-then-inference"), "b", "c")) == []


RULE = f"{CASCADE}.hardExample"


@pytest.mark.parametrize(
    ("fields", "faults"),
    [
        ({"edge": "x"}, [f"{CASCADE}.edge: no child 'x' of node 'a'; children are b, c"]),
        ({"cloud": "b"}, [f"{CASCADE}.cloud: 'b' is also the edge; name two different children"]),
        ({"mode": "mining-then-inferance"},
         [f"{CASCADE}.mode: 'mining-then-inferance' is not a valid value; did you mean 'mining-then-inference'?"]),
        ({"rule": {"name": "CrossEntrpy"}}, [f"{RULE}.name: no rule 'CrossEntrpy'; did you mean 'CrossEntropy'?"]),
        ({"rule": {"name": "x"}},
         [f"{RULE}.name: no rule 'x'; rules are "
          "Threshold, IBT, CrossEntropy, Random, Confidence, CloudOnly, EdgeOnly"]),
        ({"rule": {"parameters": {"treshold": 0.5}}},
         [f"{RULE}.parameters: unknown parameter 'treshold'; did you mean 'threshold'?"]),
        ({"rule": {"name": "IBT", "parameters": {"x": 0.5}}},
         [f"{RULE}.parameters: unknown parameter 'x'; parameters of IBT are threshold_img, threshold_box"]),
        ({"rule": {"parameters": {"threshold": 1.5}}},
         [f"{RULE}.parameters.threshold: must be between 0 and 1, not 1.5"]),
        ({"rule": {"parameters": {"threshold": "x"}}}, [f"{RULE}.parameters.threshold: must be a number, not 'x'"]),
        ({"rule": {"parameters": [{"key": "threshold", "value": "x"}]}},
         [f"{RULE}.parameters: 'threshold' must be a number"]),
        ({"rule": {"parameters": [{"key": "threshold", "value": "nan"}]}},
         [f"{RULE}.parameters.threshold: must be a number, not NaN"]),
        ({"rule": {"parameters": [{"key": "threshold"}]}},
         [f"{RULE}.parameters: each item must have a key and a value"]),
        ({"rule": {"parameters": 2 * [{"key": "threshold", "value": "1"}]}},
         [f"{RULE}.parameters: a second 'threshold'"]),
    ],
)  # fmt: skip
def test_what_is_no_cascade(fields: dict[str, Any], faults: list[str]) -> None:
    assert found(routed(_cascade(**fields), "b", "c")) == faults


def test_a_cascade_is_complete() -> None:
    assert found(routed({"cascade": None}, "b", "c")) == [
        f"{CASCADE}.edge: required", f"{CASCADE}.cloud: required", f"{CASCADE}.hardExample: required",
    ]  # fmt: skip
    assert found(routed(_cascade(), "b", "c", "d")) == [
        f"{CASCADE}: child 'd' is neither edge nor cloud, so it is never called"
    ]
    assert [line.partition(":")[0] for line in found(routed(_cascade()))] == [
        f"{CASCADE}.edge", f"{CASCADE}.cloud", "spec.dag[0].route",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "merge",
    [
        {"ensemble": None}, {"ensemble": {}}, {"ensemble": {"weights": None}},
        {"ensemble": {"weights": {"b": 1, "c": 0}}},
        {"ensemble": {"method": "vote", "partial": True}}, {"ensemble": {"threshold": 0.5, "partial": False}},
        {"implementation": {"kfservice": "join"}}, {"implementation": {"svc": "join", "mode": "incremental"}},
    ],
)  # fmt: skip
def test_merges(merge: Any) -> None:
    assert found(merged(merge, "b", "c")) == []


WEIGHTS = f"{MERGE}.ensemble.weights"


@pytest.mark.parametrize(
    ("merge", "faults"),
    [
        ({"ensemble": {}, "implementation": {"svc": "x"}},
         [f"{MERGE}: only one of ensemble, implementation may be set, not ensemble and implementation"]),
        ({"ensemble": {"weights": {"first": 1}}},
         [f"{WEIGHTS}: dependency 'second' is missing; give it a weight, 0 if it must not count"]),
        ({"ensemble": {"weights": {"frist": 1, "second": 1}}},
         [f"{WEIGHTS}.frist: no dependency 'frist' of node 'm'; did you mean 'first'?"]),
        ({"ensemble": {"weights": {"first": 1, "second": 1, "x": 1}}},
         [f"{WEIGHTS}.x: no dependency 'x' of node 'm'; dependencies are first, second"]),
        ({"ensemble": {"weights": {"first": -1, "second": 2}}}, [f"{WEIGHTS}.first: must be at least 0, not -1"]),
        ({"ensemble": {"weights": {"first": 0, "second": 0.0}}}, [f"{WEIGHTS}: must not all be 0"]),
        ({"ensemble": {"weights": {"first": "1", "second": 0}}}, [f"{WEIGHTS}.first: must be a number, not '1'"]),
        ({"ensemble": {"method": "sum"}},
         [f"{MERGE}.ensemble.method: 'sum' is not a valid value; values are mean, vote"]),
        ({"ensemble": {"method": "vote", "threshold": 1}},
         [f"{MERGE}.ensemble.threshold: is only possible with method mean, not with vote"]),
        ({"implementation": {"svc": "x", "mode": "stream"}},
         [f"{MERGE}.implementation.mode: 'stream' is not a valid value; values are once, incremental"]),
        ({"implementation": {"name": "x"}},
         [f"{MERGE}.implementation.name: no container 'x' in spec.custom; there is none"]),
        ({"ensemble": {"implementation": {"svc": "x"}, "method": "mean"}},
         [f"{MERGE}.ensemble: 'implementation' decides how to merge, so method cannot be set with it",
          f"{MERGE}.ensemble: unknown field 'implementation'; read as merge.implementation"]),
    ],
)  # fmt: skip
def test_what_is_no_merge(merge: Any, faults: list[str]) -> None:
    assert found(merged(merge, "first", "second")) == faults


@pytest.mark.parametrize("merge", [{}, None])
def test_an_empty_merge_passes_through_with_a_warning(merge: Any) -> None:
    assert found(merged(merge, "b", "c")) == [
        f"{MERGE}: empty, so each arrival passes through on its own; for the mean write 'ensemble: {{}}'"
    ]


def test_a_merge_of_nothing_is_warned_of() -> None:
    assert found(dag(node("a", merge={"ensemble": None}))) == [
        "spec.dag[0].merge: node 'a' has no dependencies, so there is nothing to merge"
    ]


def test_a_misplaced_implementation_is_read_where_it_belongs() -> None:
    spec = MLGraphSpec.model_validate(merged({"ensemble": {"implementation": {"kfservice": "join"}}}, "b", "c"))
    merge = spec.dag[2].merge
    assert merge is not None
    assert merge.joins is None
    assert merge.call is not None
    assert merge.call[1].served == "join"
