"""Rates and quantiles from the counts of two samples. Pure.

Counts grow as long as a process lives. All counts of a new process are new, those of an ended process are dropped, and
no rate is ever negative.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import accumulate

from mizzen.protocol.gateway_files.counts import BOUNDS, Counts, RequestCounts
from mizzen.protocol.gateway_files.counts import ServerCounts as Line
from mizzen.usage.graph_rates import NodeCounts, NodeKey, node_growth
from mizzen.usage.inventory import Inventory, Key, ServedVersion

WRITE_INTERVAL = 1.0
"""Seconds between two writes of a gateway whose counts change: a file that was not rewritten is still current."""
FIRST_ERROR_CODE = 500
"""Codes from here on are server errors; those below are the caller's."""


@dataclass(frozen=True, slots=True)
class ProcessUsage:
    """The resource usage of one running process."""

    pid: int
    start: str
    cpu_seconds: float
    resident_bytes: int
    restarts: int = 0


@dataclass(frozen=True, slots=True)
class UsageSample:
    """Everything that was observed at one time, in seconds since 1970."""

    at: float
    gateways: Mapping[str, Counts] = field(default_factory=dict)
    """The counts of live gateways, by name."""
    processes: Mapping[str, ProcessUsage] = field(default_factory=dict)
    """By key."""
    inventory: Inventory = field(default_factory=Inventory)


@dataclass(slots=True)
class CountGrowth:
    """The growth of a served version's counts."""

    codes: dict[int, float] = field(default_factory=dict)
    buckets: Sequence[float] = ()
    """The latency histogram; empty: no requests."""
    batches: float = 0.0
    calls: float = 0.0
    """Calls in those batches."""
    shed: float = 0.0
    expired: float = 0.0
    retried: float = 0.0

    def add(self, other: CountGrowth, times: float = 1.0) -> None:
        if other.codes:
            for code, count in other.codes.items():
                self.codes[code] = self.codes.get(code, 0.0) + times * count
            mine = self.buckets or (0.0,) * len(other.buckets)
            self.buckets = [own + times * theirs for own, theirs in zip(mine, other.buckets, strict=True)]
        for name in _QUEUE_COUNTS:
            setattr(self, name, getattr(self, name) + times * getattr(other, name))


_QUEUE_COUNTS = ("batches", "calls", "shed", "expired", "retried")


@dataclass(frozen=True, slots=True)
class Growth:
    """Growth between two samples: counts of served versions and graph nodes, and the CPU seconds of processes."""

    seconds: float = 0.0
    served: Mapping[Key, CountGrowth] = field(default_factory=dict)
    """Only those that grew."""
    cpu: Mapping[str, float] = field(default_factory=dict)
    """By key of the process."""
    nodes: Mapping[NodeKey, NodeCounts] = field(default_factory=dict)
    """Only those that grew."""


@dataclass(frozen=True, slots=True)
class Totals:
    """The requests of some served versions together. Rates are per second; None where there were no requests."""

    requests: float
    errors: float
    p50: float | None
    p95: float | None
    p99: float | None


@dataclass(frozen=True, slots=True)
class Figures(Totals):
    """The performance of one served version."""

    codes: Mapping[int, float]
    in_flight: int
    """Requests being received, waiting, or in a model."""
    waiting: int
    """Requests that wait for a replica."""
    batch: float | None
    """Average calls per batch."""
    shed: float
    expired: float
    retried: float
    ready: int
    wanted: int
    memory: int
    cpu: float
    """Cores."""


def compute_growth(before: UsageSample, after: UsageSample) -> Growth:
    seconds = max(after.at - before.at, 0.0)
    served: dict[Key, CountGrowth] = {}
    nodes: dict[NodeKey, NodeCounts] = {}
    for name, counts in after.gateways.items():
        old, since = before.gateways.get(name), before.at
        if old is not None and (old.pid, old.start) == (counts.pid, counts.start):
            since = _valid_until(old, before.at)
        elif counts.start >= before.at:
            old, since = None, counts.start
        else:
            continue  # it ran before the first sample, so the time span of its counts is unknown
        # The first moments of a process say little about a longer time.
        times = seconds / max(_valid_until(counts, after.at) - since, WRITE_INTERVAL / 2)
        for key, grown in _version_growth(old, counts, after.inventory):
            served.setdefault(key, CountGrowth()).add(grown, times)
        for node, more in node_growth(old, counts):
            nodes.setdefault(node, NodeCounts()).add(more, times)
    cpu = {
        key: max(process.cpu_seconds - _cpu_before(before.processes.get(key), process), 0.0)
        for key, process in after.processes.items()
    }
    return Growth(seconds, served, cpu, nodes)


def sum_growths(growths: Iterable[Growth]) -> Growth:
    seconds = 0.0
    served: dict[Key, CountGrowth] = {}
    cpu: dict[str, float] = {}
    nodes: dict[NodeKey, NodeCounts] = {}
    for one in growths:
        seconds += one.seconds
        for key, grown in one.served.items():
            served.setdefault(key, CountGrowth()).add(grown)
        for process, spent in one.cpu.items():
            cpu[process] = cpu.get(process, 0.0) + spent
        for node, more in one.nodes.items():
            nodes.setdefault(node, NodeCounts()).add(more)
    return Growth(seconds, served, cpu, nodes)


