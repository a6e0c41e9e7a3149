"""How much somebody may predict: so many requests a second, and so many in a day and a month of UTC. Pure.

A limit is for a name, for each member of a `group:<name>`, for `*` (each who has a token), or for `anonymous` (all
strangers together). One's own comes before that of a group, which comes before `*`'s; who is in several groups has the
widest of theirs. Admins of the plane have none but their own. However many tokens somebody has, they share one limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Literal

import msgspec

from mizzen.access.policy import ANONYMOUS, Actor

ALL = "*"
Period = Literal["day", "month"]
_ENDLESS = float("inf")


class Limit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a number is 0, there is no limit of that sort."""

    subject: str
    per_second: float = 0.0
    burst: int = 0
    """So many at once, if nothing was asked before; 0: as many as a second allows, and one at least."""
    per_day: int = 0
    per_month: int = 0

    @property
    def at_once(self) -> int:
        return self.burst or max(1, round(self.per_second))

    @property
    def quotas(self) -> tuple[tuple[Period, int], ...]:
        """Those there are, the shorter first."""
        both: tuple[tuple[Period, int], ...] = (("day", self.per_day), ("month", self.per_month))
        return tuple((period, most) for period, most in both if most)

    def wideness(self) -> tuple[float, ...]:
        return tuple(each or _ENDLESS for each in (self.per_second, self.per_day, self.per_month, self.burst))


def of(actor: Actor, limits: Mapping[str, Limit]) -> Limit | None:
    """What holds for them, of all limits by their subjects."""
    own = limits.get(actor.name)
    if own is not None or actor.admin or actor == ANONYMOUS:
        return own
    groups = [limits[each] for group in actor.groups if (each := f"group:{group}") in limits]
    return max(groups, key=Limit.wideness) if groups else limits.get(ALL)


def named(period: Period, now: float) -> str:
    """What the day or month is called that this moment (seconds since 1970) is in."""
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%d" if period == "day" else "%Y-%m")


def end(period: Period, now: float) -> float:
    """When it is over, likewise."""
    first = datetime.fromtimestamp(now, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if period == "day":
        return (first + timedelta(days=1)).timestamp()
    return (first.replace(day=1) + timedelta(days=32)).replace(day=1).timestamp()
