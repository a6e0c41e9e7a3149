"""Ages in the format of kubectl: with a second unit while that matters. Pure."""

from __future__ import annotations

from datetime import datetime

from mizzen.kinds.schema.resource import parse_time

MINUTE, HOUR, DAY = 60, 60 * 60, 24 * 60 * 60
YEAR = 365 * DAY

STEPS = (
    (2 * MINUTE, 1, "s", 0, ""),
    (10 * MINUTE, MINUTE, "m", 1, "s"),
    (3 * HOUR, MINUTE, "m", 0, ""),
    (8 * HOUR, HOUR, "h", MINUTE, "m"),
    (2 * DAY, HOUR, "h", 0, ""),
    (8 * DAY, DAY, "d", HOUR, "h"),
    (2 * YEAR, DAY, "d", 0, ""),
    (8 * YEAR, YEAR, "y", DAY, "d"),
)
"""The unit below this many seconds, and the second unit, which is added if it is not zero."""


def format_age(timestamp: str | None, now: datetime) -> str:
    """Returns the age of a timestamp: `5s`, `3m20s`, `8d`. At least `0s`, also if the clock was set back."""
    then = parse_time(timestamp)
    return "<unknown>" if then is None else format_duration((now - then).total_seconds())


def format_duration(duration: float) -> str:
    seconds = max(int(duration), 0)
    for end, unit, name, small, small_name in STEPS:
        if seconds < end:
            rest = seconds % unit // small if small else 0
            return f"{seconds // unit}{name}" + (f"{rest}{small_name}" if rest else "")
    return f"{seconds // YEAR}y"
