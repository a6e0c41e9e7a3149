"""§E.1 to §E.3, decided from facts alone: what follows when replicas end, and how a set ends."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from mizzen.controllers.training.admission_queue import Admission
from mizzen.kinds.schema.resource import format_time
from tests.support.controllers import jobs
from tests.support.controllers.jobs import Set, running
from tests.support.controllers.objects import NOW
from tests.support.golden import Golden


def test_a_restart_waits_and_bumps_the_attempt_only_then() -> None:
    made = running(restartPolicy="OnFailure")
    made.sees("worker-0", "ended", 1)
    decision = made.look()
    assert made.why == ("Restarting", "BackOff")
    assert (made.running, decision.requeue_after) == ({"worker-0": 0}, 1.0)
    assert [note.reason for note in decision.notes] == ["ReplicaEnded"]
    made.look(after=0.5)
    assert made.running == {"worker-0": 0}
    made.look(after=0.5)
    assert made.running == {"worker-0": 1}
    assert made.why == ("Running", "Starting")
    made.look(after=0.5)
    assert made.why == ("Running", "Starting"), "what was seen of the attempt before says nothing of this one"
    made.sees("worker-0", "ready")
    made.look()
    assert (made.states, made.status.restarts) == ({"worker-0": "running"}, 1)
    assert made.status.replica_states[0].exit_code == 1


def test_back_off_grows_and_the_limit_is_final() -> None:
    made = running(restartPolicy="OnFailure", backoffLimit=3)
    waits = []
    for _ in range(3):
        made.sees("worker-0", "ended", 137)
        waits.append(made.look().requeue_after)
        made.look(after=waits[-1] or 0)
    assert waits == [1, 2, 4]
    assert made.running == {"worker-0": 3}
    made.sees("worker-0", "ended", 137)
    made.look()
    assert made.why == ("Failed", "BackoffLimitExceeded")
    message = "the job was restarted 3 times, and spec.backoffLimit is 3; worker-0 was killed (137: SIGKILL)"
    assert made.condition("Failed").message == message
    assert made.status.restarts == 3


def test_replicas_that_end_together_count_once_and_each_of_their_own_does() -> None:
    made = running(replicas=8, restartPolicy="ExitCode", backoffLimit=2)
    for times in (1, 2):
        for replica in made.running:
            made.sees(replica, "ended", 137, reason="Interrupted", retry=True)
        made.look()
        assert made.status.restarts == times
        made.look(after=60)
        assert set(made.running.values()) == {times}
    made.sees("worker-3", "ended", 137)
    made.look()
    assert made.why == ("Failed", "BackoffLimitExceeded")


def test_two_that_end_in_turns_do_not_go_on_for_ever() -> None:
    made = running(replicas=2, restartPolicy="OnFailure", backoffLimit=4)
    made.sees("worker-0", "ended", 1)
    made.look()
    waits, runs = "worker-0", "worker-1"
    for _ in range(20):
        due = next(each.restart_at for each in made.status.replica_states if each.name == waits)
        if due is None:
            break
        made.now = datetime.fromisoformat(due) - timedelta(seconds=0.1)
        made.sees(runs, "ended", 1)
        made.look()
        made.look(after=0.1)
        waits, runs = runs, waits
    assert made.why == ("Failed", "BackoffLimitExceeded")
    assert made.status.restarts == 4


def test_a_restarting_replica_does_not_disturb_the_others() -> None:
    made = running(replicas=2, restartPolicy="OnFailure")
    made.sees("worker-1", "ended", 1)
    made.look()
    assert made.states == {"worker-0": "running", "worker-1": "restarting"}
    made.look(after=1)
    assert made.running == {"worker-0": 0, "worker-1": 1}


def test_the_policy_of_a_type_stands_over_that_of_the_job() -> None:
    made = running(
        replicaSpecs={"Chief": {}, "Worker": {"replicas": 1, "restartPolicy": "OnFailure"}}, restartPolicy="Never"
    )
    made.sees("worker-0", "ended", 1)
    made.look()
    assert made.why[0] == "Restarting"
    made.sees("chief-0", "ended", 1)
    made.look()
    assert made.why == ("Failed", "ReplicaFailed")


def test_the_set_succeeds_with_its_chief_and_what_still_runs_is_stopped() -> None:
    made = running(replicaSpecs={"Worker": {"replicas": 2}, "Chief": {}, "PS": {}})
    made.sees("worker-0", "ended", 0)
    made.look()
    assert made.why[0] == "Running"
    made.sees("chief-0", "ended", 0)
    made.look()
    assert made.why[0] == "Succeeded"
    assert made.running == {}
    assert made.states == {"chief-0": "succeeded", "worker-0": "succeeded", "worker-1": "stopped", "ps-0": "stopped"}


def test_without_a_chief_worker_0_leads() -> None:
    made = running(replicas=2)
    made.sees("worker-1", "ended", 0)
    made.look()
    assert made.why[0] == "Running"
    made.sees("worker-0", "ended", 0)
    made.look()
    assert made.why[0] == "Succeeded"


def test_with_all_workers_the_set_waits_for_all_of_them() -> None:
    made = running(
        replicaSpecs={"Chief": {}, "Worker": {"replicas": 2}, "PS": {}}, successPolicy="AllWorkers",
        restartPolicy="Always",
    )  # fmt: skip
    for replica in ("chief-0", "worker-1"):
        made.sees(replica, "ended", 0)
        made.look()
        assert made.why[0] == "Running", replica
    made.sees("worker-0", "ended", 0)
    made.look()
    assert made.why[0] == "Succeeded"


def test_a_permanent_failure_of_any_replica_fails_the_set() -> None:
    made = running(replicaSpecs={"Worker": {"replicas": 2}, "Evaluator": {}})
    made.sees("evaluator-0", "ended", 2)
    made.look()
    assert made.why == ("Failed", "ReplicaFailed")
    assert made.states["worker-0"] == "stopped"


def test_of_several_failures_the_first_is_told(golden: Golden) -> None:
    made = running(replicas=2)
    made.sees("worker-0", "ended", 1, ended=format_time(NOW + timedelta(seconds=2)))
    made.sees("worker-1", "ended", 9, ended=format_time(NOW + timedelta(seconds=1)))
    made.look()
    golden.check(made.condition("Failed").message)


def test_a_peer_that_fails_while_the_leaders_results_are_put_away_does_not_fail_the_set(golden: Golden) -> None:
    made = running(replicas=2)
    made.sees("worker-1", "ended", 1)
    made.look(leader_is_done=True)
    assert made.why[0] == "Running"
    made.sees("worker-0", "ended", 0)
    made.look(leader_is_done=True)
    assert made.why[0] == "Succeeded"
    other = running(replicas=2)
    other.sees("worker-1", "ended", 1)
    other.look(leader_is_done=True)
    other.sees("worker-0", "ended", 2, ended=format_time(NOW + timedelta(seconds=1)))
    other.look(leader_is_done=True)
    golden.check(other.condition("Failed").message)


@pytest.mark.parametrize("clean", ["Running", "All"])
def test_cleaning_up_stops_what_runs(clean: str) -> None:
    made = running(replicas=2, cleanPodPolicy=clean)
    made.sees("worker-0", "ended", 0)
    assert made.look().children == ()


def test_without_cleaning_up_what_runs_goes_on_and_keeps_the_share_until_it_ends() -> None:
    made = running(replicas=2, cleanPodPolicy="None")
    made.sees("worker-0", "ended", 0)
    made.look()
    assert (made.why[0], made.running) == ("Succeeded", {"worker-1": 0})
    assert made.states == {"worker-0": "succeeded", "worker-1": "running"}
    made.look(after=100)
    assert made.running == {"worker-1": 0}
    made.sees("worker-1", "ended", 7)
    made.look()
    assert (made.running, made.states["worker-1"]) == ({}, "failed")
    assert made.why[0] == "Succeeded"


def test_what_was_left_running_can_be_ended_as_well() -> None:
    made = running(replicas=2, cleanPodPolicy="None")
    made.sees("worker-0", "ended", 0)
    made.look()
    made.end(terminated={"actor": "ada", "time": format_time(NOW)})
    made.look()
    assert (made.why[0], made.running, made.states["worker-1"]) == ("Succeeded", {}, "stopped")


@pytest.mark.parametrize("clean", ["Running", "All", "None"])
def test_who_ends_a_job_ends_all_of_it(clean: str) -> None:
    made = running(replicas=2, cleanPodPolicy=clean)
    made.end(terminated={"actor": "ada", "time": format_time(NOW)})
    assert made.look().children == ()
    assert made.why == ("Failed", "Terminated")
    assert made.condition("Failed").message == "terminated by ada"
    before = made.facts.resource
    made.look(after=5)
    assert made.facts.resource == before


def test_a_job_that_waits_can_be_ended_as_well() -> None:
    made = Set(jobs.job(), admission=Admission(admitted=False, reason="WaitingForShare"))
    made.look()
    made.end(terminated={"actor": "ada", "time": format_time(NOW)})
    made.look()
    assert made.why == ("Failed", "Terminated")


def test_a_set_that_had_succeeded_when_it_was_ended_has_succeeded() -> None:
    made = running()
    made.sees("worker-0", "ended", 0)
    made.end(terminated={"actor": "ada", "time": format_time(NOW)})
    made.look()
    assert made.why[0] == "Succeeded"


def test_what_runs_is_left_as_it_was_started_and_the_next_attempt_takes_the_new_spec() -> None:
    made = running(restartPolicy="OnFailure", hyperparameters={"lr": 1})
    before = made.facts.children
    made.change(hyperparameters={"lr": 2})
    made.look()
    assert made.facts.children == before
    made.sees("worker-0", "ended", 1)
    made.look()
    made.look(after=1)
    assert made.facts.children[0].spec["task"]["hyperparameters"] == {"lr": 2}


def test_a_version_that_is_gone_is_missed_at_the_next_attempt_only() -> None:
    made = running(restartPolicy="OnFailure")
    made.look(version=None)
    assert made.why[0] == "Running"
    made.sees("worker-0", "ended", 1)
    made.look()
    made.look(after=1)
    assert made.why == ("Failed", "VersionNotFound")


def test_an_environment_that_cannot_be_built_fails_a_job_that_is_tried_once() -> None:
    once, again = running(), running(restartPolicy="OnFailure")
    for made in (once, again):
        made.sees("worker-0", "waiting", reason="EnvironmentFailed", message="no such package")
        made.look()
    assert once.why == ("Failed", "EnvironmentFailed")
    assert again.why == ("Queued", "EnvironmentFailed")


def test_a_workload_somebody_deleted_comes_back_with_the_same_attempt() -> None:
    made = running()
    made.facts = replace(made.facts, children=())
    made.look()
    assert made.running == {"worker-0": 0}


def test_a_status_that_was_never_written_after_the_attempt_was_bumped_is_caught_up_with() -> None:
    made = running(restartPolicy="OnFailure")
    made.sees("worker-0", "ended", 1)
    made.look()
    stale = made.facts.resource
    made.look(after=1)
    made.facts = replace(made.facts, resource=stale)
    made.sees("worker-0", "ready")
    made.look()
    assert (made.running, made.states) == ({"worker-0": 1}, {"worker-0": "running"})


def test_what_is_still_reported_of_the_attempt_before_says_nothing_of_this_one() -> None:
    made = running(restartPolicy="OnFailure")
    made.sees("worker-0", "ended", 137)
    made.look()
    made.look(after=1)
    [child] = made.facts.children
    late = {"index": 0, "state": "ended", "attempt": 0, "exitCode": 137}
    told = {"replicas": [late], "observedGeneration": child.meta.generation}
    made.look(children=(replace(child, status=told),))
    assert (made.running, made.states, made.status.restarts) == ({"worker-0": 1}, {"worker-0": "starting"}, 1)
