"""Field ownership: `metadata.managedFields`, and server-side apply by several managers of one object.

A manager that applies a document owns its fields. A field that another manager owns with another value is a conflict,
unless the apply is forced; with the same value, both own it. A field that a manager applied before and now leaves out
is removed, unless another manager owns it, too. All other writes make their writer the owner of the changed fields; of
those writers, only the most recent are kept apart.

Documents contain only what can be owned: callers leave out the identity of an object and server-set fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from mizzen.patches import field_sets
from mizzen.patches.field_sets import Fields, Path

Operation = Literal["Apply", "Update"]

MOST_UPDATERS = 10
"""Managers that wrote by other means than apply. The oldest beyond that are merged into one, as in Kubernetes:
otherwise entries would pile up in long-lived objects, since every client has its own name."""
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
class FieldConflict:
    """A field that is applied with another value than that of its owner."""

    path: Path
    owner: Manager


class FieldConflicts(Exception):
    def __init__(self, clashes: tuple[FieldConflict, ...]) -> None:
        super().__init__(f"{len(clashes)} conflicts")
        self.clashes = clashes


def apply(
    live: Mapping[str, Any], managers: Iterable[Manager], wanted: Mapping[str, Any], by: str, *, time: str, force: bool
) -> tuple[dict[str, Any], tuple[Manager, ...]]:
    """The object after `by` applied `wanted`, and its managers. Raises Clashes.

    For an object that does not exist yet, `live` is empty and there are no managers.
    """
    managers = tuple(managers)
    owned = field_sets.leaves(wanted)
    before = next((manager for manager in managers if manager.is_(by, "Apply")), None)
    others = [manager for manager in managers if manager is not before]
    clashes = tuple(_clashes(live, wanted, owned, others))
    if clashes and not force:
        raise FieldConflicts(clashes)
    taken = {(clash.owner.name, clash.owner.operation, clash.path) for clash in clashes}
    left = [
        replace(one, owned=frozenset(path for path in one.owned if (one.name, one.operation, path) not in taken))
        for one in others
    ]
    result = _merge(live, wanted)
    if before is not None:
        staying = owned.union(*(other.owned for other in left))
        holding = field_sets.PathOverlaps(staying).above
        gone = [path for path in before.owned if path not in staying and path not in holding]
        result = field_sets.without(result, gone, keep=staying)
    mine = Manager(by, "Apply", time, owned)
    if before is not None and before.owned == owned and field_sets.same(result, dict(live)):
        mine = before  # applying the same again changes nothing, not even the time
    return result, _tidy(_in_place(managers, [*left, mine]), result)


def update(
    old: Mapping[str, Any], managers: Iterable[Manager], new: Mapping[str, Any], by: str, *, time: str
) -> tuple[Manager, ...]:
    """The managers after `by` changed `old` to `new` by any write other than apply."""
    changed, gone = field_sets.diff(old, new)
    lost = field_sets.PathOverlaps(changed | gone)
    managers = tuple(managers)
    left = [replace(one, owned=frozenset(path for path in one.owned if path not in lost)) for one in managers]
    if changed or gone:
        held = next((one.owned for one in left if one.is_(by, "Update")), frozenset[Path]())
        left = [one for one in left if not one.is_(by, "Update")]
        left.append(Manager(by, "Update", time, held | changed))
    return _merge_oldest(_tidy(_in_place(managers, left), new))


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
    """The managers that wrote through this subresource. Lenient: unknown entries are skipped."""
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
) -> Iterable[FieldConflict]:
    applied_now = field_sets.PathOverlaps(owned)
    for other in others:
        for path in sorted(other.owned):
            if path in applied_now and not _agree(live, wanted, path, applied_now):
                yield FieldConflict(path, other)


def _agree(
    live: Mapping[str, Any], wanted: Mapping[str, Any], theirs: Path, applied_now: field_sets.PathOverlaps
) -> bool:
    """Whether applying `wanted` would leave this field unchanged."""
    there = field_sets.value_at(live, theirs)
    if there is field_sets.MISSING:
        return True  # owned by name only; no manager loses a value
    mine = applied_now.holder(theirs)
    if mine is None:
        return isinstance(there, Mapping)  # applied members join an object, but would replace any other value
    before, after = field_sets.value_at(live, mine), field_sets.value_at(wanted, mine)
    joins = isinstance(before, Mapping) and isinstance(after, Mapping) and not after
    return joins or field_sets.same(before, after)


def _merge(live: Any, wanted: Any) -> Any:
    if not (isinstance(live, Mapping) and isinstance(wanted, Mapping)):
        return wanted
    if not wanted:
        return dict(live)  # an empty object only requires that an object exists
    return {**live, **{name: _merge(live.get(name), value) for name, value in wanted.items()}}


def _in_place(before: Iterable[Manager], now: Iterable[Manager]) -> list[Manager]:
    """In their previous order, new ones last, since another order would count as a change."""
    places = {(one.name, one.operation): place for place, one in enumerate(before)}
    return sorted(now, key=lambda one: places.get((one.name, one.operation), len(places)))


def _tidy(managers: Iterable[Manager], document: Mapping[str, Any]) -> tuple[Manager, ...]:
    """The managers without fields that no longer exist, and without those that own nothing."""
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


def _merge_oldest(managers: tuple[Manager, ...]) -> tuple[Manager, ...]:
    """The managers with excess updaters merged: the oldest become one, in the place of the first of them."""
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
