"""Whose limit holds, and when a day and a month end."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from mizzen.access import limits
from mizzen.access.limits import Limit
from mizzen.access.policy import ANONYMOUS, Actor

DECLARED = {
    each.subject: each
    for each in (
        Limit(subject="ann", per_second=1),
        Limit(subject="group:a", per_second=5),
        Limit(subject="group:b", per_second=7),
        Limit(subject="group:free", per_day=10),
        Limit(subject="*", per_second=2),
        Limit(subject="anonymous", per_second=3),
        Limit(subject="root", per_second=4),
    )
}


@pytest.mark.parametrize(
    ("actor", "subject"),
    [
        (Actor("ann", groups=frozenset({"a"})), "ann"),
        (Actor("bob", groups=frozenset({"a", "b", "none"})), "group:b"),
        (Actor("bob", groups=frozenset({"a", "free"})), "group:free"),
        (Actor("bob"), "*"),
        (ANONYMOUS, "anonymous"),
        (Actor("admin", admin=True), None),
        (Actor("root", admin=True), "root"),
    ],
)
def test_the_nearest_limit_holds(actor: Actor, subject: str | None) -> None:
    found = limits.limit_for(actor, DECLARED)
    assert (found.subject if found else None) == subject


def test_strangers_have_no_limit_of_those_with_a_token() -> None:
    assert limits.limit_for(ANONYMOUS, {"*": Limit(subject="*", per_second=1)}) is None


@pytest.mark.parametrize(
    ("moment", "day", "month"),
    [
        ("2026-11-16T23:59:59", "2026-11-17T00:00:00", "2026-12-01T00:00:00"),
        ("2026-12-31T00:00:00", "2027-01-01T00:00:00", "2027-01-01T00:00:00"),
        ("2028-02-29T12:00:00", "2028-03-01T00:00:00", "2028-03-01T00:00:00"),
    ],
)
def test_days_and_months_end_in_utc(moment: str, day: str, month: str) -> None:
    now = _seconds(moment)
    assert (limits.period_end("day", now), limits.period_end("month", now)) == (_seconds(day), _seconds(month))
    assert limits.period_name("day", limits.period_end("day", now) - 1) == moment[:10]
    assert limits.period_name("month", now) == moment[:7]


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
