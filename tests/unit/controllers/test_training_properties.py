"""Whatever replicas do, and people with them: one phase at a time, ends are for ever, attempts only grow."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from mizzen.controllers.training import decide
from mizzen.controllers.training.admission_queue import Admission
from mizzen.controllers.training.facts import SavedCheckpoints, TrainingFacts
from mizzen.kinds import catalog
from mizzen.kinds.schema.resource import format_time
from mizzen.kinds.training import TrainingJobStatus
from tests.support.controllers import jobs
from tests.support.controllers.objects import NOW
from tests.support.examples import examples

SPECS = st.fixed_dictionaries(
    {
        "replicaSpecs": st.sampled_from(
            (
                {"Worker": {"replicas": 1}},
                {"Worker": {"replicas": 3}},
                {
                    "Chief": {},
                    "Worker": {"replicas": 2, "restartPolicy": "ExitCode"},
                    "PS": {"restartPolicy": "Always"},
                },
                {"Master": {"restartPolicy": "OnFailure"}, "Worker": {"replicas": 1}, "Evaluator": {}},
            )
        ),
        "restartPolicy": st.sampled_from(("Never", "OnFailure", "Always", "ExitCode")),
        "backoffLimit": st.integers(0, 3),
        "cleanPodPolicy": st.sampled_from(("Running", "All", "None")),
        "successPolicy": st.sampled_from(("Chief", "AllWorkers")),
    },
    optional={"activeDeadlineSeconds": st.integers(1, 100), "ttlSecondsAfterFinished": st.integers(0, 50)},
)
SEEN = st.one_of(
    st.tuples(st.sampled_from(("starting", "ready", "waiting", "stopping", "failed")), st.none()),
    st.tuples(st.just("ended"), st.sampled_from((0, 1, 127, 128, 137, 255))),
)
STEPS = st.one_of(
    st.tuples(st.just("see"), st.integers(0, 3), SEEN),
    st.tuples(st.just("pass"), st.floats(0, 70), st.none()),
    st.tuples(st.just("suspend"), st.booleans(), st.none()),
    st.tuples(st.just("share"), st.booleans(), st.none()),
    st.tuples(st.just("lose"), st.integers(0, 9), st.none()),
    st.tuples(st.just("done"), st.booleans(), st.none()),
    st.tuples(st.just("terminate"), st.integers(0, 9), st.none()),
)


@settings(max_examples=examples(300), deadline=None)
@given(spec=SPECS, steps=st.lists(STEPS, max_size=30))
def test_no_sequence_of_events_breaks_the_rules_of_a_job_set(
    spec: dict[str, Any], steps: list[tuple[str, object, object]]
) -> None:
    ports = {f"{type_}-{index}": 20_000 for type_ in ("chief", "master", "worker", "ps") for index in range(3)}
    ports["evaluator-0"] = 20_000
    facts = TrainingFacts(
        jobs.job(status={"ports": ports}, **spec),
        version=jobs.code(),
        admission=jobs.ADMITTED,
        saved=SavedCheckpoints(),
    )
    now = NOW
    for word, value, seen in [("pass", 0.0, None), ("pass", 0.0, None), *steps]:
        facts, passed = _happen(facts, word, value, seen)
        now += timedelta(seconds=passed)
        decision = decide.decide(facts, jobs.KNOWN, "", now)
        before, facts = facts, jobs.applied(facts, decision, now)
        _keeps_the_rules(before, facts)
        again = decide.decide(facts, jobs.KNOWN, "", now)
        after = jobs.applied(facts, again, now)
        _keeps_the_rules(facts, after)
        third = jobs.applied(after, decide.decide(after, jobs.KNOWN, "", now), now)
        assert third == after, "it comes to rest when nothing happens"
        facts = after


def _happen(facts: TrainingFacts, word: str, value: object, seen: object) -> tuple[TrainingFacts, float]:
    resource, children = facts.resource, list(facts.children)
    match word, value:
        case "pass", float(seconds):
            return facts, seconds
        case "suspend", bool(suspend):
            return replace(facts, resource=replace(resource, spec={**resource.spec, "suspend": suspend})), 0.0
        case "terminate", 9:  # rarely: nothing happens after that
            status = {**resource.status, "terminated": {"actor": "ada", "time": format_time(NOW)}}
            return replace(facts, resource=replace(resource, status=status)), 0.0
        case "done", bool(done):
            return replace(facts, leader_is_done=done), 0.0
        case "share", bool(share):
            # What has its share keeps it until it ends or is suspended, as `Shares` promises.
            keeps = TrainingJobStatus.of(resource).admitted and bool(children)
            reason = "" if share else "WaitingForShare"
            return replace(facts, admission=Admission(admitted=share or keeps, reason=reason)), 0.0
        case "lose", int(index) if index < len(children):
            children.pop(index)
        case "see", int(index) if children and isinstance(seen, tuple):
            child = children[index % len(children)]
            was = (child.status.get("replicas") or [{}])[0]
            if was.get("state") != "ended" or was.get("attempt") != child.spec["task"]["attempt"]:
                children[index % len(children)] = jobs.reported(child, *seen)
    return replace(facts, children=tuple(children)), 0.0


def _keeps_the_rules(before: TrainingFacts, after: TrainingFacts) -> None:
    was, now = TrainingJobStatus.of(before.resource), TrainingJobStatus.of(after.resource)
    phases = jobs.phases(now)
    assert phases == [now.state], "exactly one phase holds"
    if was.state in ("Succeeded", "Failed"):
        assert now.state == was.state, "an end is for ever"
        assert now.completion_time == was.completion_time
        assert now.condition(was.state) == was.condition(was.state)
    assert (now.completion_time is not None) == (now.state in ("Succeeded", "Failed"))
    assert (now.running_since is not None) <= (now.state in ("Running", "Restarting"))
    limit = after.resource.spec["backoffLimit"]
    assert was.restarts <= now.restarts <= limit
    assert max((replica.restarts for replica in now.replica_states), default=0) <= now.restarts
    attempts = {replica.name: replica.attempt for replica in was.replica_states}
    for replica in now.replica_states:
        assert 0 <= replica.attempt - attempts.get(replica.name, 0) <= 1, "one attempt follows the other"
    if now.state == "Suspended":
        assert after.children == ()
    for child in after.children:
        assert catalog.check_accepted(child, jobs.KNOWN)[0].true
        told = next(each for each in now.replica_states if child.meta.name.endswith(f".{each.name}"))
        assert child.spec["task"]["attempt"] == told.attempt
    for child in after.children:
        old = next((each for each in before.children if each.meta.name == child.meta.name), None)
        if old is not None and old.spec["task"]["attempt"] != child.spec["task"]["attempt"]:
            [seen] = old.status["replicas"]
            assert (seen["state"], seen["attempt"]) == ("ended", old.spec["task"]["attempt"]), "nothing is cut off"
