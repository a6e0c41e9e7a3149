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


def admits(new: Resource) -> Guard | None:
    """For what somebody wrote out in full."""
    match new.kind:
        case "Model":
            return name_free(new.ref)
        case "InferenceModel":
            return not_going(new)
    return None


def name_free(model: Ref) -> Guard:
    """For a new model. Calls go by names, so no model may have the name of a server. Conflict, and not AlreadyExists:
    whoever makes a model only when it is absent must not take this for the model they want."""

    def guard(now: Present) -> None:
        server = _find(now, Ref("InferenceModel", model.name, model.namespace))
        if server is not None:
            what = f"version {version_of(server)} of {_model_of(server)}"
            raise Conflict(
                f"the name '{model.name}' is taken: {server.ref} serves {what} by it",
                hint="give the model another name",
            )

    return guard


def version_stands(model: Ref, version: str, server: str) -> Guard:
    """For a new server of that name. AlreadyExists when the name is a model's: another one may be free."""

    def guard(now: Present) -> None:
        family.refuse_deleting(now.get(model))
        family.refuse_deleting(now.get(_version(model, version)))
        _refuse_model_name(now, server, model.namespace)

    return guard


def not_going(server: Resource) -> Guard:
    """For a server that may name what is yet to come, but not what is being deleted. AlreadyExists as above."""
    model = _model_of(server)

    def guard(now: Present) -> None:
        _refuse_model_name(now, server.meta.name, server.meta.namespace)
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
            hint=f"serve it first: 'mizzen serve {model.name} {version}' waits until it is ready",
        )

    return guard


def unserved(model: Ref) -> Guard:
    """For deleting a model."""

    def guard(now: Present) -> None:
        _refuse_in_use(model, _servers(now, model), "--cascade, over HTTP ?cascade=true, ends these servers first")

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


def _refuse_model_name(now: Present, server: str, namespace: str) -> None:
    """A server by a model's name would take over that model's calls."""
    model = _find(now, Ref("Model", server, namespace))
    if model is not None:
        raise AlreadyExists(
            f"the name '{server}' is taken: {model.ref} answers to it", hint="give the server another name"
        )


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
