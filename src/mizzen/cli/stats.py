"""Requests a second and the median latency, from two readings of the gateways' metrics."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

_REQUESTS: Final = re.compile(r"mizzen_requests_total\{(?P<labels>.*)\} (?P<value>\S+)")
_BUCKET: Final = re.compile(r'mizzen_request_seconds_bucket\{(?P<labels>.*)le="(?P<bound>[^"]+)"\} (?P<value>\S+)')

K = TypeVar("K", bound=Any)


@dataclass(frozen=True, slots=True)
class Reading:
    """All models of all gateways, at one time. By labels, for each of them may begin anew or go."""

    time: float
    requests: Mapping[str, float] = field(default_factory=dict)
    buckets: Mapping[tuple[str, float], float] = field(default_factory=dict)
    """Requests that took at most so many seconds."""


def read(text: str, time: float) -> Reading:
    requests: dict[str, float] = {}
    buckets: dict[tuple[str, float], float] = {}
    for line in text.splitlines():
        if found := _REQUESTS.fullmatch(line):
            requests[found["labels"]] = float(found["value"])
        elif found := _BUCKET.fullmatch(line):
            buckets[found["labels"], float(found["bound"])] = float(found["value"])
    return Reading(time, requests, buckets)


def rate(before: Reading, after: Reading) -> float:
    """Requests a second between the readings."""
    seconds = after.time - before.time
    requests = sum(count for _, count in _added(before.requests, after.requests))
    return requests / seconds if seconds > 0 else 0.0


def median(before: Reading, after: Reading) -> float | None:
    """Seconds, by linear interpolation in the bucket that holds the middle; None when nothing was asked."""
    counts: dict[float, float] = {}
    for (_, bound), count in _added(before.buckets, after.buckets):
        counts[bound] = counts.get(bound, 0.0) + count
    half = max(counts.values(), default=0) / 2
    if half <= 0:
        return None
    low, below = 0.0, 0.0
    for bound, count in sorted(counts.items()):
        if count >= half:
            return low if bound == float("inf") else low + (bound - low) * (half - below) / (count - below)
        low, below = bound, count
    return None


def _added(before: Mapping[K, float], after: Mapping[K, float]) -> Iterator[tuple[K, float]]:
    """What was counted in between. A count that went down is that of another process, which began at 0."""
    for key, now in after.items():
        was = before.get(key, 0.0)
        yield key, now - was if now >= was else now
