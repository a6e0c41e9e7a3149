"""However many mistakes a spec has, each is told, nothing that only follows from them is, and the price is fair."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterator
from functools import cache
from types import FrameType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mizzen.kinds import catalog
from mizzen.kinds.catalog import Kind
from tests.support.examples import examples
from tests.unit.kinds import written
from tests.unit.kinds.examined import EVERYTHING, faults
from tests.unit.kinds.planted import KINDS, Mistake, planted

EVERY_KIND = pytest.mark.parametrize("kind", catalog.KINDS, ids=lambda kind: kind.name)
NO_HURRY = settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("kind", KINDS)
def test_good_specs_are_good(kind: str) -> None:
    assert faults(kind, KINDS[kind][0]) == set()


@pytest.mark.parametrize(
    ("kind", "mistake"),
    [(kind, mistake) for kind, (_, mistakes) in KINDS.items() for mistake in mistakes],
    ids=lambda value: value if isinstance(value, str) else f"{value.at}={value.value!r:.20}",
)
def test_one_mistake_is_one_fault(kind: str, mistake: Mistake) -> None:
    (fault,) = faults(kind, planted(KINDS[kind][0], [mistake]))
    assert fault.partition(": ")[0] == mistake.fault_path


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(50), deadline=None)
@given(data=st.data())
def test_independent_mistakes_are_all_told_and_nothing_else(kind: str, data: st.DataObject) -> None:
    spec, mistakes = KINDS[kind]
    chosen: list[int] = []
    for one in data.draw(st.lists(st.integers(0, len(mistakes) - 1), unique=True)):
        if all(mistakes[one].independent_of(mistakes[other]) for other in chosen):
            chosen.append(one)
    told = _without_hints(faults(kind, planted(spec, [mistakes[one] for one in chosen])))
    assert told == frozenset[str]().union(*(_alone(kind, one) for one in chosen))


@cache
def _alone(kind: str, index: int) -> frozenset[str]:
    spec, mistakes = KINDS[kind]
    return _without_hints(faults(kind, planted(spec, [mistakes[index]])))


def _without_hints(found: set[str]) -> frozenset[str]:
    """What else there is to choose from changes with other mistakes."""
    return frozenset(fault.partition(";")[0] for fault in found)


@pytest.mark.parametrize(
    ("kind", "changes", "told"),
    [
        ("InferenceModel", {"timeoutMs": None, "servingPort": "x"},
         {"spec.batching.batchSize: 'auto' needs spec.timeoutMs, the latency limit",
          "spec.servingPort: must be a whole number, not 'x'"}),
        ("InferenceModel", {"manifest": [{"version": "1"}]},
         {"spec.manifest[0].downloadURL: required",
          "spec.manifest[0].sha256sum: required, unless insecureSkipVerify is true"}),
        ("RoleBinding", {"subjects": [], "verbs": ["wriet"], "target": {"alias": "x"}},
         {"spec.subjects: must have at least 1 entry", "spec.verbs[0]: 'wriet' is not a valid value; did you mean "
         "'write'?",
          "spec.target: needs a model or a namespace; for this whole namespace write namespace: default",
          "spec.target.alias: needs model, the model that the alias belongs to"}),
        ("Rollout", {"target": {"name": "m"}, "steps": [{"analysis": {"metric": "error-rate"}}]},
         {"spec.target.kind: required", "spec.steps[0].analysis: one of threshold, vs is required"}),
        ("MLGraph", {"dag": [
            {"name": "a", "route": {"cascade": {"edge": "b", "cloud": "z"}}},
            {"name": "b", "dependencies": ["a"], "implementation": {"kfservice": "b"}}]},
         {"spec.dag[0].route.cascade.hardExample: required",
          "spec.dag[0].route.cascade.cloud: no child 'z' of node 'a'; children are b"}),
    ],
)  # fmt: skip
def test_no_fault_hides_another(kind: str, changes: dict[str, Any], told: set[str]) -> None:
    assert faults(kind, {**KINDS[kind][0], **changes}) == told


@EVERY_KIND
@NO_HURRY
@given(data=st.data())
def test_whatever_is_broken_is_examined(kind: Kind, data: st.DataObject) -> None:
    spec = copy.deepcopy(data.draw(written.of_part(kind.spec)))
    for _ in range(data.draw(st.integers(0, 6))):
        _break(spec, data.draw)
    found = kind.examine("it", spec, EVERYTHING)
    if not found.faults:
        kind.spec.model_validate(spec)


def _break(spec: Any, draw: Callable[..., Any]) -> None:
    """Anything, anywhere, or nothing where something was."""
    holder, key = draw(st.sampled_from([*_places(spec), (spec, "modelName")]))
    if isinstance(holder, dict) and key in holder and draw(st.booleans()):
        del holder[key]
    else:
        holder[key] = copy.deepcopy(draw(st.sampled_from(written.POOL)))


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _places(value[key])


def _named(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, **more}


LARGE: dict[str, Callable[[int], dict[str, Any]]] = {
    "InferenceModel": lambda n: {
        "manifest": [{"version": f"a{i}", "size": 1} for i in range(n)], "extraNames": [f"n{i // 2}" for i in range(n)],
        "env": [{"nme": f"V{i}"} for i in range(n)],
    },
    "TrainingJob": lambda n: {
        "command": [1] * n, "replicaSpecs": {f"Worker{i}": {"replica": 1} for i in range(n)}, "env": [{}] * n,
    },
    "MLGraph": lambda n: {"dag": [
        {"name": f"n{i}", "dependencies": [f"m{i}"], "timeoutMs": "x",
         "route": {"mab": {"exp4": {}}, "split": {"traffic": {f"z{i}": 1}}}} for i in range(n)
    ]},
    "Rollout": lambda n: {"steps": [{"analysis": {"metrc": "reward", "count": "x"}} for _ in range(n)]},
    "RoleBinding": lambda n: {"subjects": [f"a {i // 2}" for i in range(n)], "verbs": ["raed"] * n, "target": {}},
    "Application": lambda n: {
        "components": [_named(f"c{i}", type="tfjob", dependsOn=[f"d{i}"], properties={"x": i}) for i in range(n)],
        "workflow": {"steps": [
            _named(f"s{i}", type="ml-model-checkpoint", dependsOn=[f"t{i}"], properties={"from": f"u{i}"})
            for i in range(n)
        ]},
    },
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_the_price_grows_with_the_spec_and_no_faster(kind: str) -> None:
    """In calls of functions, which are the same on every machine."""
    faults(kind, LARGE[kind](2))  # what is made once, and kept
    some, twice = (_calls(kind, LARGE[kind](n)) for n in (120, 240))
    assert twice < 2.5 * some


def _calls(kind: str, spec: dict[str, Any]) -> int:
    calls = 0

    def count(_frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        found = faults(kind, spec)
    finally:
        sys.setprofile(before)
    assert len(found) > 100
    return calls
