"""Text views of job sets: their progress, metrics and results. Pure.

Names and messages come from other people: each must stay within its line, and invisible characters are escaped.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from mizzen.access import safe_text
from mizzen.cli import output
from mizzen.cli.plane.status_line import format_duration

BAR: Final = 24
MOST_METRICS: Final = 6
LONGEST: Final = 2000
"""Maximum characters of a foreign text on one line."""
_COLOUR: Final = re.compile(r"\x1b\[[0-9;:]*m")
_LEVELS: Final = "▁▂▃▄▅▆▇█"

Job = Mapping[str, Any]


def to_plain(text: object, longest: int = LONGEST) -> str:
    """A foreign text, made safe as part of one line."""
    return safe_text.sanitize(_COLOUR.sub("", str(text)).expandtabs(), longest)


def render_bar(fraction: float, width: int = BAR) -> str:
    """A progress bar: ██████░░."""
    full = round(min(max(fraction, 0.0), 1.0) * width)
    return "█" * full + "░" * (width - full)


def render_sparkline(values: Sequence[float], width: int = BAR) -> str:
    """The last `width` values, scaled from the lowest to the highest of them."""
    shown = [value for value in values if math.isfinite(value)][-width:]
    if len(shown) < 2:
        return ""
    low, high = min(shown), max(shown)
    if low == high:
        return _LEVELS[0] * len(shown)
    top = len(_LEVELS) - 1
    return "".join(_LEVELS[round((value - low) / (high - low) * top)] for value in shown)


def format_steps(job: Job) -> str:
    """`30/100 (30%)`, or as much of it as is known."""
    progress = job.get("progress") or {}
    step, total = progress.get("step"), progress.get("total")
    if step is None:
        return ""
    fraction = _fraction_of(progress)
    return f"{step}" if total is None else f"{step}/{total}" + ("" if fraction is None else f" ({fraction:.0%})")


def format_metrics(values: Mapping[str, Any] | None) -> str:
    """`loss 0.231, accuracy 0.91`."""
    shown = list((values or {}).items())[:MOST_METRICS]
    return ", ".join(f"{to_plain(name, 100)} {format_number(value)}" for name, value in shown)


def format_number(value: Any) -> str:
    return "-" if value is None else f"{value:.4g}"


def format_remaining(job: Job) -> str:
    """The estimated remaining time, if known."""
    seconds = (job.get("progress") or {}).get("eta_seconds")
    return "" if seconds is None else f"about {format_duration(seconds)} left"


def run_seconds(job: Job, now: datetime | None = None) -> float | None:
    """Seconds from start to end, or until now; for a suspended or queued job, since it entered that state."""
    since = job.get("startTime")
    if job["state"] in ("Suspended", "Queued"):
        since = (find_condition(job, str(job["state"])) or {}).get("lastTransitionTime")
    if not since:
        return None
    end = datetime.fromisoformat(job["completionTime"]) if job.get("completionTime") else now or datetime.now(UTC)
    return max(0.0, (end - datetime.fromisoformat(since)).total_seconds())


def find_condition(job: Job, type_: str) -> Mapping[str, Any] | None:
    """The condition of this type, if its status is True."""
    found = (job.get("status") or {}).get("conditions") or ()
    return next((one for one in found if one["type"] == type_ and one.get("status") == "True"), None)


def format_headline(job: Job) -> str:
    """`iris-1-x7k2p: Running for 12 s, 30/100 (30%), about 28 s left`."""
    seconds = run_seconds(job)
    ongoing = not job.get("completionTime")
    word = {"Created": "waiting to be started", "Queued": "queued"}.get(str(job["state"]), str(job["state"]).lower())
    took = "" if seconds is None else f" {'for' if ongoing else 'after'} {format_duration(seconds)}"
    return ", ".join(
        filter(None, (f"{job['id']}: {word}{took}", format_steps(job), format_remaining(job) if ongoing else ""))
    )


def format_line(job: Job) -> str:
    """The state of a job on one line, for output that is not redrawn."""
    message = _message_of(job)
    return " · ".join(
        filter(None, (format_headline(job), format_metrics((job.get("progress") or {}).get("metrics")), message))
    )


def job_rows(jobs: Sequence[Job]) -> Iterator[tuple[str, ...]]:
    for job in jobs:
        yield (
            str(job["id"]), to_plain(job.get("model") or ""), to_plain(job.get("version") or ""), str(job["state"]),
            format_steps(job), str(job.get("checkpoints") or ""), to_plain(job.get("createdBy") or ""),
            output.format_age(job.get("createdAt")),
        )  # fmt: skip


TITLES: Final = ("ID", "MODEL", "VERSION", "STATE", "STEP", "CHECKPOINTS", "BY", "AGE")


def describe_job(job: Job, checkpoints: Sequence[Mapping[str, Any]] = ()) -> Iterator[str]:
    """All lines of `mizzen train show`."""
    yield format_headline(job)
    version = f"version {job['version']} of {job['model']}" if job.get("version") else f"{job['model']}, no version"
    yield f"  trains    {version}" + (f", for {to_plain(job['createdBy'])}" if job.get("createdBy") else "")
    if job.get("reason") and (job.get("message") or job["reason"] != job["state"]):
        yield f"  because   {job['reason']}" + (f": {_indent(str(job['message']))}" if job.get("message") else "")
    if job.get("lastLines"):
        yield f"  printed   {_indent(str(job['lastLines']))}"
    for title, key in (("started", "startTime"), ("ended", "completionTime")):
        if job.get(key):
            yield f"  {title:<9} {job[key]} ({output.format_age(job[key])} ago)"
    yield from _progress_lines(job)
    if params := (job.get("spec") or {}).get("hyperparameters"):
        yield f"  params    {to_plain(', '.join(f'{name}={value}' for name, value in params.items()))}"
    replicas = job.get("replicaStates") or ()
    if replicas:
        yield "Replicas"
        yield from (_format_replica(one, job_message=str(job.get("message") or "")) for one in replicas)
    if checkpoints:
        yield "Checkpoints" if len(checkpoints) < 6 else f"Checkpoints: the last of {len(checkpoints)}"
        yield from (f"  {_format_checkpoint(one)}" for one in checkpoints[:5])
    for server in job.get("servers") or ():
        yield f"  {server['id']} serves {server['checkpoint_id']}"


def _progress_lines(job: Job) -> Iterator[str]:
    progress = job.get("progress") or {}
    if (fraction := _fraction_of(progress)) is not None:
        yield f"  progress  {render_bar(fraction)} {format_steps(job)}"
    if nothing := find_condition(job, "NoCheckpoint"):
        yield f"  saved     nothing: {_indent(str(nothing.get('message') or ''))}"
    if progress.get("metrics"):
        yield f"  metrics   {format_metrics(progress['metrics'])}"
    if progress.get("message"):
        yield f"  says      {_indent(str(progress['message']))}"


CHECKPOINT_TITLES: Final = ("ID", "NAME", "STEP", "METRICS", "SIZE", "AGE", "SERVED BY")


def checkpoint_rows(found: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, ...]]:
    for one in found:
        yield (
            str(one["checkpoint_id"]), to_plain(one.get("name") or ""),
            "" if one.get("step") is None else str(one["step"]), format_metrics(one.get("metrics")),
            output.format_size(one.get("size")), output.format_age(one.get("created")),
            ",".join(one.get("served_by") or ()),
        )  # fmt: skip


def describe_success(job: Job) -> str:
    """The result of a job that succeeded."""
    seconds = run_seconds(job)
    took = "" if seconds is None else f" in {format_duration(seconds)}"
    count = job.get("checkpoints") or 0
    if not count:
        return f"{job['id']} succeeded{took}; it saved no checkpoint, so there is nothing to serve"
    checkpoints = f"{count} checkpoint{'' if count == 1 else 's'}, the newest {job.get('newestCheckpoint')}"
    return f"{job['id']} succeeded{took}; {checkpoints}"


def _format_checkpoint(one: Mapping[str, Any]) -> str:
    step = "" if one.get("step") is None else f"step {one['step']}"
    parts = filter(None, (step, format_metrics(one.get("metrics")), output.format_size(one.get("size"))))
    return f"{one['checkpoint_id']}: {', '.join(parts)}"


def _format_replica(replica: Mapping[str, Any], job_message: str = "") -> str:
    """The state of one replica. A message that `job_message` already contains is not repeated."""
    restarts = replica.get("restarts") or 0
    code = replica.get("exitCode")
    parts = (
        str(replica["state"]),
        "" if code is None else f"exit code {code}",
        f"restarted {restarts} times" if restarts > 1 else "restarted once" if restarts else "",
        to_plain(replica.get("reason") or ""),
    )
    message = str(replica.get("message") or "")
    if message.strip() in job_message:
        message = ""
    return f"  {replica['name']}: {', '.join(filter(None, parts))}" + (f"\n    {_indent(message)}" if message else "")


def _message_of(job: Job) -> str:
    """The message of the training code, or the reason why the job waits."""
    own = str((job.get("progress") or {}).get("message") or "")
    waiting = str(job.get("message") or "") if job["state"] not in ("Running", "Succeeded") else ""
    return to_plain((own or waiting).partition("\n")[0])


def _fraction_of(progress: Mapping[str, Any]) -> float | None:
    step, total = progress.get("step"), progress.get("total")
    return None if step is None or not total else min(max(step / total, 0.0), 1.0)


def _indent(text: str) -> str:
    return "\n            ".join(map(to_plain, text.strip().splitlines()))
