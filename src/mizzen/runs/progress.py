"""The progress that a job set's code reports, read from disk while it runs: steps, metrics and remaining time.

User code wrote this JSON: invalid parts are left out, and every size is limited.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mizzen.runs import safe_read
from mizzen.runs.paths import ReplicaPlace
from mizzen.runs.records import Progress

MOST_BYTES = 256 * 1024
"""Maximum bytes of one report."""
MOST_METRICS = 100
LONGEST_NAME, LONGEST_MESSAGE = 200, 1000
MOST_HISTORY = 4 << 20
"""Bytes of the history that are read, from the end."""


def read(place: ReplicaPlace) -> Progress | None:
    """Return the last report; None if there is no valid one."""
    try:
        content, written = safe_read.read_small(place.progress, MOST_BYTES)
        data = json.loads(content)
    except (OSError, ValueError, RecursionError):
        return None
    return parse(data, written) if isinstance(data, dict) else None


def parse(data: Mapping[str, Any], written: float) -> Progress:
    """`written`: the time for a report without one."""
    message, time = data.get("message"), _number(data.get("time"))
    return Progress(
        step=as_step(data.get("step")),
        total=as_step(data.get("total")),
        metrics=as_metrics(data.get("metrics")),
        message=message[:LONGEST_MESSAGE] if isinstance(message, str) else "",
        time=written if time is None else time,
    )


def as_metrics(metrics: Any) -> dict[str, float]:
    """Return the metrics that are numbers, up to a limit."""
    pairs = list(metrics.items())[:MOST_METRICS] if isinstance(metrics, dict) else []
    return {str(name)[:LONGEST_NAME]: number for name, value in pairs if (number := _number(value)) is not None}


def as_step(value: Any) -> int | None:
    """Return a valid step, or None."""
    number = _number(value)
    return int(number) if number is not None and abs(number) < 2**63 else None


def as_float(value: Any) -> float | None:
    """Return a number, which may not be finite, as a float; None for any other value."""
    try:
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
    except OverflowError:
        return None


def eta(place: ReplicaPlace, now: Progress, started: float | None) -> float | None:
    """Return the seconds until `total` is reached at the present pace. The pace counts since the code last began
    counting, according to its history; else since `started`. None if unknown."""
    if now.step is None or now.total is None or now.total <= now.step:
        return None
    step, time = _find_beginning(place.past_progress, now) or (0, started)
    if time is None or now.step <= step or now.time <= time:
        return None
    return (now.total - now.step) * (now.time - time) / (now.step - step)


def _find_beginning(past: Path, now: Progress) -> tuple[int, float] | None:
    """Return step and time of the first report after which steps only grew: a restarted job repeats some of them."""
    found: tuple[int, float] | None = None
    last = -1
    for line in _read_lines(past):
        try:
            report = parse(json.loads(line), 0.0)
        except (ValueError, AttributeError, RecursionError):
            continue
        if report.step is None or report.time <= 0:
            continue
        if found is None or report.step < last:
            found = report.step, report.time
        last = report.step
    return found if found is not None and found[0] < (now.step or 0) else None


def _read_lines(path: Path) -> list[bytes]:
    try:
        with safe_read.open_regular_file(path) as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - MOST_HISTORY))
            return file.read(MOST_HISTORY).splitlines()[1 if size > MOST_HISTORY else 0 :]
    except OSError:
        return []


def _number(value: Any) -> float | None:
    number = as_float(value)
    return number if number is not None and math.isfinite(number) else None
