"""What the controller of InferenceModels does with the number of replicas that the load asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mizzen.controllers.scaling.autoscaler import Autoscaler
from mizzen.controllers.serving.controller import Serving
from mizzen.controllers.serving.facts import ServingFacts
from mizzen.kinds.model import ModelVersionSpec
from mizzen.kinds.rules import workload_template
from mizzen.kinds.schema.findings import Context
from mizzen.kinds.schema.resource import Condition, Resource, format_time
from mizzen.kinds.serving import InferenceModelSpec, InferenceModelStatus
from mizzen.reconcile.controller import Decision
from mizzen.reconcile.workloads import DesiredScale
from tests.support.controllers.objects import NOW, inference_model, ready, version, workload

SCALE = {"minReplicas": 0, "maxReplicas": 5}
AFTER_A_WHILE = "no requests for 300 s"


def server(
    desired: int | None = None,
    *,
    target: str = "1",
    serving: str | None = "1",
    told: Condition | None = None,
    **spec: Any,
) -> Resource:
    """As it is after it has answered, unless said otherwise."""
    made = inference_model("im", target, serving=serving, ready=told or ready(), autoScale=SCALE, **spec)
    recorded = {} if desired is None else {"desiredReplicas": desired, "desiredSince": "then", "desiredReason": "so"}
    return replace(made, status={**made.status, **recorded})


def child(resource: Resource, number: str, *states: str, wanted: int | None = None) -> Resource:
    whole = workload_template.workload_of(
        resource, InferenceModelSpec.of(resource), ModelVersionSpec.of(version(number)), ()
    )
    made = workload(f"im.{number}", *states)
    return replace(made, spec={**whole.spec, "replicas": len(states) if wanted is None else wanted})


def decide(
    resource: Resource, replicas: int, children: Sequence[Resource] = (), *, in_flight: float = 0.0, target: str = "1"
) -> Decision:
    serving = version("1") if target != "1" else None
    facts = ServingFacts(
        resource, version(target), serving, tuple(children), scale=DesiredScale(replicas, in_flight, 300.0)
    )
    return Serving("http://x", Context()).decide(facts, NOW)


def sizes(decision: Decision) -> dict[str, int]:
    return {each.meta.name: each.spec["replicas"] for each in decision.children}


def told(decision: Decision) -> InferenceModelStatus:
    assert isinstance(decision.status, InferenceModelStatus)
    return decision.status


def said(decision: Decision) -> tuple[str, str]:
    condition = told(decision).condition("Ready")
    assert condition is not None
    return condition.status, condition.reason


def test_the_load_decides_and_the_status_says_how_and_why() -> None:
    resource = server(1, replicas=1)
    decision = decide(resource, 3, [child(resource, "1", "ready")], in_flight=10.4)
    assert sizes(decision) == {"im.1": 3}
    status = told(decision)
    assert (status.desired_replicas, status.desired_since, status.desired_reason) == (
        3, format_time(NOW), "11 in flight",
    )  # fmt: skip
    assert [str(note.message) for note in decision.notes] == ["from 1 to 3 replicas: 11 in flight"]
    assert said(decision) == ("True", "Serving")


def test_what_was_so_before_is_not_written_again() -> None:
    resource = server(3)
    decision = decide(resource, 3, [child(resource, "1", "ready", "ready", "ready")], in_flight=2.0)
    assert (told(decision).desired_since, told(decision).desired_reason, decision.notes) == ("then", "so", ())


def test_at_zero_it_is_ready_and_its_url_stays() -> None:
    resource = server(1)
    decision = decide(resource, 0, [child(resource, "1", "ready")])
    assert sizes(decision) == {"im.1": 0}
    assert said(decision) == ("True", "ScaledToZero")
    assert (told(decision).serving_version, told(decision).url is not None) == ("1", True)
    assert told(decision).desired_reason == AFTER_A_WHILE


def test_waking_counts_as_ready_until_it_fails() -> None:
    asleep = server(0, told=ready(reason="ScaledToZero"))
    assert said(decide(asleep, 1, [child(asleep, "1", wanted=0)])) == ("True", "Waking")
    waking = server(1, told=ready(reason="Waking"))
    assert said(decide(waking, 1, [child(waking, "1", "starting")])) == ("True", "Waking")
    assert said(decide(waking, 1, [child(waking, "1", "failed")])) == ("False", "LoadFailed")
    assert said(decide(waking, 1, [child(waking, "1", "ready")])) == ("True", "Serving")


def test_what_never_answered_does_not_begin_with_zero() -> None:
    decision = decide(server(serving=None, told=ready("False", "Starting")), 0)
    assert sizes(decision) == {"im.1": 1}
    assert said(decision) == ("False", "Starting")


def test_a_new_version_of_what_rests_has_to_answer_first() -> None:
    resource = server(0, target="2", told=ready(reason="ScaledToZero"))
    old = child(resource, "1", wanted=0)
    begun = decide(resource, 0, [old], target="2")
    assert sizes(begun) == {"im.2": 1, "im.1": 0}
    assert told(begun).serving_version == "1"
    done = decide(resource, 0, [old, child(resource, "2", "ready")], target="2")
    assert (sizes(done)["im.2"], told(done).serving_version) == (1, "2")


def test_a_spec_that_is_refused_does_not_wake_what_rests(tmp_path: Path) -> None:
    def count(resource: Resource) -> int:
        scaling = Autoscaler(tmp_path, lambda _: None, clock=lambda: 1000.0)
        scaled = Serving("http://x", Context(), scaler=scaling)._scale(resource, InferenceModelSpec.of(resource))
        assert scaled is not None
        return scaled.replicas

    refused = ready("False", "VersionNotFound")
    assert count(server(0, target="9", told=refused)) == 0
    assert count(server(1, target="9", told=refused)) == 1
    assert count(server(0, serving=None, told=refused)) == 1, "nobody has seen it answer"


def test_a_new_version_takes_over_with_as_many_as_are_wanted_now() -> None:
    resource = server(3, target="2")
    old = child(resource, "1", "ready", "ready", "ready")
    early = decide(resource, 3, [old, child(resource, "2", "ready", "ready", "starting")], target="2")
    assert told(early).serving_version == "1"
    assert sizes(early) == {"im.2": 3, "im.1": 3}
    done = decide(resource, 3, [old, child(resource, "2", "ready", "ready", "ready")], target="2")
    assert told(done).serving_version == "2"


def test_what_answers_follows_the_load_while_the_next_version_does_not_come_up() -> None:
    resource = server(1, target="2")
    both = [child(resource, "1", "ready"), child(resource, "2", "failed")]
    assert sizes(decide(resource, 4, both, target="2")) == {"im.2": 4, "im.1": 4}
    facts = ServingFacts(resource, None, None, (both[0],), scale=DesiredScale(2, 5.0, 300.0))
    missing = Serving("http://x", Context()).decide(facts, NOW)
    assert (said(missing)[1], sizes(missing)) == ("VersionNotFound", {"im.1": 2})


def test_what_is_not_scaled_any_more_says_nothing_of_it() -> None:
    resource = inference_model("im", serving="1", ready=ready(), replicas=2)
    resource = replace(resource, status={**resource.status, "desiredReplicas": 4, "desiredReason": "so"})
    facts = ServingFacts(resource, version("1"), None, (child(resource, "1", "ready"),))
    decision = Serving("http://x", Context()).decide(facts, NOW)
    assert sizes(decision) == {"im.1": 2}
    assert (told(decision).desired_replicas, told(decision).desired_reason) == (None, "")
