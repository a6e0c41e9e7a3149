"""What must hold of a model's family at the very moment of a write, so that two callers never both succeed by halves.

The store asks a guard within the write itself. Whoever adds to a model looks for its deletion, and whoever deletes
looks for what was added: of two at once, the second sees the first.
"""

from __future__ import annotations

from mizzen.errors import AlreadyExists, Conflict, Fault, NotFound
from mizzen.kinds.meta import Ref, Resource
from mizzen.kinds.model import version_object_name
from mizzen.server import family
from mizzen.server.family import version_of
from mizzen.stores.store import Guard, Present, Where


def model_stands(model: Ref) -> Guard:
    """For a new version."""
    return lambda now: family.refuse_deleting(now.get(model))


def version_stands(model: Ref, version: str, server: str) -> Guard:
    """For a new server of that name. AlreadyExists when the name is a model's: it would take over that one's calls."""

    def guard(now: Present) -> None:
        family.refuse_deleting(now.get(model))
        family.refuse_deleting(now.get(_version(model, version)))
        if _find(now, Ref("Model", server, model.namespace)) is not None:
            raise AlreadyExists(f"Model/{server} already exists")

    return guard


def not_going(server: Resource) -> Guard:
    """For a server that may name what is yet to come, but not what is being deleted."""
    model = _model_of(server)

    def guard(now: Present) -> None:
        for ref in (model, _version(model, version_of(server))):
            found = _find(now, ref)
            if found is not None:
                family.refuse_deleting(found)

    return guard


def answers(model: Ref, version: str) -> Guard:
    """For making a version current."""

    def guard(now: Present) -> None:
        family.refuse_deleting(now.get(model))
        now.get(_version(model, version))
        servers = _servers(now, model)
        if any(family.ready(server) and server.status.get("servingVersion") == version for server in servers):
            return
        raise Conflict(
            f"no server of version {version} of {model} is ready",
            hint=f"POST /model/{model.name}/serve/{version}, and wait until it is ready",
        )

    return guard


def unserved(model: Ref) -> Guard:
    """For deleting a model."""

    def guard(now: Present) -> None:
        _refuse_in_use(model, _servers(now, model), "add ?cascade=true to end the servers first")

    return guard


def unneeded(version: Resource) -> Guard:
    """For deleting a version."""
    ref, number = _model_of(version), version_of(version)

    def guard(now: Present) -> None:
        model = _find(now, ref)
        if model is None:
            return
        if (model.status.get("current") or {}).get("version") == number:
            raise Conflict(f"{version.ref} is the current version of {ref}", hint="make another version current first")
        servers = tuple(server for server in _servers(now, ref) if family.serves(server, number))
        _refuse_in_use(version.ref, servers, "end these servers first")

    return guard


def _refuse_in_use(ref: Ref, servers: tuple[Resource, ...], hint: str) -> None:
    if servers:
        faults = tuple(Fault(str(server.ref), f"serves version {version_of(server)}") for server in servers)
        raise Conflict(f"{ref} is in use: " + "; ".join(map(str, faults)), hint=hint, faults=faults)


def _servers(now: Present, model: Ref) -> tuple[Resource, ...]:
    return family.belonging(now.list("InferenceModel", Where(namespace=model.namespace)), model)


def _find(now: Present, ref: Ref) -> Resource | None:
    try:
        return now.get(ref)
    except NotFound:
        return None


def _model_of(resource: Resource) -> Ref:
    return Ref("Model", str(resource.spec.get("modelName")), resource.meta.namespace)


def _version(model: Ref, version: str) -> Ref:
    return Ref("ModelVersion", version_object_name(model.name, version), model.namespace)
