"""A task as a supervised runner, and what is seen of both as the status of a replica. Pure, but for `look` and `write`.

How an attempt ended is what its exit record says, whatever became of the process: the supervisor, the plane or the
machine may have gone down meanwhile. A process that ended and left no record was killed, and its command with it: it
is started once more, to put away what the command had saved.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from mizzen.engines.local.gpus.allocation import ACCOUNT
from mizzen.engines.local.process_specs import RANK, THREADS, Built, Obstacle, Place, memory_of, secrets_digest
from mizzen.kinds.schema.resource import format_time
from mizzen.kinds.workload import ReplicaState, ReplicaStatus, TrainingTask, WorkloadSpec
from mizzen.runs import records
from mizzen.runs.paths import JobPlace, ReplicaPlace
from mizzen.runs.records import EXIT_REASONS, Exit, File, Report, Task
from mizzen.supervisor.protocol import ProcessSpec, ProcessView, State

INDEX = 0
"""A task is done by one process."""
ATTEMPT = "MIZZEN_ATTEMPT"
DATASET_SECRETS = "MIZZEN_DATASET_"
"""Secrets called so are for the runner alone."""
LOST = "RunnerLost"
KILLED = 137
PUTTING_AWAY = 30.0
"""Seconds that a runner gets beyond the grace of its command, to keep what that saved."""

T = TypeVar("T", Report, Exit)


@dataclass(frozen=True, slots=True)
class Found:
    """What an attempt has left on disk so far."""

    report: Report | None = None
    exit: Exit | None = None
    stopped: bool = False
    """It was told to stop, and goes on when its runner is started again."""
    begun: bool = False
    """Its command was started."""
    lost: bool = False
    """Its runner was killed once; one more was to put away what the command had saved."""


def of(spec: WorkloadSpec) -> TrainingTask:
    assert spec.task is not None
    return spec.task


def place_of(place: Place, spec: WorkloadSpec) -> ReplicaPlace:
    return JobPlace(place.home.data_dir, of(spec).job_uid).replica(of(spec).replica)


def look(place: ReplicaPlace, attempt: int) -> Found:
    """Blocking."""
    report = _read(Report, place.report)
    return Found(
        report=report if report is not None and report.attempt == attempt else None,
        exit=_read(Exit, place.exit(attempt)),
        stopped=place.stopped(attempt).exists(),
        begun=place.begun(attempt).exists(),
        lost=place.lost(attempt).exists(),
    )


def starts_again(found: Found) -> bool:
    """Is there something left to do for this attempt, though its runner has ended?"""
    return found.exit is None and (found.stopped or (found.begun and not found.lost))


def note_lost(place: ReplicaPlace, attempt: int) -> bool:
    """Before its runner is started once more. False when that cannot be noted: then nobody would know when to stop.

    Blocking.
    """
    try:
        place.lost(attempt).touch()
    except OSError:
        return False
    return True


def write(place: Place, spec: WorkloadSpec, namespace: str) -> None:
    """All that a runner needs which is about to be started. What one before it reported is no longer so.

    Blocking; OSError.
    """
    where = place_of(place, spec)
    written = json.loads(json.dumps(task_of(spec, namespace).to_json()))
    if records.read(where.task) != written:
        records.write(where.task, written)
    where.report.unlink(missing_ok=True)
    place.work.mkdir(parents=True, exist_ok=True)


def task_of(spec: WorkloadSpec, namespace: str) -> Task:
    task = of(spec)
    return Task(
        namespace=namespace,
        model=task.model,
        version=task.version,
        version_uid=task.version_uid,
        job=task.job,
        job_uid=task.job_uid,
        replica=task.replica,
        attempt=task.attempt,
        command=spec.command,
        files=tuple(File(each.path, each.digest, each.size) for each in spec.artifacts),
        git=task.git,
        dataset=task.dataset.wire() if task.dataset is not None else None,
        hyperparameters=task.hyperparameters,
        env=spec.env,
        secret_names=tuple(name for name in _secret_names(spec) if not name.startswith(DATASET_SECRETS)),
        cluster=task.cluster,
        framework=task.framework,
        trusted=task.trusted,
        working_dir=spec.working_dir or "",
        grace=spec.grace_seconds,
    )


def runner_of(
    spec: WorkloadSpec,
    place: Place,
    *,
    python: str,
    threads: int = 1,
    secrets: Mapping[str, str] | None = None,
    built: Built | None = None,
    gpus: Mapping[str, str] | None = None,
    blob_env: Mapping[str, str] | None = None,
    blob_secrets: Mapping[str, str] | None = None,
) -> ProcessSpec:
    """`secrets`, `built` and `gpus` as for `replicas.process_of`. `blob_env`, `blob_secrets`: variables that say where
    blobs are kept."""
    memory, hidden = memory_of(spec), blob_secrets or {}
    names = {*_secret_names(spec), *hidden}
    known = {**(secrets or {}), **hidden}
    return ProcessSpec(
        key=place.key(INDEX),
        # Never that of an environment: the runner is ours, and only what it runs is theirs.
        argv=(python, "-P", "-m", "mizzen.runner"),
        env={
            "MIZZEN_TASK": str(place_of(place, spec).task),
            ATTEMPT: str(of(spec).attempt),
            **({"MIZZEN_SECRETS_DIGEST": secrets_digest(spec)} if spec.secret_env else {}),
            "MIZZEN_TERMINATION_LOG": str(place.termination_log(INDEX)),
            "MIZZEN_DATA_DIR": str(place.home.data_dir),
            # The runner sees to it: it is for the command, and must not keep the runner from telling its end.
            **({"MIZZEN_MEMORY": str(memory)} if memory is not None else {}),
            **(gpus if gpus and spec.gpu is not None else {}),
        },
        # A command that runs is left alone, whatever the next one is to find: only another attempt is another process.
        varying=dict.fromkeys(THREADS, str(threads))
        | {"MIZZEN_PYTHON": built.python if built is not None else python}
        | ({"MIZZEN_COMMAND_PYTHONPATH": built.parts, "MIZZEN_ENVIRONMENT": built.key} if built is not None else {})
        | dict(blob_env or {})
        | (dict(gpus) if gpus and spec.gpu is None else {}),
        secret_names=tuple(sorted(names)),
        secrets={name: value for name, value in known.items() if name in names},
        cwd=str(place.work),
        log=str(place.log(INDEX)),
        restart="never",
        grace=spec.grace_seconds + PUTTING_AWAY,
        termination_log=str(place.termination_log(INDEX)),
        rank=RANK,
        lasting=True,
    )


def ended(told: ReplicaStatus | None, attempt: int) -> bool:
    """Was the end of this attempt reported? Then nothing is started for it, whatever became of its files."""
    return told is not None and told.state == "ended" and told.attempt == attempt


def status_of(
    attempt: int,
    found: Found,
    view: ProcessView | None,
    *,
    current: bool,
    told: ReplicaStatus | None = None,
    obstacle: Obstacle | None = None,
) -> ReplicaStatus:
    """`view`: of the runner, as far as there is one; `current`: it is this attempt's. `told`: what was reported last.
    `obstacle`: why nothing can be started now."""
    if found.exit is not None:
        return _over(attempt, found.exit)
    if view is not None and current:
        if view.state is State.FAILED and not starts_again(found):
            return _over(attempt, _lost(attempt, found.report, view))
        if view.state is not State.WAITING:
            return _alive(attempt, found, view)
    return _waiting(attempt, view if current else None, told, obstacle, after=view is not None and not current)


def attempt_in(record: Any) -> int | None:
    """That a supervised process is of, by its record."""
    try:
        return int(record["spec"]["env"][ATTEMPT])
    except (KeyError, TypeError, ValueError):
        return None


def _secret_names(spec: WorkloadSpec) -> list[str]:
    """Without those that would be ours: what says which task and which GPUs it has is nobody else's to set."""
    ours = (name for name in spec.secret_env if name.startswith("MIZZEN_") and not name.startswith(DATASET_SECRETS))
    return sorted(spec.secret_env.keys() - ACCOUNT.union(ours))


