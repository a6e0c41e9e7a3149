"""Parsing times as people write them: 2026-01-31T12:00:00Z, 2026-01-31, or an age: 10m, 2h, 3d."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

_AGO: Final = re.compile(r"(\d{1,9})\s*(s|m|h|d|w)")
_AHEAD: Final = timedelta(minutes=1)
"""Tolerated clock difference to the machine that a time was read from."""
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def parse(text: str, now: datetime | None = None) -> datetime:
    """Parse a past time to UTC; without a zone it is local time. Raises ValueError, which says how to write one."""
    ago, now = _AGO.fullmatch(text.strip()), now or datetime.now(UTC)
    try:
        if ago:
            return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        at = datetime.fromisoformat(text.strip()).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise ValueError(
            f"'{text}' is not a valid time; expected 2026-01-31T12:00:00Z, or an age such as 10m, 2h or 3d"
        ) from error
    if at > now + _AHEAD:
        raise ValueError(f"'{text}' is in the future")
    return at
