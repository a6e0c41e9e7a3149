"""What a limit comes to for one who asks: whether they may ask once more, and what they are told about it.

Decided once per head who has one (`permits`); who has none is compared with None, and that is all.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from mizzen.access import limits
from mizzen.access.limits import Limit
from mizzen.access.policy import Actor
from mizzen.gateway.access.quotas import Quotas, Share
from mizzen.gateway.access.rate_limiter import Pace, Rates

TOO_MANY, UNCOUNTED = 429, 503


class Excess(NamedTuple):
    """Why not, and how that is answered."""

    code: int
    reason: str
    lines: bytes
    """Header lines, beside those of what the answer is."""
    retry: int
    """Whole seconds until it may be worth asking again."""


class Allowance:
    """Of one who is limited, in this gateway; however many heads they send."""

    __slots__ = ("_limit", "_name", "_pace", "_shares")

    def __init__(self, actor: str, limit: Limit, pace: Pace | None, shares: tuple[Share, ...]) -> None:
        self._name = actor
        self._limit = limit
        self._pace = pace
        self._shares = shares

    def spend(self, now: float, wall: float) -> Excess | None:
        """None: they may, and it is counted. `now` is by the machine's clock, `wall` in seconds since 1970."""
        if self._pace is not None and (wait := self._pace.wait(now)):
            rate = f"{self._limit.per_second:g} times a second"
            return self._excess(f"{self._name} may ask {rate}, {self._pace.at_once} at once", wait, now)
        for number, share in enumerate(self._shares):
            try:
                may = share.spend(wall)
            except OSError as error:
                return Excess(UNCOUNTED, f"what {self._name} may still ask is not known: {error}", b"", 1)
            if not may:
                for before in self._shares[:number]:
                    before.undo()
                what = f"{self._name} has used all {share.most} predictions of this {share.period} (UTC)"
                return self._excess(what, share.resets_in(wall), now, share)
        return None

    def lines(self, now: float) -> bytes:
        """What goes with an answer, by the names that most clients know: of draft-ietf-httpapi-ratelimit-headers-06."""
        if self._pace is None:
            return b""
        left, reset = self._pace.left(now)
        return _LINES % (self._pace.at_once, left, math.ceil(reset))

    def _excess(self, what: str, wait: float, now: float, share: Share | None = None) -> Excess:
        seconds = max(1, math.ceil(wait))
        lines = self.lines(now) if share is None else _LINES % (share.most, 0, seconds)
        return Excess(TOO_MANY, f"{what}; try again in {_words(seconds)}", lines, seconds)


class Allowances:
    """Makes them, with what all gateways share."""

    def __init__(self, rates: Rates, quotas: Quotas) -> None:
        self._rates = rates
        self._quotas = quotas

    def close(self) -> None:
        """Give back what was taken and not used."""
        self._quotas.close()

    def of(self, actor: Actor, declared: dict[str, Limit]) -> Allowance | None:
        """None for who is not limited."""
        limit = limits.of(actor, declared)
        if limit is None:
            return None
        pace = self._rates.pace(actor.name, limit) if limit.per_second else None
        shares = tuple(self._quotas.share(actor.name, period, most) for period, most in limit.quotas)
        return Allowance(actor.name, limit, pace, shares)


_LINES = b"ratelimit-limit: %d\r\nratelimit-remaining: %d\r\nratelimit-reset: %d\r\n"


def _words(seconds: int) -> str:
    hours, rest = divmod(seconds, 3600)
    if hours:
        return f"{hours} h {rest // 60} min"
    return f"{seconds // 60} min" if seconds >= 120 else f"{seconds} s"
