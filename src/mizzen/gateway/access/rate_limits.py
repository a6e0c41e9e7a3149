"""The limits of one caller: whether it may send another request, and the headers and texts that say so.

`authorizer` looks the limit up once per request head; a caller without one costs a comparison with None.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from mizzen.access import limits
from mizzen.access.limits import Limit
from mizzen.access.policy import Actor
from mizzen.gateway.access.quotas import QuotaLease, Quotas
from mizzen.gateway.access.rate_limiter import RateBucket, RateLimiter

TOO_MANY, COUNT_UNAVAILABLE = 429, 503


class LimitExceeded(NamedTuple):
    """The reason for a refusal, and how to answer it."""

    code: int
    reason: str
    header_lines: bytes
    """Header lines in addition to those that describe the body."""
    retry_after: int
    """Whole seconds until a retry may succeed."""


@dataclass(slots=True, eq=False)
class RateLimit:
    """The rate and quotas of one caller in this gateway, shared by all its requests."""

    name: str
    limit: Limit
    bucket: RateBucket | None
    leases: tuple[QuotaLease, ...]

    def spend(self, now: float, wall: float) -> LimitExceeded | None:
        """Counts one request and returns None if it is allowed. `now`: monotonic; `wall`: seconds since 1970."""
        if self.bucket is not None and (wait := self.bucket.take(now)):
            rate = f"{self.limit.per_second:g} requests a second"
            return self._build_refusal(f"{self.name} may send {rate}, {self.bucket.burst} at once", wait, now)
        for number, lease in enumerate(self.leases):
            try:
                may = lease.spend(wall)
            except OSError as error:
                return LimitExceeded(
                    COUNT_UNAVAILABLE, f"the remaining quota of {self.name} is not known: {error}", b"", 1
                )
            if not may:
                for before in self.leases[:number]:
                    before.undo()
                what = f"{self.name} has used all {lease.quota} predictions of this {lease.period} (UTC)"
                return self._build_refusal(what, lease.resets_in(wall), now, lease)
        return None

    def header_lines(self, now: float) -> bytes:
        """Headers for an answer, with the names of draft-ietf-httpapi-ratelimit-headers-06, which most clients know."""
        if self.bucket is None:
            return b""
        left, reset = self.bucket.remaining(now)
        return _HEADER_LINES % (self.bucket.burst, left, math.ceil(reset))

    def _build_refusal(self, what: str, wait: float, now: float, lease: QuotaLease | None = None) -> LimitExceeded:
        seconds = max(1, math.ceil(wait))
        lines = self.header_lines(now) if lease is None else _HEADER_LINES % (lease.quota, 0, seconds)
        return LimitExceeded(TOO_MANY, f"{what}; try again in {_format_wait(seconds)}", lines, seconds)


class RateLimits:
    """Creates rate limits, backed by the state that all gateways share."""

    def __init__(self, limiter: RateLimiter, quotas: Quotas) -> None:
        self._limiter = limiter
        self._quotas = quotas

    def close(self) -> None:
        """Returns unused quota."""
        self._quotas.close()

    def limit_of(self, actor: Actor, declared: dict[str, Limit]) -> RateLimit | None:
        """Returns None if the actor has no limit."""
        limit = limits.limit_for(actor, declared)
        if limit is None:
            return None
        bucket = self._limiter.bucket_of(actor.name, limit) if limit.per_second else None
        leases = tuple(self._quotas.lease(actor.name, period, most) for period, most in limit.quotas)
        return RateLimit(actor.name, limit, bucket, leases)


_HEADER_LINES = b"ratelimit-limit: %d\r\nratelimit-remaining: %d\r\nratelimit-reset: %d\r\n"


def _format_wait(seconds: int) -> str:
    hours, rest = divmod(seconds, 3600)
    if hours:
        return f"{hours} h {rest // 60} min"
    return f"{seconds // 60} min" if seconds >= 120 else f"{seconds} s"
