"""A task as a supervised runner process, and their state as the status of a replica. Pure, apart from file access.

The exit record determines how an attempt ended, not the exit of the process: the supervisor, the plane or the machine
may have gone down in between. A process that ended without a record was killed, and its command with it. It is
started once more, to save the checkpoints of the command.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from mizzen.confinement.spec import Confinement
from mizzen.engines.local.gpus.allocation import ACCOUNTING
from mizzen.engines.local.process_specs import (
    RANK,
    THREADS,
    BuiltEnvironment,
    Obstacle,
    WorkloadPaths,
    common_env,
    cpu_of,
)
from mizzen.kinds.schema.resource import format_time
from mizzen.kinds.workload import ReplicaState, ReplicaStatus, TrainingTask, WorkloadSpec
from mizzen.runs import records
from mizzen.runs.paths import JobPlace, ReplicaPlace
from mizzen.runs.records import LOST_MESSAGES, Exit, File, Report, Task
from mizzen.supervisor.protocol import ProcessSpec, ProcessView, State

INDEX = 0
"""A task is run by one process."""
ATTEMPT = "MIZZEN_ATTEMPT"
DATASET_SECRETS = "MIZZEN_DATASET_"
"""Secrets with this prefix are for the runner only."""
LOST = "RunnerLost"
KILLED = 137
SAVE_GRACE = 30.0
"""Seconds that a runner gets after the grace period of its command, to save its results."""

T = TypeVar("T", Report, Exit)


@dataclass(frozen=True, slots=True)
class AttemptFiles:
    """The files of an attempt on disk so far."""

    report: Report | None = None
    exit: Exit | None = None
    stopped: bool = False
    """It was stopped, and continues when its runner is started again."""
    begun: bool = False
    """Its command was started."""
    lost: bool = False
    """Its runner was killed once; another one was started to save the results of the command."""


def task_of_spec(spec: WorkloadSpec) -> TrainingTask:
    assert spec.task is not None
    return spec.task


def paths_of(paths: WorkloadPaths, spec: WorkloadSpec) -> ReplicaPlace:
    return JobPlace(paths.home.data_dir, task_of_spec(spec).job_uid).replica(task_of_spec(spec).replica)


def read_attempt(paths: ReplicaPlace, attempt: int) -> AttemptFiles:
    """Blocking."""
    report = _read(Report, paths.report)
    return AttemptFiles(
        report=report if report is not None and report.attempt == attempt else None,
        exit=_read(Exit, paths.exit(attempt)),
        stopped=paths.path_of_stopped(attempt).exists(),
        begun=paths.path_of_begun(attempt).exists(),
        lost=paths.path_of_lost(attempt).exists(),
    )


def should_restart(found: AttemptFiles) -> bool:
    """Whether there is work left for this attempt, although its runner has ended."""
    return found.exit is None and (found.stopped or (found.begun and not found.lost))


def mark_lost(paths: ReplicaPlace, attempt: int) -> bool:
    """Record the loss before the runner is started once more. False when that fails: then restarts would have no end.

    Blocking.
    """
    try:
        paths.path_of_lost(attempt).touch()
    except OSError:
        return False
    return True


def write_task(
    paths: WorkloadPaths, spec: WorkloadSpec, namespace: str, confinement: Confinement | None = None
) -> None:
    """Write the task of a runner that is about to start, and remove the report of an earlier one.

    Blocking. Raises OSError.
    """
    where = paths_of(paths, spec)
    task = json.loads(json.dumps(task_of(spec, namespace, confinement).to_json()))
    if records.read(where.task) != task:
        records.write(where.task, task)
    where.report.unlink(missing_ok=True)
    paths.scratch.mkdir(parents=True, exist_ok=True)


def task_of(spec: WorkloadSpec, namespace: str, confinement: Confinement | None = None) -> Task:
    """`confinement`: that of its command."""
    task = task_of_spec(spec)
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
        confinement=confinement.to_json() if confinement is not None else None,
    )


def runner_of(
    spec: WorkloadSpec,
    paths: WorkloadPaths,
    *,
    python: str,
    threads: int = 1,
    secrets: Mapping[str, str] | None = None,
    built: BuiltEnvironment | None = None,
    gpus: Mapping[str, str] | None = None,
    blob_env: Mapping[str, str] | None = None,
    blob_secrets: Mapping[str, str] | None = None,
    pids: int | None = None,
) -> ProcessSpec:
    """`secrets`, `built` and `gpus` as for `process_specs.process_of`. `blob_env`, `blob_secrets`: variables that tell
    where the blob store is. `pids`: how many processes and threads its command may have."""
    names = {*_secret_names(spec), *(blob_secrets or {})}
    known = {**(secrets or {}), **(blob_secrets or {})}
    return ProcessSpec(
        key=paths.key(INDEX),
        # Never the interpreter of an environment: the runner is our code, only its command is the user's.
        argv=(python, "-P", "-m", "mizzen.runner"),
        env={
            "MIZZEN_TASK": str(paths_of(paths, spec).task),
            ATTEMPT: str(task_of_spec(spec).attempt),
            # The runner enforces MIZZEN_MEMORY: a limit of its own could keep it from reporting the end of the command.
            **common_env(spec, paths, INDEX, gpus),
        },
        # These may change without a restart of a running command: only another attempt is another process.
        varying=dict.fromkeys(THREADS, str(threads))
        | {"MIZZEN_PYTHON": built.python if built is not None else python}
        | ({"MIZZEN_COMMAND_PYTHONPATH": built.parts, "MIZZEN_ENVIRONMENT": built.key} if built is not None else {})
        | _limits_of(spec, pids)
        | dict(blob_env or {})
        | (dict(gpus) if gpus and spec.gpu is None else {}),
        secret_names=tuple(sorted(names)),
        secrets={name: value for name, value in known.items() if name in names},
        cwd=str(paths.work),
        log=str(paths.log(INDEX)),
        restart="never",
        grace=spec.grace_seconds + SAVE_GRACE,
        termination_log=str(paths.runner_termination_log),
        rank=RANK,
        lasting=True,
    )


def _limits_of(spec: WorkloadSpec, pids: int | None) -> dict[str, str]:
    """The runner enforces these, like MIZZEN_MEMORY."""
    cpu = cpu_of(spec)
    return {
        **({"MIZZEN_PIDS": str(pids)} if pids is not None else {}),
        **({"MIZZEN_CPU": str(cpu)} if cpu is not None else {}),
    }


def has_ended(reported: ReplicaStatus | None, attempt: int) -> bool:
    """Whether the end of this attempt was reported. Nothing is started for it then, even if its files are gone."""
    return reported is not None and reported.state == "ended" and reported.attempt == attempt


def status_of(
    attempt: int,
    found: AttemptFiles,
    view: ProcessView | None,
    *,
    current: bool,
    reported: ReplicaStatus | None = None,
    obstacle: Obstacle | None = None,
) -> ReplicaStatus:
    """`view`: the runner, if there is one; `current`: it belongs to this attempt. `reported`: the last one.
    `obstacle`: why nothing can be started now."""
    if found.exit is not None:
        return _status_ended(attempt, found.exit)
    if view is not None and current:
        if view.state is State.FAILED and not should_restart(found):
            return _status_ended(attempt, _exit_of_lost(attempt, found.report, view))
        if view.state is not State.WAITING:
            return _status_running(attempt, found, view)
    return _status_waiting(
        attempt, view if current else None, reported, obstacle, after=view is not None and not current
    )


def attempt_in(record: Any) -> int | None:
    """The attempt that a supervised process belongs to, according to its record."""
    try:
        return int(record["spec"]["env"][ATTEMPT])
    except (KeyError, TypeError, ValueError):
        return None


def _secret_names(spec: WorkloadSpec) -> list[str]:
    """Without our own variables: a spec must not set those that name the task and its GPUs."""
    ours = (name for name in spec.secret_env if name.startswith("MIZZEN_") and not name.startswith(DATASET_SECRETS))
    return sorted(spec.secret_env.keys() - ACCOUNTING.union(ours))


def _status_waiting(
    attempt: int, view: ProcessView | None, reported: ReplicaStatus | None, obstacle: Obstacle | None, *, after: bool
) -> ReplicaStatus:
    """`after`: the runner of another attempt still exists."""
    if obstacle is not None:
        return _status(attempt, obstacle.state, reason=obstacle.reason, message=obstacle.message)
    if view is not None:
        return _status(attempt, "waiting", message=view.message)
    if after:
        return _status(attempt, "starting", message="waiting for the end of the previous attempt")
    if reported is not None and reported.attempt == attempt:
        return reported
    return _status(attempt, "waiting", message="waiting for the supervisor")


def _status_running(attempt: int, found: AttemptFiles, view: ProcessView) -> ReplicaStatus:
    report = found.report
    if found.lost:
        work = (report.message if report is not None else "") or "saving its results"
        started = _time(report.started) if report is not None else None
        return _status(attempt, "ready", message=f"its runner was killed; {work}", pid=view.pid, started=started)
    if view.state is not State.RUNNING:
        return _status(attempt, "starting", message="stopping, to be restarted", pid=view.pid)
    if report is None:
        return _status(attempt, "starting", pid=view.pid)
    state: ReplicaState = "starting" if report.phase == "fetching" else "ready"
    return _status(attempt, state, message=report.message, pid=view.pid, started=_time(report.started))


def _status_ended(attempt: int, end: Exit) -> ReplicaStatus:
    """Without a pid: its runner has nothing left to do, if it still exists."""
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


def _exit_of_lost(attempt: int, report: Report | None, view: ProcessView) -> Exit:
    """The exit of a runner that ended without a record."""
    return Exit(
        attempt,
        code=KILLED if view.exit_code in (None, 0) else view.exit_code,
        reason=LOST,
        message=view.message or LOST_MESSAGES[LOST],
        started=report.started if report is not None else None,
        ended=view.exit_time or 0.0,
        retry=True,
    )


def _status(attempt: int, state: ReplicaState, **fields: Any) -> ReplicaStatus:
    return ReplicaStatus(index=INDEX, state=state, attempt=attempt, **fields)


def _time(seconds: float | None) -> str | None:
    return format_time(datetime.fromtimestamp(seconds, UTC)) if seconds else None


def _read(kind: type[T], path: Any) -> T | None:
    """None also when a release with another format wrote it."""
    data = records.read(path)
    try:
        return kind.from_json(data) if data is not None else None
    except (KeyError, TypeError, ValueError):
        return None
