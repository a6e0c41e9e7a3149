"""How long ago, in the words of kubectl: two units while the second one says something. Pure."""

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
"""Below so many seconds: the unit, and the one that is added when there is some of it."""


def since(timestamp: str | None, now: datetime) -> str:
    """Of a time as objects hold it: `5s`, `3m20s`, `8d`. A clock that was set back makes nobody younger than `0s`."""
    then = parse_time(timestamp)
    return "<unknown>" if then is None else lasting((now - then).total_seconds())


def lasting(duration: float) -> str:
    seconds = max(int(duration), 0)
    for end, unit, name, small, small_name in STEPS:
        if seconds < end:
            rest = seconds % unit // small if small else 0
            return f"{seconds // unit}{name}" + (f"{rest}{small_name}" if rest else "")
    return f"{seconds // YEAR}y"
