"""Hand-written counters: a metrics library would cost more than the rest of a request.

Requests are counted per callable name and version.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

from mizzen.gateway.queueing.call import OK
from mizzen.protocol.gateway_files.counts import BOUNDS, AccuracyCounts, RequestCounts, RewardCounts

GONE = 499
"""The code counted when the client left before its answer."""

FeedbackKey = tuple[str, str, str, str]
"""Namespace, name, node, and an arm or a version."""


@dataclass(slots=True, eq=False)
class Counters:
    """Counts of the requests to one callable name and version."""

    of: str = ""
    """The model behind the name, if it has another name."""
    codes: Counter[int] = field(default_factory=Counter)
    defaults: Counter[bytes] = field(default_factory=Counter)
    """Default answers by reason; their code is 200."""
    buckets: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    seconds: float = 0.0
    failed_seconds: float = 0.0
    """Of requests that were not answered with 200."""
    in_flight: int = 0

    def record_end(self, code: int, seconds: float) -> None:
        self.in_flight -= 1
        self.codes[code] += 1
        self.seconds += seconds
        if code != OK:
            self.failed_seconds += seconds
        self.buckets[bisect_left(BOUNDS, seconds)] += 1


class Metrics:
    """All counters of one gateway process. A version's counters live as long as Tables name it."""

    def __init__(self) -> None:
        self.refused: Counter[int] = Counter()
        """Requests that reached no model, by code."""
        self._requests: dict[tuple[str, str, str], Counters] = {}
        self._rewards: dict[FeedbackKey, list[float]] = {}
        self._accuracy: dict[FeedbackKey, list[float]] = {}

    def counters(self, namespace: str, name: str, version: str, of: str = "") -> Counters:
        """`of`: the model behind the name, if it has another name. A new model gets new counters."""
        key = namespace, name, version
        found = self._requests.get(key)
        if found is None or found.of != of:
            found = self._requests[key] = Counters(of)
        return found

    def retain(self, named: Collection[tuple[str, str, str]]) -> None:
        """Drops all other counters that have no request in flight, since versions come and go forever."""
        self._requests = {
            key: counters for key, counters in self._requests.items() if key in named or counters.in_flight
        }
        names = {(namespace, name) for namespace, name, _ in named}
        self._rewards = {place: sums for place, sums in self._rewards.items() if place[:2] in names}
        self._accuracy = {place: sums for place, sums in self._accuracy.items() if place[:2] in names}

    def add_reward(self, namespace: str, name: str, node: str, arm: str, reward: float) -> None:
        """Counts feedback for the arm that a node chose; a reward of 0 counts too."""
        _add(self._rewards, (namespace, name, node, arm), reward)

    def add_accuracy(self, namespace: str, name: str, node: str, version: str, accuracy: float) -> None:
        """Counts feedback that came with the truth."""
        _add(self._accuracy, (namespace, name, node, version), accuracy)

    def reward_counts(self) -> list[RewardCounts]:
        return [RewardCounts(*place, int(count), total) for place, (count, total) in sorted(self._rewards.items())]

    def accuracy_counts(self) -> list[AccuracyCounts]:
        return [AccuracyCounts(*place, int(count), total) for place, (count, total) in sorted(self._accuracy.items())]

    def request_counts(self) -> list[RequestCounts]:
        """Returns only names with requests: most of ten thousand names may have no callers."""
        return [
            RequestCounts(
                *key,
                dict(each.codes),
                [*each.buckets],
                each.seconds,
                each.in_flight,
                each.failed_seconds,
                {why.decode(): count for why, count in each.defaults.items()},
                each.of,
            )
            for key, each in sorted(item for item in self._requests.items() if item[1].codes or item[1].in_flight)
        ]


def _add(sums: dict[FeedbackKey, list[float]], place: FeedbackKey, value: float) -> None:
    found = sums.setdefault(place, [0, 0.0])
    found[0] += 1
    found[1] += value