def _waiting(
    attempt: int, view: ProcessView | None, told: ReplicaStatus | None, obstacle: Obstacle | None, *, after: bool
) -> ReplicaStatus:
    """`after`: the runner of another attempt is still there."""
    if obstacle is not None:
        return _status(attempt, obstacle.state, reason=obstacle.reason, message=obstacle.message)
    if view is not None:
        return _status(attempt, "waiting", message=view.message)
    if after:
        return _status(attempt, "starting", message="waiting for the end of the attempt before it")
    if told is not None and told.attempt == attempt:
        return told
    return _status(attempt, "waiting", message="waiting for the supervisor")


def _alive(attempt: int, found: Found, view: ProcessView) -> ReplicaStatus:
    report = found.report
    if found.lost:
        does = (report.message if report is not None else "") or "putting away what it saved"
        started = _time(report.started) if report is not None else None
        return _status(attempt, "ready", message=f"its runner was killed; {does}", pid=view.pid, started=started)
    if view.state is not State.RUNNING:
        return _status(attempt, "starting", message="ending, to be started anew", pid=view.pid)
    if report is None:
        return _status(attempt, "starting", pid=view.pid)
    state: ReplicaState = "starting" if report.phase == "fetching" else "ready"
    return _status(attempt, state, message=report.message, pid=view.pid, started=_time(report.started))


def _over(attempt: int, end: Exit) -> ReplicaStatus:
    """Without a pid: its runner has nothing more to do, if it is there at all."""
    return _status(
        attempt,
        "ended",
        exit_code=end.code,
        reason=end.reason,
        message=end.message,
        started=_time(end.started),
        ended=_time(end.ended),
        retry=end.retry,
    )


def _lost(attempt: int, report: Report | None, view: ProcessView) -> Exit:
    """Of a runner that ended without a word."""
    return Exit(
        attempt,
        code=KILLED if view.exit_code in (None, 0) else view.exit_code,
        reason=LOST,
        message=view.message or EXIT_REASONS[LOST],
        started=report.started if report is not None else None,
        ended=view.exit_time or 0.0,
        retry=True,
    )


def _status(attempt: int, state: ReplicaState, **fields: Any) -> ReplicaStatus:
    return ReplicaStatus(index=INDEX, state=state, attempt=attempt, **fields)


def _time(seconds: float | None) -> str | None:
    return format_time(datetime.fromtimestamp(seconds, UTC)) if seconds else None


def _read(kind: type[T], path: Any) -> T | None:
    """None also when it was written by a release that says more, or less."""
    data = records.read(path)
    try:
        return kind.from_json(data) if data is not None else None
    except (KeyError, TypeError, ValueError):
        return None
