"""Rates and quantiles from what was counted at two moments. Pure.

Counts grow as long as a process lives: what a new process has counted is all new, what one had counted that ended is
past, and no rate is ever negative.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from mizzen.protocol.gateway_files.counts import BOUNDS, Counts, Requests
from mizzen.protocol.gateway_files.counts import Served as Line
from mizzen.usage.graph_rates import NodeKey, Passed, passed
from mizzen.usage.inventory import Key, Known, Served

WRITTEN_EVERY = 1.0
"""Seconds between two files of a gateway that has something to tell: what has not been written since is still so."""
ERRORS = 500
"""Codes from here on are ours to mend; those below are the caller's."""


@dataclass(frozen=True, slots=True)
class Process:
    """One that runs, as the machine sees it."""

    pid: int
    start: str
    cpu_seconds: float
    resident_bytes: int
    restarts: int = 0


@dataclass(frozen=True, slots=True)
class Moment:
    """All that was seen at one time, in seconds since 1970."""

    at: float
    gateways: Mapping[str, Counts] = field(default_factory=dict)
    """Of those that live, by name."""
    processes: Mapping[str, Process] = field(default_factory=dict)
    """By key."""
    known: Known = field(default_factory=Known)


@dataclass(slots=True)
class Grown:
    """By how much the counts of a served version grew."""

    codes: dict[int, float] = field(default_factory=dict)
    buckets: Sequence[float] = ()
    """How many took how long; empty: none came."""
    batches: float = 0.0
    calls: float = 0.0
    """In those batches."""
    shed: float = 0.0
    expired: float = 0.0
    retried: float = 0.0

    def add(self, other: Grown, times: float = 1.0) -> None:
        if other.codes:
            for code, count in other.codes.items():
                self.codes[code] = self.codes.get(code, 0.0) + times * count
            mine = self.buckets or (0.0,) * len(other.buckets)
            self.buckets = [own + times * theirs for own, theirs in zip(mine, other.buckets, strict=True)]
        self.batches += times * other.batches
        self.calls += times * other.calls
        self.shed += times * other.shed
        self.expired += times * other.expired
        self.retried += times * other.retried


@dataclass(frozen=True, slots=True)
class Growth:
    """Between two moments: of served versions and nodes of graphs, and the CPU seconds of processes."""

    seconds: float = 0.0
    served: Mapping[Key, Grown] = field(default_factory=dict)
    """Those that grew."""
    cpu: Mapping[str, float] = field(default_factory=dict)
    """By key of the process."""
    nodes: Mapping[NodeKey, Passed] = field(default_factory=dict)
    """Those that grew."""


@dataclass(frozen=True, slots=True)
class Figures:
    """How a served version is doing. Rates are per second; None where nothing was asked."""

    requests: float
    errors: float
    codes: Mapping[int, float]
    p50: float | None
    p95: float | None
    p99: float | None
    in_flight: int
    """Of callers, on their way in, waiting, or in a model."""
    waiting: int
    """For a replica."""
    batch: float | None
    """Calls in one, on average."""
    shed: float
    expired: float
    retried: float
    ready: int
    wanted: int
    memory: int
    cpu: float
    """Cores."""


@dataclass(frozen=True, slots=True)
class Whole:
    """How several served versions are doing together, likewise."""

    requests: float
    errors: float
    p50: float | None
    p95: float | None
    p99: float | None


def growth(before: Moment, after: Moment) -> Growth:
    seconds = max(after.at - before.at, 0.0)
    served: dict[Key, Grown] = {}
    nodes: dict[NodeKey, Passed] = {}
    for name, counts in after.gateways.items():
        old, since = before.gateways.get(name), before.at
        if old is not None and (old.pid, old.start) == (counts.pid, counts.start):
            since = _true_until(old, before.at)
        elif counts.start >= before.at:
            old, since = None, counts.start
        else:
            continue  # it lived before, unseen: nobody knows since when it has counted what
        # What a process did in its first instants says little of a longer time.
        times = seconds / max(_true_until(counts, after.at) - since, WRITTEN_EVERY / 2)
        for key, grown in _counted(old, counts, after.known):
            served.setdefault(key, Grown()).add(grown, times)
        for node, more in passed(old, counts):
            nodes.setdefault(node, Passed()).add(more, times)
    cpu = {
        key: max(process.cpu_seconds - _cpu_before(before.processes.get(key), process), 0.0)
        for key, process in after.processes.items()
    }
    return Growth(seconds, served, cpu, nodes)


def total(growths: Iterable[Growth]) -> Growth:
    seconds = 0.0
    served: dict[Key, Grown] = {}
    cpu: dict[str, float] = {}
    nodes: dict[NodeKey, Passed] = {}
    for one in growths:
        seconds += one.seconds
        for key, grown in one.served.items():
            served.setdefault(key, Grown()).add(grown)
        for process, spent in one.cpu.items():
            cpu[process] = cpu.get(process, 0.0) + spent
        for node, more in one.nodes.items():
            nodes.setdefault(node, Passed()).add(more)
    return Growth(seconds, served, cpu, nodes)


