"""Refusal to delete what is in use: guards of deletions, which the store calls within the write itself.

A model or a version in use is served, trained, monitored or rolled out, has an alias or a second name, or is current.
The guards of creations, in `admission/create_guards.py`, refuse additions to a model that is being deleted.
"""

from __future__ import annotations

from collections.abc import Iterable

from mizzen.errors import Conflict, Fault
from mizzen.kinds.schema.resource import Ref, Resource
from mizzen.server.admission import model_family
from mizzen.server.admission.create_guards import find, model_ref
from mizzen.server.admission.model_family import version_of
from mizzen.stores.store import Guard, Present


def require_removable(model: Ref) -> Guard:
    """For deleting a model."""

    def guard(now: Present) -> None:
        members = model_family.gather_related(now, model)
        faults = [*_blocking_faults(members), *_second_name_faults(members.second_names)]
        hint = "a cascade removes these first: --cascade, cascade=True in Python, ?cascade=true over HTTP"
        if members.second_names:
            hint = "delete the second names first, or point them elsewhere; a cascade keeps them"
        _refuse_in_use(model, faults, hint)

    return guard


def require_no_second_names(model: Ref) -> Guard:
    """For deleting a model with everything that it owns. It does not own its second names."""

    def guard(now: Present) -> None:
        faults = [*_second_name_faults(model_family.list_second_names(now, model))]
        _refuse_in_use(model, faults, "delete these names first, or point them elsewhere; a cascade keeps them")

    return guard


def require_unused_version(version: Resource) -> Guard:
    """For deleting a version."""
    ref, number = model_ref(version), version_of(version)

    def guard(now: Present) -> None:
        model = find(now, ref)
        if model is None:
            return
        current = model_family.current_of(model) == number
        hint = (
            "make another version current, and delete or change the rest" if current else "delete or change these first"
        )
        _refuse_in_use(version.ref, [*_version_users(now, model, number)], hint)

    return guard


def _blocking_faults(members: model_family.ModelObjects) -> Iterable[Fault]:
    yield from (Fault(str(item.ref), f"serves version {version_of(item)}") for item in members.servers)
    yield from (_training_fault(item) for item in members.jobs if not model_family.has_ended(item))
    yield from (Fault(str(item.ref), "monitors it") for item in members.monitors)
    yield from (Fault(str(item.ref), "rolls it out") for item in members.rollouts)


def _version_users(now: Present, model: Resource, number: str) -> Iterable[Fault]:
    """Yields a fault for each object that must be changed or removed before the version can be."""
    if model_family.current_of(model) == number:
        yield Fault(str(model.ref), f"version {number} is its current version")
    here = model_family.where_model(model.ref)
    for server in now.list("InferenceModel", here):
        if model_family.serves(server, number):
            yield Fault(str(server.ref), f"serves version {version_of(server)}")
    for job in now.list("TrainingJob", here):
        if version_of(job) == number and not model_family.has_ended(job):
            yield _training_fault(job)
    yield from (Fault(str(item.ref), "rolls it out") for item in model_family.list_rollouts(now, model.ref))
    wanted, answering = model_family.aliases_of(model), model_family.serving_aliases_of(model)
    for alias in sorted({*wanted, *answering}):
        if number in (wanted.get(alias), answering.get(alias)):
            yield Fault(f"{model.ref}@{alias}", f"alias '{alias}' names version {number}")
    names = model_family.list_second_names(now, model.ref)
    yield from _second_name_faults(item for item in names if model_family.first_version_of(item) == number)


def _training_fault(job: Resource) -> Fault:
    return Fault(str(job.ref), f"trains version {version_of(job)}")


def _second_name_faults(models: Iterable[Resource]) -> Iterable[Fault]:
    return (Fault(str(item.ref), f"is a second name of '{model_family.first_name_of(item)}'") for item in models)


def _refuse_in_use(ref: Ref, faults: Iterable[Fault], hint: str) -> None:
    faults = tuple(faults)
    if faults:
        raise Conflict(f"{ref} is in use: " + "; ".join(map(str, faults)), hint=hint, faults=faults)
