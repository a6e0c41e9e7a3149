"""Metrics as lines of text: JSON, one report per line, and CSV with a step column."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mizzen.runs.progress import as_float
from mizzen.runs.scalars.curve import LARGEST_STEP
from mizzen.runs.scalars.tfevents import Scalar

STEPS = ("step", "global_step", "iteration", "epoch")
"""Names of step fields, best first."""
TIMES = ("time", "timestamp", "wall_time")
MOST_TAGS = 500
"""Maximum number of tags in one line."""


def of_json(line: bytes) -> Iterator[Scalar]:
    """{"step": 3, "time": 1700000000.5, "metrics": {"loss": 0.25}}; the metrics may also be next to the step."""
    try:
        report = json.loads(line)
    except (ValueError, RecursionError):
        return
    if isinstance(report, dict):
        nested = report.get("metrics")
        yield from _report_scalars(report, nested if isinstance(nested, dict) else report)


def header(line: bytes) -> tuple[str, ...]:
    """Return the columns of a CSV; none if there is no step column."""
    columns = tuple(name.strip() for name in _split_cells(line))
    return columns[:MOST_TAGS] if set(columns) & set(STEPS) else ()


def of_csv(columns: Sequence[str], line: bytes) -> Iterator[Scalar]:
    """Yield the scalars of a row. Blank fields were not measured at that step."""
    cells = zip(columns, _split_cells(line), strict=False)
    row = {name: number for name, cell in cells if (number := _read(cell)) is not None}
    yield from _report_scalars(row, row)


def _report_scalars(report: Mapping[str, Any], metrics: Mapping[str, Any]) -> Iterator[Scalar]:
    step_field = next((name for name in STEPS if as_float(report.get(name)) is not None), None)
    if step_field is None:
        return
    times = (report[name] for name in TIMES if as_float(report.get(name)) is not None)
    step, time = report[step_field], next(times, 0.0)
    if not abs(step) <= LARGEST_STEP:  # also excludes NaN
        return
    for tag, value in list(metrics.items())[:MOST_TAGS]:
        if metrics is report and tag in (*STEPS, *TIMES, "total"):
            continue
        number = float("nan") if value is None else as_float(value)
        if number is not None:
            yield Scalar(tag, int(step), number, float(time))


def _split_cells(line: bytes) -> list[str]:
    try:
        return next(csv.reader([line.decode("utf-8-sig", "replace")]), [])
    except csv.Error:
        return []


def _read(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None
