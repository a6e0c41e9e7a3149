"""Limits of predictions: requests per second, and quotas per UTC day and month. Pure.

A limit applies to a user, to each member of a `group:<name>`, to `*` (each user with a token), or to `anonymous` (all
callers without a token together). A user's own limit precedes that of a group, which precedes that of `*`. Of several
groups, the widest limit applies. Admins of the plane have only their own. All tokens of a user share one limit.
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
    """A number of 0 means no limit of that sort."""

    subject: str
    per_second: float = 0.0
    burst: int = 0
    """The most requests at once after an idle time; 0: as many as one second allows, and at least one."""
    per_day: int = 0
    per_month: int = 0

    @property
    def burst_size(self) -> int:
        return self.burst or max(1, round(self.per_second))

    @property
    def quotas(self) -> tuple[tuple[Period, int], ...]:
        """The quotas that are set, the shorter period first."""
        both: tuple[tuple[Period, int], ...] = (("day", self.per_day), ("month", self.per_month))
        return tuple((period, most) for period, most in both if most)

    def sort_key(self) -> tuple[float, ...]:
        return tuple(each or _ENDLESS for each in (self.per_second, self.per_day, self.per_month, self.burst))


def limit_for(actor: Actor, limits: Mapping[str, Limit]) -> Limit | None:
    """Returns the limit that applies to the actor; `limits` are by subject."""
    own = limits.get(actor.name)
    if own is not None or actor.admin or actor == ANONYMOUS:
        return own
    groups = [limits[each] for group in actor.groups if (each := f"group:{group}") in limits]
    return max(groups, key=Limit.sort_key) if groups else limits.get(ALL)


def period_name(period: Period, now: float) -> str:
    """Returns the name of the day or month at this time (seconds since 1970)."""
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%d" if period == "day" else "%Y-%m")


def period_end(period: Period, now: float) -> float:
    """Returns the end of the day or month at this time, both in seconds since 1970."""
    first = datetime.fromtimestamp(now, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if period == "day":
        return (first + timedelta(days=1)).timestamp()
    return (first.replace(day=1) + timedelta(days=32)).replace(day=1).timestamp()
