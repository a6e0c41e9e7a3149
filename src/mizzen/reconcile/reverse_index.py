"""The way back from an object to the keys that name it: for controllers whose keys name objects they do not own.

Kept in memory, and complete as soon as every key was loaded once, which the loop sees to at its start.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from mizzen.kinds.schema.resource import Ref


class Mentions:
    def __init__(self) -> None:
        self._by_key: dict[Ref, frozenset[Ref]] = {}
        self._naming: defaultdict[Ref, set[Ref]] = defaultdict(set)

    def note(self, key: Ref, named: Iterable[Ref]) -> None:
        """From now on `key` names these, and nothing else. Note them before they are read: an object that is created in
        between then wakes the key again."""
        before, after = self._by_key.get(key, frozenset()), frozenset(named)
        for ref in before - after:
            self._naming[ref].discard(key)
            if not self._naming[ref]:
                del self._naming[ref]
        for ref in after - before:
            self._naming[ref].add(key)
        if after:
            self._by_key[key] = after
        else:
            self._by_key.pop(key, None)

    def forget(self, key: Ref) -> None:
        self.note(key, ())

    def naming(self, ref: Ref) -> tuple[Ref, ...]:
        """The keys that name it. Costs what it returns."""
        return tuple(sorted(self._naming.get(ref, ())))
