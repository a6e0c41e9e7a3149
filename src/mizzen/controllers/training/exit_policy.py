"""What the end of one replica means (§E): it has done its part, is tried again, or has failed for good. Pure."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import Literal

from mizzen.kinds.training import RestartPolicy
from mizzen.kinds.workload import ReplicaStatus

FIRST_DELAY, LONGEST_DELAY = 1.0, 60.0
KILLED = 137
"""What an end counts as that was not the command's doing."""
PERMANENT = 127
"""With policy ExitCode, codes up to this one are final."""

HOPELESS = frozenset({"CodeUnavailable", "DatasetUnavailable", "CommandNotFound"})
"""Another attempt would end alike, whatever the policy says; what may pass was tried again by the runner already."""
TOLD = HOPELESS | {"NoRoom", "OutOfMemory", "StorageUnavailable", "Interrupted", "RunnerLost", "EnvironmentFailed"}
"""Reasons of replicas that stand for the whole set."""
FORCE_MAJEURE = frozenset({"Interrupted", "RunnerLost", "StorageUnavailable"})

Meaning = Literal["succeeded", "again", "failed"]


@dataclass(frozen=True, slots=True)
class End:
    meaning: Meaning
    reason: str = ""
    """Of a failure: one of `TOLD`, or `ReplicaFailed`."""
    message: str = ""


def meaning(name: str, seen: ReplicaStatus, policy: RestartPolicy, *, counts: bool) -> End:
    """Of an attempt that has ended, or cannot be started at all. `counts`: its success is the set's, or part of it."""
    if seen.state == "failed":
        reason = seen.reason if seen.reason in TOLD else "ReplicaFailed"
        return End("failed", reason, f"{name} cannot be started: {seen.message}")
    code = code_of(seen)
    if code == 0:
        return End("again" if policy == "Always" and not counts else "succeeded")
    if seen.reason not in HOPELESS and _goes_on(policy, code):
        return End("again")
    reason = seen.reason if seen.reason in TOLD else "ReplicaFailed"
    return End("failed", reason, said(name, seen) + _advice(seen, policy))


def code_of(seen: ReplicaStatus) -> int:
    """What policies go by. An end without a code, or a good one of which something was lost, is a bad one."""
    if seen.retry:
        return KILLED
    code = KILLED if seen.exit_code is None else seen.exit_code
    return 1 if code == 0 and seen.reason in TOLD else code


def delay(restarts: int) -> float:
    """Seconds before the next attempt of a replica that was started again so often before."""
    return float(min(FIRST_DELAY * 2 ** min(restarts, 16), LONGEST_DELAY))


def said(name: str, seen: ReplicaStatus) -> str:
    """How it ended, and what was said of it."""
    how, more = _how(seen.exit_code)
    notes = ", ".join(filter(None, (more, seen.reason)))
    told = f"{name} {how} ({notes})" if notes else f"{name} {how}"
    return f"{told}: {seen.message}" if seen.message else told


def _how(code: int | None) -> tuple[str, str]:
    """In words, and the signal's name where it was one that ended it."""
    if code is None:
        return "ended", ""
    try:
        by = signal.Signals(code - 128).name
    except ValueError:
        return f"ended with code {code}", ""
    return ("was killed", f"{code}: {by}") if code == KILLED else (f"ended with code {code}", by)


def _goes_on(policy: RestartPolicy, code: int) -> bool:
    match policy:
        case "Never":
            return False
        case "OnFailure" | "Always":
            return True
        case "ExitCode":
            return not 0 < code <= PERMANENT


def _advice(seen: ReplicaStatus, policy: RestartPolicy) -> str:
    if policy != "Never" or not (seen.retry or seen.reason in FORCE_MAJEURE):
        return ""
    return "; spec.restartPolicy is Never: with OnFailure or ExitCode it would have gone on"
