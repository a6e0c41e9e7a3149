"""Training: building a job's spec from arguments, waiting for its end, and explaining failures."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from mizzen import errors

if TYPE_CHECKING:
    from mizzen.sdk.api.jobs import JobCalls, JobRef

ENDS: Final = ("Succeeded", "Failed")
PATIENCE: Final = 60.0
"""Seconds to wait for an unreachable plane to return while waiting for a job: the job keeps running meanwhile."""
LAST_LINES: Final = 15
LOG_ENDS: Final = "\nits log ends:"
"""Separates a failure's message from the job's output."""
_PAUSE: Final = 0.2
_LONGEST_PAUSE: Final = 1.0
_DURATION: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(s|m|h|d)")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}

Look = Callable[[Mapping[str, Any]], None]
"""Called with the state of a job."""


def unseen(_job: Mapping[str, Any]) -> None:
    """Ignore the state of the job."""


def spec_of(
    *,
    command: Sequence[str] | str | None = None,
    params: Mapping[str, Any] | None = None,
    dataset: Mapping[str, Any] | str | Path | None = None,
    sha256: str | None = None,
    secret: str | None = None,
    replicas: int | Mapping[str, Any] | None = None,
    cpu: float | str | None = None,
    memory: str | None = None,
    gpu: float | None = None,
    priority: int | None = None,
    restart: str | None = None,
    deadline: float | str | None = None,
    keep: int | None = None,
    env: Mapping[str, Any] | None = None,
    framework: str | None = None,
    more: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Build the spec of a TrainingJob, without fields that were not given. Raises Invalid for values that cannot be
    parsed."""
    if dataset is None and (sha256 or secret):
        raise errors.Invalid(f"{'sha256' if sha256 else 'secret'} needs a dataset")
    fields: dict[str, Any] = {
        "command": shlex.split(command) if isinstance(command, str) else list(command) if command else None,
        "hyperparameters": _check_params(params),
        "dataset": None if dataset is None else dataset_of(dataset, sha256=sha256, secret=secret),
        "resources": {name: str(value) for name, value in (("cpu", cpu), ("memory", memory)) if value is not None}
        or None,
        "gpu": gpu,
        "priority": priority,
        "restartPolicy": restart,
        "activeDeadlineSeconds": None if deadline is None else _parse_seconds(deadline),
        "retention": None if keep is None else {"checkpoints": keep},
        "env": [_to_env_variable(name, value) for name, value in env.items()] if env else None,
        "frameworkType": framework,
    }
    fields["replicas" if isinstance(replicas, int) else "replicaSpecs"] = _to_replica_specs(replicas)
    return {name: value for name, value in {**fields, **(more or {})}.items() if value is not None}


def dataset_of(
    given: Mapping[str, Any] | str | Path, *, sha256: str | None = None, secret: str | None = None
) -> dict[str, Any]:
    """Build the dataset from `s3://bucket/prefix`, an http(s) address, or a path on the machine that trains."""
    if isinstance(given, Mapping):
        return dict(given)
    text = str(given)
    scheme = urlsplit(text).scheme if "://" in text else ""
    if sha256 is not None and scheme not in ("http", "https"):
        raise errors.Invalid(f"sha256 needs a dataset at an http(s) address, not '{text}'")
    if secret is not None and scheme != "s3":
        raise errors.Invalid(f"secret needs a dataset in a bucket, not '{text}'", hint="for example s3://bucket/prefix")
    if scheme == "s3":
        bucket, _, prefix = text.removeprefix("s3://").partition("/")
        return {"s3": _drop_empty(bucket=bucket, prefix=prefix, secret=secret)}
    if scheme in ("http", "https"):
        return {"http": _drop_empty(url=text, sha256sum=sha256)}
    if scheme:
        raise errors.Invalid(
            f"'{scheme}' is not a valid scheme for a dataset", hint="expected s3://…, http(s)://… or a path"
        )
    return {"path": str(Path(text).absolute())}


def refuse_unstartable(model: str, code: Path, spec: Mapping[str, Any]) -> None:
    """Check before code is registered: raise NotFound if it has no train.py and the job's spec has no command."""
    maps = (spec.get(name) or {} for name in ("replicaSpecs", "tfReplicaSpecs", "pytorchReplicaSpecs"))
    if spec.get("command") or spec.get("image") or any("template" in each for found in maps for each in found.values()):
        return
    if code.is_dir():
        if (code / "train.py").exists():
            return
        found = sorted(path.name for path in code.glob("*.py"))
        where, run = f"in {code}", found[0] if len(found) == 1 else "main.py"
    elif code.suffix == ".py" and code.name != "train.py":
        where, run = f"but {code}", code.name
    else:  # an archive, which the plane unpacks, or nothing
        return
    raise errors.NotFound(
        f"no train.py {where}: give the command to run",
        hint=f"mizzen train start {model} --code {code} -- python {run}",
    )


