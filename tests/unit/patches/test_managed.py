"""Apply against a slow reference that works with tables of leaves, and the cases people know."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mizzen.patches import field_sets, managed_fields
from mizzen.patches.managed_fields import FieldConflicts, Manager
from tests.support.examples import examples
from tests.unit.patches.documents import OBJECTS

Path = tuple[str, ...]
Table = dict[Path, Any]


def table(document: Any, at: Path = ()) -> Table:
    if isinstance(document, dict) and document:
        return {path: value for name, inner in document.items() for path, value in table(inner, (*at, name)).items()}
    return {at: document} if at else {}


def tree(leaves: Table) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for path, value in leaves.items():
        here = result
        for name in path[:-1]:
            here = here.setdefault(name, {})
        here[path[-1]] = copy.deepcopy(value)
    return result


def within(path: Path, other: Path) -> bool:
    return path[: len(other)] == other


def assigned(leaves: Table, path: Path, value: Any) -> Table:
    """One leaf written into a table, as a map that is merged."""
    inside = any(within(one, path) and one != path for one in leaves)
    if value == {} and (inside or leaves.get(path) == {}):
        return leaves
    kept = {
        one: old
        for one, old in leaves.items()
        if not within(one, path) and not (within(path, one) and not (old == {} and len(one) < len(path)))
    }
    kept = {one: old for one, old in kept.items() if not (old == {} and within(path, one))}
    return {**kept, path: value}


class Reference:
    """Live leaves, and who owns which paths."""

    def __init__(self) -> None:
        self.live: Table = {}
        self.owners: dict[tuple[str, str], set[Path]] = {}

    def value(self, leaves: Table, path: Path) -> Any:
        inside = {one[len(path) :]: value for one, value in leaves.items() if within(one, path)}
        if not inside:
            return field_sets.MISSING
        return inside[()] if () in inside else tree(inside)

    def apply(self, wanted: Table, by: str, *, force: bool) -> bool:
        """False: a conflict, and nothing is changed."""
        me = (by, "Apply")
        after = self.live
        for path, value in wanted.items():
            after = assigned(after, path, value)
        clashing = {
            (owner, path)
            for owner, paths in self.owners.items()
            if owner != me
            for path in paths
            if any(within(path, one) or within(one, path) for one in wanted) and self.hurt(path, after)
        }
        if clashing and not force:
            return False
        for owner, path in clashing:
            self.owners[owner].discard(path)
        staying = {*wanted, *(path for owner, paths in self.owners.items() if owner != me for path in paths)}
        for path in self.owners.get(me, set()) - set(wanted):
            if any(within(one, path) for one in staying):
                continue
            after = {one: value for one, value in after.items() if one != path}
            # An object that somebody owns stays when its last member goes.
            after |= {
                one: {}
                for one in staying
                if within(path, one)
                and self.value(after, one) is field_sets.MISSING
                and isinstance(self.value(self.live, one), dict)
            }
        self.live = after
        self.owners[me] = set(wanted)
        self.tidy()
        return True

    def hurt(self, path: Path, after: Table) -> bool:
        there, then = self.value(self.live, path), self.value(after, path)
        if there is field_sets.MISSING:
            return False
        if isinstance(there, dict) and isinstance(then, dict):
            return False  # owning an object without members is owning that there is one
        return then is field_sets.MISSING or not field_sets.same(there, then)

    def update(self, new: Table, by: str) -> None:
        changed = {
            path for path, value in new.items() if path not in self.live or not field_sets.same(self.live[path], value)
        }
        gone = set(self.live) - set(new)
        for paths in self.owners.values():
            paths -= {path for path in paths for one in changed | gone if within(path, one) or within(one, path)}
        self.owners.setdefault((by, "Update"), set()).update(changed)
        self.live = new
        self.tidy()

    def tidy(self) -> None:
        for paths in self.owners.values():
            paths -= {path for path in paths if self.value(self.live, path) is field_sets.MISSING}
        self.owners = {owner: paths for owner, paths in self.owners.items() if paths}


WRITES = st.lists(
    st.tuples(st.sampled_from(["apply", "force", "update"]), st.sampled_from(["ann", "bob"]), OBJECTS),
    min_size=1,
    max_size=6,
)


@settings(max_examples=examples(500))
@given(WRITES)
def test_a_history_of_writes_agrees_with_the_reference(writes: list[tuple[str, str, dict[str, Any]]]) -> None:
    reference = Reference()
    live: dict[str, Any] = {}
    managers: tuple[Manager, ...] = ()
    for number, (how, by, document) in enumerate(writes):
        if how == "update":
            managers = managed_fields.update(live, managers, document, by, time=str(number))
            live = document
            reference.update(table(document), by)
        else:
            before = copy.deepcopy(live)
            try:
                live, managers = managed_fields.apply(
                    live, managers, document, by, time=str(number), force=how == "force"
                )
            except FieldConflicts:
                assert how == "apply"
                assert not reference.apply(table(document), by, force=False)
                assert live == before
                continue
            assert reference.apply(table(document), by, force=how == "force")
        assert table(live) == reference.live
        owners = {(manager.name, manager.operation): set(manager.owned) for manager in managers}
        assert owners == reference.owners
        assert managed_fields.from_wire(managed_fields.to_wire(managers, "v1")) == managers


@given(WRITES, OBJECTS)
def test_applying_the_same_again_changes_nothing(writes: list[tuple[str, str, dict[str, Any]]], document: Any) -> None:
    live: dict[str, Any] = {}
    managers: tuple[Manager, ...] = ()
    for _, by, wanted in writes:
        live, managers = managed_fields.apply(live, managers, wanted, by, time="1", force=True)
    once = managed_fields.apply(live, managers, document, "ann", time="2", force=True)
    assert managed_fields.apply(*once, document, "ann", time="3", force=False) == once


def test_a_conflict_names_the_field_and_its_owner() -> None:
    live, managers = managed_fields.apply({}, (), {"spec": {"replicas": 1, "env": [1]}}, "ann", time="1", force=False)
    with pytest.raises(FieldConflicts) as caught:
        managed_fields.apply(live, managers, {"spec": {"replicas": 2, "env": [1]}}, "bob", time="2", force=False)
    [clash] = caught.value.clashes
    assert (clash.path, clash.owner.name) == (("spec", "replicas"), "ann")


def test_force_takes_a_field_and_what_its_owner_leaves_out_then_stays() -> None:
    live, managers = managed_fields.apply({}, (), {"spec": {"replicas": 1, "x": 1}}, "ann", time="1", force=False)
    live, managers = managed_fields.apply(live, managers, {"spec": {"replicas": 2}}, "bob", time="2", force=True)
    live, managers = managed_fields.apply(live, managers, {"spec": {"y": 1}}, "ann", time="3", force=False)
    assert live == {"spec": {"replicas": 2, "y": 1}}


def test_the_wire_form_is_that_of_kubernetes() -> None:
    _, managers = managed_fields.apply(
        {}, (), {"metadata": {"labels": {"a": "b"}}, "spec": {"dag": {}, "n": [1]}}, "ann", time="2026-01-01T00:00:00Z",
        force=False,
    )  # fmt: skip
    assert managed_fields.to_wire(managers, "mizzen.dev/v1alpha1") == [
        {
            "manager": "ann", "operation": "Apply", "apiVersion": "mizzen.dev/v1alpha1",
            "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": {"f:labels": {"f:a": {}}}, "f:spec": {"f:dag": {}, "f:n": {}}},
        }
    ]  # fmt: skip


@pytest.mark.parametrize(
    "entries", [None, 1, [1], [{}], [{"manager": 1, "operation": "Apply"}], [{"manager": "a", "operation": "Read"}]]
)
def test_entries_that_make_no_sense_are_passed_over(entries: Any) -> None:
    assert managed_fields.from_wire(entries) == ()


def test_keys_and_values_of_lists_stand_for_their_list() -> None:
    theirs = {"f:spec": {"f:env": {'k:{"name":"a"}': {"f:value": {}}}, "f:set": {'v:"x"': {}}}}
    assert field_sets.from_wire(theirs) == {("spec", "env"), ("spec", "set")}


def test_of_many_updaters_the_oldest_become_one() -> None:
    live: dict[str, Any] = {}
    live, managers = managed_fields.apply(live, (), {"applied": 1}, "ann", time="00", force=False)
    for number in range(1, 14):
        before, live = live, {**live, f"f{number:02}": 1}
        managers = managed_fields.update(before, managers, live, f"tool-{number:02}", time=f"{number:02}")
    held = {(one.name, str(one.operation)): (one.time, {*one.owned}) for one in managers}
    assert held.pop(("ann", "Apply")) == ("00", {("applied",)}), "who applies is told apart always"
    assert held.pop(("ancient-changes", "Update")) == ("04", {(f"f{number:02}",) for number in range(1, 5)})
    assert held == {(f"tool-{number:02}", "Update"): (f"{number:02}", {(f"f{number:02}",)}) for number in range(5, 14)}
    with pytest.raises(FieldConflicts):
        managed_fields.apply(live, managers, {"f01": 2}, "ann", time="20", force=False)


def test_who_wrote_through_a_subresource_is_read_apart() -> None:
    manager = Manager("ann", "Update", "1", frozenset({("status", "current")}))
    entries = managed_fields.to_wire([manager], "v1", "status")
    assert entries[0]["subresource"] == "status"
    assert (managed_fields.from_wire(entries), managed_fields.from_wire(entries, "status")) == ((), (manager,))
