"""The rule that replicas follow, in virtual time, against a slow reading of its words."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mizzen.controllers.scaling.rule import TARGET, DemandHistory, ScalingRule, desired_replicas, rule_of
from mizzen.kinds.serving import InferenceModelSpec
from tests.support.examples import examples

RULES = st.builds(
    lambda least, more, target, quiet, standby: ScalingRule(least, max(1, least + more), target, quiet, standby),
    st.integers(0, 3), st.integers(0, 6), st.integers(1, 70), st.sampled_from([1.0, 5.0, 300.0]), st.integers(0, 2),
)  # fmt: skip
LOOKS = st.lists(
    st.tuples(st.floats(0.05, 200.0), st.integers(0, 4000).map(lambda tenths: tenths / 10), st.booleans()), max_size=60
)


def by_its_words(rule: ScalingRule, looks: list[tuple[float, float, bool]], now: float) -> int:
    """The most that was needed within the last quiet seconds, and as many in standby, within the limits."""
    most = 0
    for at, in_flight, awaited in looks:
        if now - rule.quiet < at <= now:
            needed = math.ceil(Fraction(round(in_flight * 10), 10) / rule.target)
            most = max(most, needed, 1 if awaited else 0)
    return sorted((rule.min_replicas, most + rule.standby, rule.max_replicas))[1]


@settings(max_examples=examples(300))
@given(rule=RULES, steps=LOOKS)
def test_the_count_is_what_the_rule_says_at_every_look(
    rule: ScalingRule, steps: list[tuple[float, float, bool]]
) -> None:
    history, now, looks = DemandHistory(), 0.0, []
    for passed, in_flight, awaited in steps:
        now += passed
        looks.append((now, in_flight, awaited))
        history.add(now, rule.replicas_needed(in_flight, used=awaited))
        assert desired_replicas(history, now, rule) == by_its_words(rule, looks, now)
    later = now + rule.quiet + 1
    assert desired_replicas(history, later, rule) == sorted((rule.min_replicas, rule.standby, rule.max_replicas))[1]


def test_up_at_once_and_down_after_five_quiet_minutes() -> None:
    rule, history, counts = ScalingRule(1, 10), DemandHistory(), {}
    load = {0: 1, 60: 9, 61: 30, 90: 100, 100: 12, 200: 2}
    flying = 0
    for second in range(700):
        flying = load.get(second, flying)
        history.add(second, rule.replicas_needed(flying))
        counts[second] = desired_replicas(history, second, rule)
    assert counts[59] == 1
    assert (counts[60], counts[61], counts[90]) == (3, 8, 10)
    # 100 in flight were last seen in second 99, 12 in second 199.
    assert (counts[398], counts[399]) == (10, 3)
    assert (counts[498], counts[499], counts[699]) == (3, 1, 1)


def spec(**given: Any) -> InferenceModelSpec:
    return InferenceModelSpec.model_validate({"modelName": "m", "deployToLayer": "cloud", **given})


@pytest.mark.parametrize(
    ("given", "target"),
    [
        ({}, TARGET),
        ({"batching": {}}, 64),
        ({"batching": {"batchSize": 16}}, 16),
        ({"batching": {"batchSize": "auto"}, "timeoutMs": 100}, TARGET),
        ({"batching": {"batchSize": 16}, "autoScale": {"maxReplicas": 3, "target": 2}}, 2),
    ],
)
def test_the_target_is_the_declared_one_or_the_batch_size_or_four(given: dict[str, Any], target: int) -> None:
    rule = rule_of(spec(**{"autoScale": {"maxReplicas": 3}, **given}))
    assert rule == ScalingRule(1, 3, target)


def test_what_is_stopped_or_on_the_edge_is_not_scaled() -> None:
    scale = {"maxReplicas": 3}
    assert rule_of(spec()) is None
    assert rule_of(spec(autoScale=scale, replicas=0)) is None
    assert rule_of(spec(autoScale=scale, deployToLayer="edge")) is None
