"""The reverse index from an object to the keys that reference it, for references without ownership.

It is kept in memory, and complete once every key was loaded, which the loop ensures at its start.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from mizzen.kinds.schema.resource import Ref


class ReverseIndex:
    def __init__(self) -> None:
        self._by_key: dict[Ref, frozenset[Ref]] = {}
        self._naming: defaultdict[Ref, set[Ref]] = defaultdict(set)

    def set(self, key: Ref, named: Iterable[Ref]) -> None:
        """Set the references of `key` to exactly these. Do it before the objects are read: an object that is created in
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

    def remove(self, key: Ref) -> None:
        self.set(key, ())

    def keys_for(self, ref: Ref) -> tuple[Ref, ...]:
        """The keys that reference it. The cost is proportional to their number."""
        return tuple(sorted(self._naming.get(ref, ())))
