"""§E.4 and §E.5, decided from facts alone: deadlines, suspension, and what comes after the end."""

from __future__ import annotations

from mizzen.controllers.training.admission_queue import Admission
from mizzen.kinds.schema.resource import format_time
from mizzen.kinds.training import JobProgress
from tests.support.controllers import jobs
from tests.support.controllers.jobs import Set, running
from tests.support.controllers.objects import NOW


def test_the_deadline_counts_running_time_over_restarts_and_not_the_rest() -> None:
    made = running(restartPolicy="OnFailure", activeDeadlineSeconds=100)
    assert made.look(after=10).requeue_after == 30
    made.sees("worker-0", "ended", 1)
    made.look(after=30)
    assert (made.status.ran_seconds, made.status.running_since) == (40, None)
    made.look(after=200)
    assert made.why[0] == "Running"
    assert made.look(after=45).requeue_after == 15
    made.look(after=15)
    assert made.why == ("Failed", "DeadlineExceeded")
    assert made.running == {}


def test_the_deadline_stands_still_while_a_job_is_suspended() -> None:
    made = running(activeDeadlineSeconds=100)
    made.change(suspend=True)
    made.look(after=60)
    made.look(after=1000)
    assert made.why == ("Suspended", "Suspended")
    made.change(suspend=False)
    made.look()
    made.sees("worker-0", "ready")
    made.look(after=30)
    made.look(after=30)
    assert made.why[0] == "Running"
    made.look(after=15)
    assert made.why == ("Failed", "DeadlineExceeded")


def test_time_while_no_plane_was_there_does_not_count_towards_the_deadline() -> None:
    made = running(activeDeadlineSeconds=100)
    made.look(after=31)
    assert made.status.ran_seconds == 31
    made.look(after=36_000, inherited=True)
    assert made.why[0] == "Running"
    made.look(after=70, inherited=False)
    assert made.why == ("Failed", "DeadlineExceeded")


def test_suspending_stops_all_and_resuming_starts_the_next_attempt_of_who_had_not_ended_well() -> None:
    made = running(replicas=3, cleanPodPolicy="None")
    made.sees("worker-1", "ended", 0)
    made.look()
    made.change(suspend=True)
    assert made.look().children == ()
    assert made.why == ("Suspended", "Suspended")
    assert made.states == {"worker-0": "stopped", "worker-1": "succeeded", "worker-2": "stopped"}
    made.look(admission=Admission(admitted=False))
    assert made.status.admitted is False
    made.change(suspend=False)
    made.look(admission=Admission(admitted=False, reason="WaitingForShare"))
    assert made.why == ("Queued", "WaitingForShare")
    made.look(admission=jobs.ADMITTED)
    made.look()
    assert made.running == {"worker-0": 1, "worker-2": 1}
    assert made.status.restarts == 0


def test_a_job_that_is_made_suspended_begins_with_its_first_attempt() -> None:
    made = Set(jobs.job(suspend=True), admission=Admission(admitted=False))
    made.look()
    assert made.why[0] == "Suspended"
    made.change(suspend=False)
    made.look(admission=jobs.ADMITTED)
    made.look()
    assert made.running == {"worker-0": 0}


def test_one_suspended_during_its_back_off_goes_on_with_the_next_attempt() -> None:
    made = running(restartPolicy="OnFailure")
    made.sees("worker-0", "ended", 1)
    made.look()
    made.change(suspend=True)
    made.look()
    assert made.status.replica_states[0].restart_at is None
    made.change(suspend=False)
    made.look(after=3600)
    assert made.running == {"worker-0": 1}


def test_what_has_ended_is_not_changed_by_anything() -> None:
    made = running(restartPolicy="OnFailure")
    made.sees("worker-0", "ended", 0)
    made.look()
    told = made.status
    made.change(suspend=True, replicas=3, restartPolicy="Always")
    made.end(terminated={"actor": "ada", "time": format_time(NOW)})
    assert made.look(after=50).children == ()
    assert made.why == ("Succeeded", "Succeeded")
    assert made.status.completion_time == told.completion_time


def test_ttl_removes_the_object_when_it_is_due() -> None:
    made = running(ttlSecondsAfterFinished=60)
    made.sees("worker-0", "ended", 0)
    made.look()
    decision = made.look(after=20)
    assert (decision.remove, decision.requeue_after) == (False, 40)
    assert made.look(after=40).remove
    for_ever = running()
    for_ever.sees("worker-0", "ended", 0)
    for_ever.look()
    assert not for_ever.look(after=1e9).remove


def test_progress_is_written_at_most_every_thirty_seconds_and_at_the_end() -> None:
    made = running()

    def said(step: int) -> JobProgress:
        return JobProgress(step=step, time=format_time(made.now))

    made.look(progress=said(1))
    assert made.status.progress == said(1)
    first = made.status.progress
    made.look(after=10, progress=said(2))
    assert made.status.progress == first
    made.look(after=20, progress=said(3))
    assert made.status.progress is not None
    assert made.status.progress.step == 3
    made.sees("worker-0", "ended", 0)
    made.look(after=1, progress=said(4))
    assert made.status.progress.step == 4


def test_nothing_is_written_while_nothing_happens() -> None:
    made = running()
    before = made.facts
    made.look(after=5)
    made.look(after=20)
    assert made.facts == before
