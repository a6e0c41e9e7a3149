"""The order of things that depend on each other, and the cycles that leave them without one. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Mapping
from itertools import islice

MOST_CYCLES = 10
"""So many are named at once; whoever made more has enough to mend."""


def in_order(dependencies: Mapping[str, Collection[str]]) -> tuple[str, ...]:
    """Each name after all it depends on, otherwise as given. What is in a cycle, or behind one, is left out."""
    place = {name: index for index, name in enumerate(dependencies)}
    names = tuple(dependencies)
    waits = {name: {on for on in needed if on in place} for name, needed in dependencies.items()}
    dependents: dict[str, list[str]] = {name: [] for name in names}
    for name, needed in waits.items():
        for on in needed:
            dependents[on].append(name)
    ready = [place[name] for name in names if not waits[name]]
    ordered = []
    while ready:
        name = names[heapq.heappop(ready)]
        ordered.append(name)
        for dependent in dependents[name]:
            waits[dependent].discard(name)
            if not waits[dependent]:
                heapq.heappush(ready, place[dependent])
    return tuple(ordered)


def cycles(dependencies: Mapping[str, Collection[str]]) -> tuple[tuple[str, ...], ...]:
    """Cycles with no member in common, at least one if there is any. Each in order: the next depends on the one before.

    Each begins with its member that was given first. A name that depends on itself is none: leave that out before.
    """
    return tuple(islice(_cycles(dependencies), MOST_CYCLES))


def _cycles(dependencies: Mapping[str, Collection[str]]) -> Iterator[tuple[str, ...]]:
    left = dict(dependencies)
    while True:
        for name in in_order(left):
            del left[name]
        if not left:
            return
        cycle = _a_cycle(left)
        yield cycle
        for name in cycle:
            del left[name]


def _a_cycle(left: Mapping[str, Collection[str]]) -> tuple[str, ...]:
    """One of those within `left`, where each name depends on another: so walking must come back somewhere."""
    walked: list[str] = []
    seen: set[str] = set()
    name = next(iter(left))
    while name not in seen:
        seen.add(name)
        walked.append(name)
        name = next(on for on in left[name] if on in left)
    members = walked[walked.index(name) :][::-1]
    place = {name: index for index, name in enumerate(left)}
    first = members.index(min(members, key=place.__getitem__))
    return (*members[first:], *members[:first])