def compute_figures(grown: Growth, now: UsageSample) -> dict[Key, Figures]:
    """The figures of all versions that are served now or had requests in the interval."""
    flying, waiting = _count_in_flight(now)
    memory: dict[Key, int] = {}
    cpu: dict[Key, float] = {}
    for name, process in now.processes.items():
        if (found := now.inventory.find_workload(name)) is not None:
            key = found[0].key
            memory[key] = memory.get(key, 0) + process.resident_bytes
            cpu[key] = cpu.get(key, 0.0) + grown.cpu.get(name, 0.0)
    seconds = grown.seconds or math.inf
    keys = dict.fromkeys((*now.inventory.served, *grown.served, *(key for key, count in flying.items() if count)))
    no_growth, not_served = CountGrowth(), ServedVersion()
    result = {}
    for key in sorted(keys):
        one = grown.served.get(key, no_growth)
        there = now.inventory.served.get(key, not_served)
        result[key] = Figures(
            **asdict(_totals_of(one, seconds)),
            codes={code: count / seconds for code, count in sorted(one.codes.items())},
            in_flight=flying.get(key, 0),
            waiting=waiting.get(key, 0),
            batch=one.calls / one.batches if one.batches else None,
            shed=one.shed / seconds,
            expired=one.expired / seconds,
            retried=one.retried / seconds,
            ready=there.ready,
            wanted=there.wanted,
            memory=memory.get(key, 0),
            cpu=cpu.get(key, 0.0) / seconds,
        )
    return result


def compute_totals(grown: Growth, keys: Iterable[Key]) -> Totals:
    """The totals of these served versions. Quantiles come from merged histograms: they cannot be averaged."""
    sums = CountGrowth()
    for key in keys:
        if key in grown.served:
            sums.add(grown.served[key])
    return _totals_of(sums, grown.seconds or math.inf)


def _totals_of(grown: CountGrowth, seconds: float) -> Totals:
    requests = sum(grown.codes.values())
    errors = sum(count for code, count in grown.codes.items() if code >= FIRST_ERROR_CODE)
    return Totals(requests / seconds, errors / seconds, *compute_quantiles(grown.buckets, (0.5, 0.95, 0.99)))


def compute_quantiles(buckets: Sequence[float], wanted: Sequence[float]) -> tuple[float | None, ...]:
    """Quantiles in seconds, by linear interpolation within a bucket; for the last, unbounded one, its lower bound."""
    totals = list(accumulate(buckets))
    if not totals or totals[-1] <= 0:
        return (None,) * len(wanted)
    found = []
    for share in wanted:
        sought = share * totals[-1]
        place = bisect_left(totals, sought)
        if place >= len(BOUNDS):
            found.append(BOUNDS[-1])
            continue
        low, below = (BOUNDS[place - 1], totals[place - 1]) if place else (0.0, 0.0)
        found.append(low + (BOUNDS[place] - low) * (sought - below) / buckets[place])
    return tuple(found)


def _valid_until(counts: Counts, seen: float) -> float:
    """The latest time at which these counts are known to be current, for a file that was read at `seen`."""
    return min(max(counts.at, seen - WRITE_INTERVAL), seen)


def _version_growth(old: Counts | None, new: Counts, known: Inventory) -> Iterable[tuple[Key, CountGrowth]]:
    before = {(each.namespace, each.model, each.version): each for each in old.requests} if old else {}
    for each in new.requests:
        grown = _request_growth(before.get((each.namespace, each.model, each.version)), each)
        if grown is not None:
            yield (each.namespace, known.resolve_model(each.namespace, each.model), each.version), grown
    lines = {(line.server, line.version): line for line in old.served} if old else {}
    for line in new.served:
        grown = _queue_growth(lines.get((line.server, line.version)), line)
        if grown is not None:
            yield _key_of(line, known), grown


def _request_growth(old: RequestCounts | None, new: RequestCounts) -> CountGrowth | None:
    if old.codes == new.codes if old is not None else not new.codes:
        return None
    if old is None or any(new.codes.get(code, 0) < count for code, count in old.codes.items()):
        # The counts restarted at zero: a gateway drops versions that are no longer served, and they may come back.
        return CountGrowth({code: float(count) for code, count in new.codes.items()}, new.buckets)
    codes = {
        code: float(count - old.codes.get(code, 0))
        for code, count in new.codes.items()
        if count != old.codes.get(code, 0)
    }
    return CountGrowth(codes, [more - less for more, less in zip(new.buckets, old.buckets, strict=True)])


def _queue_growth(old: Line | None, new: Line) -> CountGrowth | None:
    after = _sums(new)
    before = _sums(old) if old is not None else (0,) * len(after)
    if any(more < less for more, less in zip(after, before, strict=True)):
        before = (0,) * len(after)
    if after == before:
        return None
    grown = CountGrowth()
    for name, more, less in zip(_QUEUE_COUNTS, after, before, strict=True):
        setattr(grown, name, more - less)
    return grown


def _sums(line: Line) -> tuple[int, ...]:
    """In the order of `_QUEUE_COUNTS`."""
    return sum(line.sizes), line.batch_items, line.shed, line.expired, line.retried


def _count_in_flight(now: UsageSample) -> tuple[dict[Key, int], dict[Key, int]]:
    flying: dict[Key, int] = {}
    waiting: dict[Key, int] = {}
    for counts in now.gateways.values():
        for each in counts.requests:
            key = each.namespace, now.inventory.resolve_model(each.namespace, each.model), each.version
            flying[key] = flying.get(key, 0) + each.in_flight
        for line in counts.served:
            key = _key_of(line, now.inventory)
            waiting[key] = waiting.get(key, 0) + line.waiting
    return flying, waiting


def _key_of(line: Line, known: Inventory) -> Key:
    namespace, _, name = line.server.partition("/")
    return namespace, known.resolve_model(namespace, name), line.version


def _cpu_before(old: ProcessUsage | None, new: ProcessUsage) -> float:
    """For a process without an earlier sample, its own CPU time: it is unknown when that was spent."""
    if old is None:
        return new.cpu_seconds
    return old.cpu_seconds if (old.pid, old.start) == (new.pid, new.start) else 0.0
