"""Ages in the words of kubectl."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from mizzen.kinds.schema.resource import format_time
from mizzen.server.resources import durations

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
MINUTE, HOUR, DAY, YEAR = 60, 3600, 86400, 365 * 86400


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0s"),
        (0, "0s"),
        (0.9, "0s"),
        (119, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (10 * MINUTE - 1, "9m59s"),
        (10 * MINUTE + 1, "10m"),
        (3 * HOUR - 1, "179m"),
        (3 * HOUR, "3h"),
        (3 * HOUR + 5 * MINUTE + 59, "3h5m"),
        (8 * HOUR + 5 * MINUTE, "8h"),
        (48 * HOUR - 1, "47h"),
        (48 * HOUR, "2d"),
        (50 * HOUR, "2d2h"),
        (8 * DAY - 1, "7d23h"),
        (8 * DAY + 5 * HOUR, "8d"),
        (2 * YEAR - 1, "729d"),
        (2 * YEAR, "2y"),
        (2 * YEAR + 3 * DAY, "2y3d"),
        (8 * YEAR + 3 * DAY, "8y"),
        (100 * YEAR, "100y"),
    ],
)
def test_two_units_while_the_second_says_something(seconds: float, text: str) -> None:
    assert durations.format_duration(seconds) == text
    assert durations.format_age(format_time(NOW - timedelta(seconds=seconds)), NOW) == text


def test_no_time_has_no_age() -> None:
    assert durations.format_age(None, NOW) == "<unknown>"
    assert durations.format_age("", NOW) == "<unknown>"