def figures(grown: Growth, now: Moment) -> dict[Key, Figures]:
    """Of all that is served at this moment, and of all that was asked until then."""
    flying, waiting = _queued(now)
    memory: dict[Key, int] = {}
    cpu: dict[Key, float] = {}
    for name, process in now.processes.items():
        if (found := now.known.work(name)) is not None:
            key = found[0].key
            memory[key] = memory.get(key, 0) + process.resident_bytes
            cpu[key] = cpu.get(key, 0.0) + grown.cpu.get(name, 0.0)
    seconds = grown.seconds or math.inf
    keys = dict.fromkeys((*now.known.served, *grown.served, *(key for key, count in flying.items() if count)))
    nothing, nobody = Grown(), Served()
    result = {}
    for key in sorted(keys):
        one = grown.served.get(key, nothing)
        p50, p95, p99 = quantiles(one.buckets, (0.5, 0.95, 0.99))
        there = now.known.served.get(key, nobody)
        result[key] = Figures(
            requests=sum(one.codes.values()) / seconds,
            errors=sum(count for code, count in one.codes.items() if code >= ERRORS) / seconds,
            codes={code: count / seconds for code, count in sorted(one.codes.items())},
            p50=p50,
            p95=p95,
            p99=p99,
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


def whole(grown: Growth, keys: Iterable[Key]) -> Whole:
    """Of these served versions together. A median of medians would be none."""
    sums = Grown()
    for key in keys:
        if key in grown.served:
            sums.add(grown.served[key])
    seconds = grown.seconds or math.inf
    errors = sum(count for code, count in sums.codes.items() if code >= ERRORS)
    return Whole(sum(sums.codes.values()) / seconds, errors / seconds, *quantiles(sums.buckets, (0.5, 0.95, 0.99)))


def quantiles(buckets: Sequence[float], wanted: Sequence[float]) -> tuple[float | None, ...]:
    """Seconds, by linear interpolation in the bucket that holds each; in the last, which has no end, its beginning."""
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


def _true_until(counts: Counts, seen: float) -> float:
    """When these counts were the present ones, as far as is known to somebody who found the file at `seen`."""
    return min(max(counts.at, seen - WRITTEN_EVERY), seen)


def _counted(old: Counts | None, new: Counts, known: Known) -> Iterable[tuple[Key, Grown]]:
    asked = {(each.namespace, each.model, each.version): each for each in old.requests} if old else {}
    for each in new.requests:
        grown = _asked(asked.get((each.namespace, each.model, each.version)), each)
        if grown is not None:
            yield (each.namespace, known.model(each.namespace, each.model), each.version), grown
    lines = {(line.server, line.version): line for line in old.served} if old else {}
    for line in new.served:
        grown = _worked(lines.get((line.server, line.version)), line)
        if grown is not None:
            yield _key(line, known), grown


def _asked(old: Requests | None, new: Requests) -> Grown | None:
    if old.codes == new.codes if old is not None else not new.codes:
        return None
    if old is None or any(new.codes.get(code, 0) < count for code, count in old.codes.items()):
        # Counted from nothing: a gateway forgets what nobody serves, and it may be served again.
        return Grown({code: float(count) for code, count in new.codes.items()}, new.buckets)
    codes = {
        code: float(count - old.codes.get(code, 0))
        for code, count in new.codes.items()
        if count != old.codes.get(code, 0)
    }
    return Grown(codes, [more - less for more, less in zip(new.buckets, old.buckets, strict=True)])


def _worked(old: Line | None, new: Line) -> Grown | None:
    before = _sums(old) if old is not None else (0, 0, 0, 0, 0)
    after = _sums(new)
    if any(more < less for more, less in zip(after, before, strict=True)):
        before = (0, 0, 0, 0, 0)
    if after == before:
        return None
    batches, calls, shed, expired, retried = (more - less for more, less in zip(after, before, strict=True))
    return Grown(batches=batches, calls=calls, shed=shed, expired=expired, retried=retried)


def _sums(line: Line) -> tuple[int, int, int, int, int]:
    return sum(line.sizes), line.batch_items, line.shed, line.expired, line.retried


def _queued(now: Moment) -> tuple[dict[Key, int], dict[Key, int]]:
    flying: dict[Key, int] = {}
    waiting: dict[Key, int] = {}
    for counts in now.gateways.values():
        for each in counts.requests:
            key = each.namespace, now.known.model(each.namespace, each.model), each.version
            flying[key] = flying.get(key, 0) + each.in_flight
        for line in counts.served:
            key = _key(line, now.known)
            waiting[key] = waiting.get(key, 0) + line.waiting
    return flying, waiting


def _key(line: Line, known: Known) -> Key:
    namespace, _, name = line.server.partition("/")
    return namespace, known.model(namespace, name), line.version


def _cpu_before(old: Process | None, new: Process) -> float:
    """Of one that is seen for the first time nobody knows what it spent when."""
    if old is None:
        return new.cpu_seconds
    return old.cpu_seconds if (old.pid, old.start) == (new.pid, new.start) else 0.0
