"""Job sets as text: how far they are, how well they do, what came of them. Pure.

Names and messages are other people's words: each stays within its line, and what cannot be seen is written out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from mizzen.access import safe_text
from mizzen.cli import output
from mizzen.cli.plane.status_line import duration

BAR: Final = 24
MOST_METRICS: Final = 6
LONGEST: Final = 2000
"""Characters of what others wrote, on one line."""
_COLOUR: Final = re.compile(r"\x1b\[[0-9;:]*m")
_LEVELS: Final = "▁▂▃▄▅▆▇█"

Job = Mapping[str, Any]


def plain(text: object, longest: int = LONGEST) -> str:
    """Other people's words, as a part of one line."""
    return safe_text.plain(_COLOUR.sub("", str(text)).expandtabs(), longest)


def bar(fraction: float, width: int = BAR) -> str:
    """Filled so far: ██████░░."""
    full = round(min(max(fraction, 0.0), 1.0) * width)
    return "█" * full + "░" * (width - full)


def sparkline(values: Sequence[float], width: int = BAR) -> str:
    """The last of the values, as a line from the lowest to the highest of them."""
    shown = [value for value in values if math.isfinite(value)][-width:]
    if len(shown) < 2:
        return ""
    low, high = min(shown), max(shown)
    if low == high:
        return _LEVELS[0] * len(shown)
    top = len(_LEVELS) - 1
    return "".join(_LEVELS[round((value - low) / (high - low) * top)] for value in shown)


def steps(job: Job) -> str:
    """`30/100 (30%)`, or what is known of that."""
    progress = job.get("progress") or {}
    step, total = progress.get("step"), progress.get("total")
    if step is None:
        return ""
    fraction = _fraction(progress)
    return f"{step}" if total is None else f"{step}/{total}" + ("" if fraction is None else f" ({fraction:.0%})")


def metrics(values: Mapping[str, Any] | None) -> str:
    """`loss 0.231, accuracy 0.91`."""
    shown = list((values or {}).items())[:MOST_METRICS]
    return ", ".join(f"{plain(name, 100)} {number(value)}" for name, value in shown)


def number(value: Any) -> str:
    return "-" if value is None else f"{value:.4g}"


def left(job: Job) -> str:
    """How long it will take, if that can be told."""
    seconds = (job.get("progress") or {}).get("eta_seconds")
    return "" if seconds is None else f"about {duration(seconds)} left"


def ran(job: Job, now: datetime | None = None) -> float | None:
    """Seconds from its start to its end, or until now; of one that is suspended or waits, since it does."""
    since = job.get("startTime")
    if job["state"] in ("Suspended", "Queued"):
        since = (condition(job, str(job["state"])) or {}).get("lastTransitionTime")
    if not since:
        return None
    end = datetime.fromisoformat(job["completionTime"]) if job.get("completionTime") else now or datetime.now(UTC)
    return max(0.0, (end - datetime.fromisoformat(since)).total_seconds())


def condition(job: Job, type_: str) -> Mapping[str, Any] | None:
    """The one of this type, when it holds."""
    found = (job.get("status") or {}).get("conditions") or ()
    return next((one for one in found if one["type"] == type_ and one.get("status") == "True"), None)


def headline(job: Job) -> str:
    """`iris-1-x7k2p: Running for 12 s, 30/100 (30%), about 28 s left`."""
    seconds = ran(job)
    goes_on = not job.get("completionTime")
    word = {"Created": "waiting to be started", "Queued": "queued"}.get(str(job["state"]), str(job["state"]).lower())
    took = "" if seconds is None else f" {'for' if goes_on else 'after'} {duration(seconds)}"
    return ", ".join(filter(None, (f"{job['id']}: {word}{took}", steps(job), left(job) if goes_on else "")))


def line(job: Job) -> str:
    """How it is doing, where lines are not redrawn."""
    said = _said(job)
    return " · ".join(filter(None, (headline(job), metrics((job.get("progress") or {}).get("metrics")), said)))


def rows(jobs: Sequence[Job]) -> Iterator[tuple[str, ...]]:
    for job in jobs:
        yield (
            str(job["id"]), plain(job.get("model") or ""), plain(job.get("version") or ""), str(job["state"]),
            steps(job), str(job.get("checkpoints") or ""), plain(job.get("createdBy") or ""),
            output.age(job.get("createdAt")),
        )  # fmt: skip


TITLES: Final = ("ID", "MODEL", "VERSION", "STATE", "STEP", "CHECKPOINTS", "BY", "AGE")


