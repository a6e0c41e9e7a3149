"""Guards of updates: conditions on other objects that must hold at the moment of the write. See `create_guards`."""

from __future__ import annotations

from mizzen.errors import Conflict, Fault, Invalid
from mizzen.kinds.schema.resource import Ref, Resource
from mizzen.kinds.text import references
from mizzen.server.admission import create_guards, model_family
from mizzen.server.admission.decode import is_same
from mizzen.stores.store import Guard, Present


def guard_for(old: Resource, new: Resource) -> Guard | None:
    """Returns None if the change does not affect other objects."""
    if is_same(old.spec, new.spec):
        return None
    return lambda now: _check(now, old, new)


def _check(now: Present, old: Resource, new: Resource) -> None:
    model_family.refuse_deleting(now.get(new.ref))
    if new.kind == "Model":
        _check_aliases(now, old, new)
        _check_second_name(now, old, new)
        return
    added = create_guards.guard_for(new)
    if added is not None and new.kind != "InferenceModel":  # its model is immutable, and it already has its name
        added(now)


def _check_aliases(now: Present, old: Resource, new: Resource) -> None:
    before = model_family.aliases_of(old)
    faults = tuple(
        Fault(f"spec.aliases.{alias}", f"'{alias}' is a version of {new.ref}, so it cannot name an alias too")
        for alias in model_family.aliases_of(new)
        if alias not in before and create_guards.find(now, create_guards.version_ref(new.ref, alias)) is not None
    )
    if faults:
        raise Invalid.of(str(new.ref), faults)


def _check_second_name(now: Present, old: Resource, new: Resource) -> None:
    """For a model that becomes a second name, also of another model: it must own nothing, and aliases never chain."""
    text = model_family.first_name_of(new)
    if text is None or text == model_family.first_name_of(old):
        return
    members = model_family.gather(now, new.ref)
    if members.versions or members.servers:
        raise Conflict(
            f"{new.ref} has versions or servers of its own, so it cannot become a second name of '{text}'",
            hint="make another model with spec.aliasOf, or delete its versions first",
        )
    if members.second_names:
        names = ", ".join(str(item.ref) for item in members.second_names)
        raise Conflict(
            f"{names} is already a second name of {new.ref}; aliases never chain", hint=f"point it at '{text}' first"
        )
    target = create_guards.find(now, Ref("Model", references.parse_unaliased(text).name, new.meta.namespace))
    if target is not None:
        model_family.require_first_name(target, "aliases never chain")
