"""A version that differs in data alone is given to the Workload that answers, and gets one of its own when that does
not take it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mizzen.controllers.serving.controller import Serving
from mizzen.controllers.serving.facts import ServingFacts
from mizzen.kinds.model import ModelVersionSpec
from mizzen.kinds.rules import workload_template
from mizzen.kinds.schema.findings import Context
from mizzen.kinds.schema.resource import Condition, Resource
from mizzen.kinds.serving import InferenceModelSpec, InferenceModelStatus
from mizzen.kinds.workload import RELOAD_REFUSED
from mizzen.reconcile.controller import Decision
from tests.support.controllers.objects import NOW, inference_model, meta, version


def made_of(number: str, *, code: str = "c", **spec: Any) -> Resource:
    """A version of a Python class; its data are its number."""
    files = {"model.py": code, "weights": number}
    artifacts = [
        {"path": path, "digest": f"sha256:{text:0>64}", "size": 1, "trusted": True} for path, text in files.items()
    ]
    return version(number, framework="python", entrypoint="model:Model", artifacts=artifacts, **spec)


def digest(number: str) -> str:
    return workload_template.files_digest(made_of(number).spec["artifacts"])


def answering(number: str, *, target: str, **spec: Any) -> Resource:
    """A server that answers with this version, and is to answer with that."""
    resource = inference_model("im", target, serving=number, **spec)
    return replace(resource, status={**resource.status, "servingWorkload": "im.1", "servingFiles": digest(number)})


def first(resource: Resource, *have: str, reloads: bool = True, refused: str = "", **spec: Any) -> Resource:
    """The Workload that version 1 was started in, with replicas that have the files of these versions."""
    made = workload_template.workload_of(
        resource, InferenceModelSpec.of(resource), ModelVersionSpec.of(made_of("1")), ()
    )
    replicas = [
        {"index": index, "state": "ready", "files": digest(number), "reloads": reloads, "address": f"unix:/{index}"}
        | ({"reason": RELOAD_REFUSED, "message": refused} if refused else {})
        for index, number in enumerate(have)
    ]
    available = Condition(type="Available", status="True" if have else "False", reason="Seen").wire()
    status = {"replicas": replicas, "conditions": [available], "observedGeneration": 1}
    return replace(made, meta=meta("im.1", labels=made.meta.labels), spec={**made.spec, **spec}, status=status)


def given(number: str) -> dict[str, Any]:
    """What is changed of the spec of `first` when it is given this version."""
    return {"artifacts": made_of(number).spec["artifacts"], "began": digest("1")}


def decide(resource: Resource, *children: Resource, target: Resource | None = None) -> Decision:
    told = InferenceModelStatus.of(resource).serving_version or "1"
    wanted = target or made_of(resource.spec["targetVersion"])
    serving = made_of(told) if told != wanted.spec["version"] else None
    return Serving("http://x", Context()).decide(ServingFacts(resource, wanted, serving, children), NOW)


def told(decision: Decision) -> tuple[str | None, str | None, str]:
    status = decision.status
    assert isinstance(status, InferenceModelStatus)
    return status.serving_version, status.serving_workload, status.serving_files


def reason(decision: Decision) -> str:
    assert decision.status is not None
    condition = decision.status.condition("Ready")
    assert condition is not None
    return condition.reason


def test_the_workload_that_answers_is_given_the_files_and_answers_for_the_old_version_until_it_has_them() -> None:
    resource = answering("1", target="2")
    before = first(resource, "1")
    begun = decide(resource, before)
    assert [child.meta.name for child in begun.children] == ["im.1"]
    assert begun.children[0].spec == {**before.spec, **given("2")}
    assert begun.children[0].meta.labels == before.meta.labels
    assert told(begun) == ("1", "im.1", digest("1"))
    assert reason(begun) == "Reloading"
    assert told(decide(resource, first(resource, "2", "1", **given("2")))) == ("1", "im.1", digest("1"))
    done = decide(resource, first(resource, "2", "2", **given("2")))
    assert told(done) == ("2", "im.1", digest("2"))
    assert reason(done) == "Serving"
    assert done.children[0].spec == {**before.spec, **given("2")}, "what its processes began with is not forgotten"


def test_back_to_the_first_version_in_the_same_workload() -> None:
    resource = answering("2", target="1")
    begun = decide(resource, first(resource, "2", **given("2")))
    assert begun.children[0].spec == first(resource, **given("1")).spec
    assert told(begun) == ("2", "im.1", digest("2"))
    assert told(decide(resource, first(resource, "1", **given("1")))) == ("1", "im.1", digest("1"))


@pytest.mark.parametrize(
    ("change", "target"),
    [
        ({"reloads": False}, made_of("2")),
        ({}, made_of("2", code="d")),
        ({"env": {"A": "b"}}, made_of("2")),
        ({"refused": "why"}, made_of("2")),
    ],
    ids=["it cannot", "other code", "other surroundings", "it refuses"],
)
def test_whatever_else_differs_is_started_beside(change: dict[str, Any], target: Resource) -> None:
    resource = answering("1", target="2")
    before = first(resource, "1", **change)
    decision = decide(resource, before, target=target)
    assert [child.meta.name for child in decision.children] == ["im.2", "im.1"]
    assert decision.children[1] == before
    assert told(decision) == ("1", "im.1", digest("1"))


def test_a_pickle_that_is_loaded_at_the_start_counts_as_code() -> None:
    pickles = {"entrypoint": "weights"}
    resource = answering("1", target="2")
    before = first(resource, "1")
    command = [*before.spec["command"]]
    command[command.index("model:Model")] = "weights"
    before = replace(before, spec={**before.spec, "command": command})
    decision = decide(resource, before, target=replace(made_of("2"), spec={**made_of("2").spec, **pickles}))
    assert [child.meta.name for child in decision.children] == ["im.2", "im.1"]


def test_one_that_never_said_which_files_answer_is_not_changed_where_it_is() -> None:
    resource = answering("1", target="2")
    resource = replace(resource, status={**resource.status, "servingFiles": ""})
    decision = decide(resource, first(resource, "1"))
    assert [child.meta.name for child in decision.children] == ["im.2", "im.1"]


def test_what_is_refused_starts_beside_and_the_old_one_has_its_files_back() -> None:
    resource = answering("1", target="2")
    refusing = first(resource, "1", refused="why", **given("2"))
    decision = decide(resource, refusing)
    assert [child.meta.name for child in decision.children] == ["im.2", "im.1"]
    assert "began" not in decision.children[0].spec
    assert decision.children[1].spec == first(resource, **given("1")).spec
    assert [note.reason for note in decision.notes] == ["ReloadRefused"]
    assert told(decision) == ("1", "im.1", digest("1"))
    # Whichever of the two was written before a plane was killed, the next one goes on.
    beside = replace(decision.children[0], meta=meta("im.2", labels=refusing.meta.labels))
    for old in (refusing, first(resource, "1", **given("2")), first(resource, "1", **given("1"))):
        again = decide(resource, old, beside)
        assert [child.spec for child in again.children] == [child.spec for child in decision.children]


def test_a_refusal_of_what_is_not_asked_for_any_more_does_not_count() -> None:
    resource = answering("1", target="3")
    old = first(resource, "1", refused="why", **given("1"))
    old = replace(old, meta=replace(old.meta, generation=2))
    decision = decide(resource, old)
    assert [child.meta.name for child in decision.children] == ["im.1"]
    assert decision.notes == ()


def test_who_asks_for_something_impossible_meanwhile_keeps_what_answered() -> None:
    resource = answering("1", target="9")
    facts = ServingFacts(resource, None, made_of("1"), (first(resource, "2", **given("2")),))
    decision = Serving("http://x", Context()).decide(facts, NOW)
    assert [child.spec for child in decision.children] == [first(resource, **given("1")).spec]
    assert told(decision) == ("1", "im.1", digest("1"))


def test_going_on_to_a_third_version_before_the_second_is_there() -> None:
    resource = answering("1", target="3")
    decision = decide(resource, first(resource, "2", "1", **given("2")))
    assert [child.spec for child in decision.children] == [first(resource, **given("3"), replicas=1).spec]
    assert told(decision) == ("1", "im.1", digest("1"))


def test_the_only_replica_may_be_away_meanwhile() -> None:
    resource = answering("1", target="2")
    assert told(decide(resource, first(resource, **given("2")))) == ("1", "im.1", digest("1"))
