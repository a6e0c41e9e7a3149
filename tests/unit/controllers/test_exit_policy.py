"""§E.1: what the end of one replica means, for every policy and kind of exit."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from mizzen.controllers.training import exit_policy
from mizzen.kinds.training import RestartPolicy
from mizzen.kinds.workload import ReplicaStatus

POLICIES: tuple[RestartPolicy, ...] = get_args(RestartPolicy)
CODES = (1, 2, 126, 127, 128, 129, 130, 137, 139, 143, 255)


def ended(code: int | None, **more: Any) -> ReplicaStatus:
    return ReplicaStatus.model_validate({"index": 0, "state": "ended", "exitCode": code, "attempt": 0, **more})


def meaning(rule: RestartPolicy, code: int | None, *, counts: bool = True, **more: Any) -> str:
    return exit_policy.judge_exit("worker-0", ended(code, **more), rule, counts=counts).meaning


def test_every_exit_code_means_what_the_policy_says() -> None:
    for code in CODES:
        assert meaning("Never", code) == "failed"
        assert meaning("OnFailure", code) == "again"
        assert meaning("Always", code) == "again"
        assert meaning("ExitCode", code) == ("failed" if code <= 127 else "again"), code


@pytest.mark.parametrize("rule", POLICIES)
def test_a_good_end_is_one_and_only_always_starts_a_helper_again(rule: RestartPolicy) -> None:
    assert meaning(rule, 0, counts=True) == "succeeded"
    assert meaning(rule, 0, counts=False) == ("again" if rule == "Always" else "succeeded")


@pytest.mark.parametrize("rule", POLICIES)
@pytest.mark.parametrize("reason", sorted(exit_policy.PERMANENT_REASONS))
def test_what_another_attempt_cannot_mend_is_final_whatever_the_policy(rule: RestartPolicy, reason: str) -> None:
    end = exit_policy.judge_exit("worker-0", ended(1, reason=reason, message="gone"), rule, counts=True)
    assert (end.meaning, end.reason) == ("failed", reason)
    assert end.message == f"worker-0 ended with code 1 ({reason}): gone"


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        (ended(3), "ended with code 3"),
        (ended(137), "was killed (137: SIGKILL)"),
        (ended(137, reason="OutOfMemory", message="too large"), "was killed (137: SIGKILL, OutOfMemory): too large"),
        (ended(143), "ended with code 143 (SIGTERM)"),
        (ended(139), "ended with code 139 (SIGSEGV)"),
        (ended(128), "ended with code 128"),
        (ended(255), "ended with code 255"),
        (ended(None), "ended"),
    ],
)
def test_an_end_by_a_signal_is_told_by_its_name(seen: ReplicaStatus, told: str) -> None:
    assert exit_policy.describe_exit("worker-0", seen) == f"worker-0 {told}"


@pytest.mark.parametrize("code", [0, 1, 137, None])
def test_an_end_that_was_not_the_commands_doing_counts_as_killed(code: int | None) -> None:
    assert meaning("ExitCode", code, reason="RunnerLost", retry=True) == "again"
    assert meaning("OnFailure", code, reason="Interrupted", retry=True) == "again"
    lost = exit_policy.judge_exit("worker-0", ended(code, reason="Interrupted", retry=True), "Never", counts=True)
    assert (lost.meaning, lost.reason) == ("failed", "Interrupted")
    assert "OnFailure or ExitCode would have restarted it" in lost.message


def test_a_good_end_whose_results_were_lost_is_a_bad_one() -> None:
    assert meaning("Never", 0, reason="NoRoom") == "failed"
    assert meaning("ExitCode", 0, reason="NoRoom") == "failed"
    assert meaning("OnFailure", 0, reason="NoRoom") == "again"


def test_an_end_without_a_code_counts_as_killed() -> None:
    assert meaning("ExitCode", None) == "again"
    assert meaning("Never", None) == "failed"


@pytest.mark.parametrize("rule", POLICIES)
def test_what_the_engine_cannot_start_is_final(rule: RestartPolicy) -> None:
    seen = ReplicaStatus.model_validate({"index": 0, "state": "failed", "message": "no such purpose"})
    end = exit_policy.judge_exit("ps-0", seen, rule, counts=False)
    assert (end.meaning, end.reason) == ("failed", "ReplicaFailed")
    assert end.message == "ps-0 cannot be started: no such purpose"


def test_the_first_restart_waits_a_second_and_later_ones_up_to_a_minute() -> None:
    assert [exit_policy.restart_delay(restarts) for restarts in range(8)] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert exit_policy.restart_delay(10_000) == 60
