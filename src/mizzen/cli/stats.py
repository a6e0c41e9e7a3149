"""Requests a second and the median latency, from two readings of a gateway's metrics."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

_REQUESTS: Final = re.compile(r"mizzen_requests_total\{[^}]*\} (?P<value>\S+)")
_BUCKET: Final = re.compile(r'mizzen_request_seconds_bucket\{.*le="(?P<bound>[^"]+)"\} (?P<value>\S+)')


@dataclass(frozen=True, slots=True)
class Reading:
    """All models together, at one time."""

    time: float
    requests: float = 0.0
    buckets: Mapping[float, float] = field(default_factory=dict)
    """Requests that took at most so many seconds."""


def read(text: str, time: float) -> Reading:
    requests = 0.0
    buckets: dict[float, float] = {}
    for line in text.splitlines():
        if found := _REQUESTS.fullmatch(line):
            requests += float(found["value"])
        elif found := _BUCKET.fullmatch(line):
            bound = float(found["bound"])
            buckets[bound] = buckets.get(bound, 0.0) + float(found["value"])
    return Reading(time, requests, buckets)


def rate(before: Reading, after: Reading) -> float:
    """Requests a second between the readings. 0 when the counters began anew, as those of a new process do."""
    seconds = after.time - before.time
    return max(0.0, after.requests - before.requests) / seconds if seconds > 0 else 0.0


def median(before: Reading, after: Reading) -> float | None:
    """Seconds, by linear interpolation in the bucket that holds the middle; None when nothing was asked."""
    counts = {bound: total - before.buckets.get(bound, 0.0) for bound, total in sorted(after.buckets.items())}
    half = max(counts.values(), default=0) / 2
    if half <= 0:
        return None
    low, below = 0.0, 0.0
    for bound, count in counts.items():
        if count >= half:
            return low if bound == float("inf") else low + (bound - low) * (half - below) / (count - below)
        low, below = bound, count
    return None
