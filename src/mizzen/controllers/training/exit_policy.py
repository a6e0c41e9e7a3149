"""The meaning of one replica's exit (§E): it has succeeded, is restarted, or has failed for good. Pure."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import Literal

from mizzen.kinds.training import RestartPolicy
from mizzen.kinds.workload import ReplicaStatus

FIRST_DELAY, LONGEST_DELAY = 1.0, 60.0
KILLED = 137
"""The exit code of an end that the command did not cause."""
LAST_PERMANENT_CODE = 127
"""With policy ExitCode, codes up to this one are permanent failures."""

PERMANENT_REASONS = frozenset({"CodeUnavailable", "DatasetUnavailable", "CommandNotFound"})
"""Another attempt would fail the same way, so no policy restarts these. The runner has retried transient causes."""
SET_REASONS = PERMANENT_REASONS | {
    "NoRoom", "OutOfMemory", "StorageUnavailable", "Interrupted", "RunnerLost", "EnvironmentFailed",
}  # fmt: skip
"""Reasons of replicas that become the reason of the job."""
EXTERNAL_REASONS = frozenset({"Interrupted", "RunnerLost", "StorageUnavailable"})

ExitMeaning = Literal["succeeded", "again", "failed"]


@dataclass(frozen=True, slots=True)
class ExitOutcome:
    meaning: ExitMeaning
    reason: str = ""
    """Of a failure: one of `SET_REASONS`, or `ReplicaFailed`."""
    message: str = ""


def judge_exit(name: str, observed: ReplicaStatus, policy: RestartPolicy, *, counts: bool) -> ExitOutcome:
    """Judge an attempt that has ended or cannot be started. `counts`: the job's success requires this replica's."""
    reason = observed.reason if observed.reason in SET_REASONS else "ReplicaFailed"
    if observed.state == "failed":
        return ExitOutcome("failed", reason, f"{name} cannot be started: {observed.message}")
    code = code_of(observed)
    if code == 0:
        return ExitOutcome("again" if policy == "Always" and not counts else "succeeded")
    if observed.reason not in PERMANENT_REASONS and _should_restart(policy, code):
        return ExitOutcome("again")
    return ExitOutcome("failed", reason, describe_exit(name, observed) + _advice(observed, policy))


def code_of(observed: ReplicaStatus) -> int:
    """The code that policies use. An end without a code, or a success whose results were lost, counts as a failure."""
    if observed.retry:
        return KILLED
    code = KILLED if observed.exit_code is None else observed.exit_code
    return 1 if code == 0 and observed.reason in SET_REASONS else code


def restart_delay(restarts: int) -> float:
    """Seconds before the next attempt of a replica that was restarted this often."""
    return float(min(FIRST_DELAY * 2 ** min(restarts, 16), LONGEST_DELAY))


def describe_exit(name: str, observed: ReplicaStatus) -> str:
    """How the replica ended, with its reason and message."""
    how, more = _describe_code(observed.exit_code)
    notes = ", ".join(filter(None, (more, observed.reason)))
    text = f"{name} {how} ({notes})" if notes else f"{name} {how}"
    return f"{text}: {observed.message}" if observed.message else text


def _describe_code(code: int | None) -> tuple[str, str]:
    """The exit as text, and the signal's name if a signal caused it."""
    if code is None:
        return "ended", ""
    try:
        by = signal.Signals(code - 128).name
    except ValueError:
        return f"ended with code {code}", ""
    return ("was killed", f"{code}: {by}") if code == KILLED else (f"ended with code {code}", by)


def _should_restart(policy: RestartPolicy, code: int) -> bool:
    match policy:
        case "Never":
            return False
        case "OnFailure" | "Always":
            return True
        case "ExitCode":
            return not 0 < code <= LAST_PERMANENT_CODE


def _advice(observed: ReplicaStatus, policy: RestartPolicy) -> str:
    if policy != "Never" or not (observed.retry or observed.reason in EXTERNAL_REASONS):
        return ""
    return "; spec.restartPolicy is Never: OnFailure or ExitCode would have restarted it"