def described(job: Job, checkpoints: Sequence[Mapping[str, Any]] = ()) -> Iterator[str]:
    """All of it."""
    yield headline(job)
    version = f"version {job['version']} of {job['model']}" if job.get("version") else f"{job['model']}, no version"
    yield f"  trains    {version}" + (f", for {plain(job['createdBy'])}" if job.get("createdBy") else "")
    if job.get("reason") and (job.get("message") or job["reason"] != job["state"]):
        yield f"  because   {job['reason']}" + (f": {_indented(str(job['message']))}" if job.get("message") else "")
    if job.get("lastLines"):
        yield f"  printed   {_indented(str(job['lastLines']))}"
    for title, key in (("started", "startTime"), ("ended", "completionTime")):
        if job.get(key):
            yield f"  {title:<9} {job[key]} ({output.age(job[key])} ago)"
    yield from _progress(job)
    if params := (job.get("spec") or {}).get("hyperparameters"):
        yield f"  params    {plain(', '.join(f'{name}={value}' for name, value in params.items()))}"
    replicas = job.get("replicaStates") or ()
    if replicas:
        yield "Replicas"
        yield from (_replica(one, said=str(job.get("message") or "")) for one in replicas)
    if checkpoints:
        yield "Checkpoints" if len(checkpoints) < 6 else f"Checkpoints: the last of {len(checkpoints)}"
        yield from (f"  {_checkpoint(one)}" for one in checkpoints[:5])
    for server in job.get("servers") or ():
        yield f"  {server['id']} serves {server['checkpoint_id']}"


def _progress(job: Job) -> Iterator[str]:
    progress = job.get("progress") or {}
    if (fraction := _fraction(progress)) is not None:
        yield f"  progress  {bar(fraction)} {steps(job)}"
    if nothing := condition(job, "NoCheckpoint"):
        yield f"  saved     nothing: {_indented(str(nothing.get('message') or ''))}"
    if progress.get("metrics"):
        yield f"  metrics   {metrics(progress['metrics'])}"
    if progress.get("message"):
        yield f"  says      {_indented(str(progress['message']))}"


CHECKPOINT_TITLES: Final = ("ID", "NAME", "STEP", "METRICS", "SIZE", "AGE", "SERVED BY")


def checkpoint_rows(found: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, ...]]:
    for one in found:
        yield (
            str(one["checkpoint_id"]), plain(one.get("name") or ""),
            "" if one.get("step") is None else str(one["step"]), metrics(one.get("metrics")),
            output.size(one.get("size")), output.age(one.get("created")), ",".join(one.get("served_by") or ()),
        )  # fmt: skip


def succeeded(job: Job) -> str:
    """What there is to say at the end, and what to do next."""
    seconds = ran(job)
    took = "" if seconds is None else f" in {duration(seconds)}"
    count = job.get("checkpoints") or 0
    if not count:
        return f"{job['id']} succeeded{took}; it saved no checkpoint, so there is nothing of it to serve"
    kept = f"{count} checkpoint{'' if count == 1 else 's'}, the newest {job.get('newestCheckpoint')}"
    return f"{job['id']} succeeded{took}; {kept}"


def _checkpoint(one: Mapping[str, Any]) -> str:
    step = "" if one.get("step") is None else f"step {one['step']}"
    told = filter(None, (step, metrics(one.get("metrics")), output.size(one.get("size"))))
    return f"{one['checkpoint_id']}: {', '.join(told)}"


def _replica(replica: Mapping[str, Any], said: str = "") -> str:
    """`said`: what has been said of the job, and is not repeated."""
    restarts = replica.get("restarts") or 0
    code = replica.get("exitCode")
    told = (
        str(replica["state"]),
        "" if code is None else f"exit code {code}",
        f"restarted {restarts} times" if restarts > 1 else "restarted once" if restarts else "",
        plain(replica.get("reason") or ""),
    )
    message = str(replica.get("message") or "")
    if message.strip() in said:
        message = ""
    return f"  {replica['name']}: {', '.join(filter(None, told))}" + (f"\n    {_indented(message)}" if message else "")


def _said(job: Job) -> str:
    """The code's own words, or what it waits for."""
    own = str((job.get("progress") or {}).get("message") or "")
    waiting = str(job.get("message") or "") if job["state"] not in ("Running", "Succeeded") else ""
    return plain((own or waiting).partition("\n")[0])


def _fraction(progress: Mapping[str, Any]) -> float | None:
    step, total = progress.get("step"), progress.get("total")
    return None if step is None or not total else min(max(step / total, 0.0), 1.0)


def _indented(text: str) -> str:
    return "\n            ".join(map(plain, text.strip().splitlines()))