async def wait(plane: JobCalls, job: JobRef, seconds: float | None, look: Look) -> dict[str, Any]:
    """Wait until the job set has succeeded, and return it. Raises TrainingFailed; or DeadlineExceeded, while it keeps
    running."""
    try:
        async with asyncio.timeout(seconds):
            ended = await _wait_for_end(plane, job, look)
    except TimeoutError:
        raise errors.DeadlineExceeded(
            f"job {job.id} has not ended after {seconds:g} s; it keeps running",
            hint=f"'mizzen train show {job.id}' shows its progress, 'mizzen train stop {job.id}' stops it",
        ) from None
    if ended["state"] == "Succeeded":
        return ended
    raise await failure(plane, job, ended)


async def failure(plane: JobCalls, job: JobRef, ended: Mapping[str, Any]) -> errors.TrainingFailed:
    """Return why it failed, with the last lines of its log."""
    condition = state_condition(ended)
    reason, message = str(condition.get("reason") or "Failed"), str(condition.get("message") or "").strip()
    text = f"job {job.id} failed: {reason}" + (f": {message}" if message else "")
    lines = str(ended.get("lastLines") or "").splitlines()[-LAST_LINES:]
    if not lines and reason != "Terminated":
        lines = await _last_lines(plane, job)
    printed = "\n  | ".join([LOG_ENDS, *lines]) if lines else ""
    return errors.TrainingFailed(f"{text}{printed}", hint=f"full log: 'mizzen train logs {job.id}'")


def state_condition(job: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the condition that is named like its state; empty if there is none."""
    conditions = (job.get("status") or {}).get("conditions") or ()
    return next((one for one in conditions if one["type"] == job.get("state")), {})


async def _wait_for_end(plane: JobCalls, job: JobRef, look: Look) -> dict[str, Any]:
    clock = asyncio.get_running_loop().time
    failing_since: float | None = None
    pause, known = _PAUSE, False
    while True:
        try:
            now = await plane.job(job)
        except errors.Unavailable:
            failing_since = failing_since or clock()
            if not known or clock() - failing_since > PATIENCE:
                raise
        except errors.NotFound as error:
            if not known:
                raise
            raise errors.NotFound(
                f"job {job.id} is gone: a user deleted it, or its time to live ended",
                hint=f"its checkpoints remain: 'mizzen version describe {job.model} {job.version}'",
            ) from error
        else:
            known, failing_since = True, None
            look(now)
            if now["state"] in ENDS:
                return now
        await asyncio.sleep(pause)
        pause = min(pause * 1.2, _LONGEST_PAUSE)


async def _last_lines(plane: JobCalls, job: JobRef) -> list[str]:
    try:
        text = "".join([piece async for piece in plane.read_job_logs(job, tail=LAST_LINES)])
    except errors.MizzenError:  # the job's failure is the news; this one would hide it
        return []
    return text.splitlines()[-LAST_LINES:]


def _check_params(given: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Raises Invalid for values that JSON cannot represent."""
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise errors.Invalid(
            f"params must be a mapping of names to values, not a {type(given).__name__}",
            hint="for example {'rate': 0.1}",
        )
    try:
        json.dumps(dict(given), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise errors.Invalid(
            f"params cannot be written as JSON: {error}",
            hint="expected text, numbers other than NaN and infinity, true, false, null, or lists and objects of these",
        ) from error
    return dict(given) or None


def _to_replica_specs(given: int | Mapping[str, Any] | None) -> Any:
    """{"Chief": 1, "Worker": 2}, or each type with the fields of a replica spec."""
    if not isinstance(given, Mapping):
        return given
    return {name: {"replicas": value} if isinstance(value, int) else dict(value) for name, value in given.items()}


def _to_env_variable(name: str, value: Any) -> dict[str, Any]:
    """The value is a text, or {"secret", "key"} for a value of a secret."""
    if not isinstance(value, Mapping):
        return {"name": name, "value": str(value)}
    if set(value) == {"secret", "key"}:
        return {"name": name, "valueFrom": {"secretKeyRef": {"name": value["secret"], "key": value["key"]}}}
    return {"name": name, **value}


def _parse_seconds(given: float | str) -> int:
    """Whole seconds, at least one."""
    if not isinstance(given, str):
        return max(1, round(given))
    parts = _DURATION.findall(given)
    if not parts or "".join(number + unit for number, unit in parts) != given:
        raise errors.Invalid(f"'{given}' is not a valid duration", hint="expected 90s, 30m, 2h, 1h30m or 2d")
    return max(1, round(sum(float(number) * _SECONDS[unit] for number, unit in parts)))


def _drop_empty(**fields: str | None) -> dict[str, str]:
    return {name: value for name, value in fields.items() if value}
