"""Who owns which field: `metadata.managedFields`, and apply as several people do it to one object.

Whoever applies a document owns the fields in it. A field that another manager owns with another value is a conflict,
unless it is taken by force; the same value is shared. What somebody applied before and now leaves out goes, unless
another manager owns it too. All other writes make their writer the owner of what they change; of those who wrote so,
the last few are told apart.

Documents are what can be owned of an object: what names it, and what the server keeps, is left out by the caller.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from mizzen.patches import field_sets
from mizzen.patches.field_sets import Fields, Path

Operation = Literal["Apply", "Update"]

MOST_UPDATERS = 10
"""Managers that wrote by other ways than apply. Of more the oldest become one, as in Kubernetes: every client has a
name, and entries would pile up in objects that live long."""
ANCIENT = "ancient-changes"


@dataclass(frozen=True, slots=True)
class Manager:
    """One entry of managedFields."""

    name: str
    operation: Operation
    time: str
    owned: Fields

    def is_(self, name: str, operation: Operation) -> bool:
        return (self.name, self.operation) == (name, operation)


@dataclass(frozen=True, slots=True)
class Clash:
    """A field that somebody applies with another value than its owner gave it."""

    path: Path
    owner: Manager


class Clashes(Exception):
    def __init__(self, clashes: tuple[Clash, ...]) -> None:
        super().__init__(f"{len(clashes)} conflicts")
        self.clashes = clashes


def applied(
    live: Mapping[str, Any], managers: Iterable[Manager], wanted: Mapping[str, Any], by: str, *, time: str, force: bool
) -> tuple[dict[str, Any], tuple[Manager, ...]]:
    """The object as it is after `by` applied `wanted`, and who owns what then. Raises Clashes.

    An object that is not there yet is an empty `live` without managers.
    """
    managers = tuple(managers)
    owned = field_sets.leaves(wanted)
    before = next((manager for manager in managers if manager.is_(by, "Apply")), None)
    others = [manager for manager in managers if manager is not before]
    clashes = tuple(_clashes(live, wanted, owned, others))
    if clashes and not force:
        raise Clashes(clashes)
    taken = {(clash.owner.name, clash.owner.operation, clash.path) for clash in clashes}
    left = [
        replace(one, owned=frozenset(path for path in one.owned if (one.name, one.operation, path) not in taken))
        for one in others
    ]
    result = _merged(live, wanted)
    if before is not None:
        staying = owned.union(*(other.owned for other in left))
        holding = field_sets.Overlaps(staying).above
        gone = [path for path in before.owned if path not in staying and path not in holding]
        result = field_sets.without(result, gone, keep=staying)
    mine = Manager(by, "Apply", time, owned)
    if before is not None and before.owned == owned and field_sets.same(result, dict(live)):
        mine = before  # saying the same again changes nothing, not even the time
    return result, _tidy(_in_place(managers, [*left, mine]), result)


def updated(
    old: Mapping[str, Any], managers: Iterable[Manager], new: Mapping[str, Any], by: str, *, time: str
) -> tuple[Manager, ...]:
    """Who owns what after `by` made `new` of `old` by any other write than apply."""
    changed, gone = field_sets.differing(old, new)
    lost = field_sets.Overlaps(changed | gone)
    managers = tuple(managers)
    left = [replace(one, owned=frozenset(path for path in one.owned if path not in lost)) for one in managers]
    if changed or gone:
        held = next((one.owned for one in left if one.is_(by, "Update")), frozenset[Path]())
        left = [one for one in left if not one.is_(by, "Update")]
        left.append(Manager(by, "Update", time, held | changed))
    return _few(_tidy(_in_place(managers, left), new))


def to_wire(managers: Iterable[Manager], api_version: str, subresource: str = "") -> list[dict[str, Any]]:
    through = {"subresource": subresource} if subresource else {}
    return [
        {
            "manager": manager.name, "operation": manager.operation, "apiVersion": api_version, "time": manager.time,
            "fieldsType": "FieldsV1", "fieldsV1": field_sets.to_wire(manager.owned), **through,
        }
        for manager in managers
    ]  # fmt: skip


def from_wire(entries: Any, subresource: str = "") -> tuple[Manager, ...]:
    """Those who wrote through this subresource. Lenient: entries that say nothing we know are passed over."""
    found = []
    for entry in entries if isinstance(entries, list | tuple) else ():
        if not isinstance(entry, Mapping) or (entry.get("subresource") or "") != subresource:
            continue
        name, operation, time = entry.get("manager"), entry.get("operation"), entry.get("time")
        if isinstance(name, str) and operation in ("Apply", "Update"):
            owned = field_sets.from_wire(entry.get("fieldsV1"))
            found.append(Manager(name, operation, time if isinstance(time, str) else "", owned))
    return tuple(found)


def _clashes(
    live: Mapping[str, Any], wanted: Mapping[str, Any], owned: Fields, others: Iterable[Manager]
) -> Iterable[Clash]:
    applied_now = field_sets.Overlaps(owned)
    for other in others:
        for path in sorted(other.owned):
            if path in applied_now and not _agree(live, wanted, path, applied_now):
                yield Clash(path, other)


def _agree(live: Mapping[str, Any], wanted: Mapping[str, Any], theirs: Path, applied_now: field_sets.Overlaps) -> bool:
    """Would what is applied leave this field as it is?"""
    there = field_sets.value_at(live, theirs)
    if there is field_sets.MISSING:
        return True  # owned by name only; nothing is taken from anybody
    mine = applied_now.holder(theirs)
    if mine is None:
        return isinstance(there, Mapping)  # members are applied: they join an object, and would replace anything else
    before, after = field_sets.value_at(live, mine), field_sets.value_at(wanted, mine)
    joins = isinstance(before, Mapping) and isinstance(after, Mapping) and not after
    return joins or field_sets.same(before, after)


def _merged(live: Any, wanted: Any) -> Any:
    if not (isinstance(live, Mapping) and isinstance(wanted, Mapping)):
        return wanted
    if not wanted:
        return dict(live)  # an object without members asks that there be one
    return {**live, **{name: _merged(live.get(name), value) for name, value in wanted.items()}}


def _in_place(before: Iterable[Manager], now: Iterable[Manager]) -> list[Manager]:
    """In the order there was, new ones last: another order would be a change."""
    places = {(one.name, one.operation): place for place, one in enumerate(before)}
    return sorted(now, key=lambda one: places.get((one.name, one.operation), len(places)))


def _tidy(managers: Iterable[Manager], document: Mapping[str, Any]) -> tuple[Manager, ...]:
    """Without fields that are not there any more, and without managers who own nothing."""
    held = (
        replace(
            manager,
            owned=frozenset(
                path for path in manager.owned if field_sets.value_at(document, path) is not field_sets.MISSING
            ),
        )
        for manager in managers
    )
    return tuple(manager for manager in held if manager.owned)


def _few(managers: tuple[Manager, ...]) -> tuple[Manager, ...]:
    """With the oldest of too many updaters as one, which stands where the first of them stood."""
    updaters = [one for one in managers if one.operation == "Update"]
    excess = len(updaters) - MOST_UPDATERS
    if excess <= 0:
        return managers
    by_age = sorted(updaters, key=lambda one: (one.name != ANCIENT, one.time, one.name))
    old = by_age[: excess + 1]
    ancient = Manager(
        ANCIENT, "Update", max(one.time for one in old), frozenset[Path]().union(*(one.owned for one in old))
    )
    first = next(one for one in managers if one in old)
    return tuple(ancient if one is first else one for one in managers if one is first or one not in old)
