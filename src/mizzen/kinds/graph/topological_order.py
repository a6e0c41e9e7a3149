"""Topological order of a dependency graph, and the cycles in it. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Mapping
from itertools import islice

MOST_CYCLES = 10
"""The most cycles that are reported at once."""


def in_order(dependencies: Mapping[str, Collection[str]]) -> tuple[str, ...]:
    """Each name after all its dependencies, otherwise as given. Names in a cycle, or behind one, are left out."""
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
    """Cycles without common members, at least one if there is any. In each, a member depends on the one before it.

    Each begins with its member that was given first. Callers must leave out names that depend on themselves.
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
    """A cycle within `left`, where each name depends on another, so that a walk must return somewhere."""
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
