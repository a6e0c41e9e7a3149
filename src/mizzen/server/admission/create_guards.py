"""Guards of creations, promotions and aliases around a model: conditions that must hold at the moment of the write.

The store calls a guard within the write itself. A creation checks that the model is not being deleted, and a deletion
checks that nothing uses the model (`deletion/guards.py`): of two concurrent writes, the second sees the first.
"""

from __future__ import annotations

from mizzen.errors import AlreadyExists, Conflict, Fault, Invalid, NotFound
from mizzen.kinds import catalog
from mizzen.kinds.model import ModelStatus, ModelVersionStatus, version_object_name
from mizzen.kinds.parts.signatures import Signature, differences
from mizzen.kinds.schema.resource import Ref, Resource
from mizzen.kinds.serving import InferenceModelStatus
from mizzen.kinds.text import references
from mizzen.server.admission import model_family
from mizzen.server.admission.model_family import version_of
from mizzen.stores import name_errors
from mizzen.stores.store import Guard, Present


def require_model(model: Ref, version: str = "") -> Guard:
    """For a new version."""

    def guard(now: Present) -> None:
        found = model_family.require_first_name(now.get(model), "it has no versions of its own")
        if version in model_family.aliases_of(found):
            raise Conflict(
                f"'{version}' is an alias of {model}, so it cannot name a version too",
                hint="give the version another name, or remove the alias first",
            )

    return guard


def require_absent(ref: Ref) -> Guard:
    """For a dry run of a creation."""

    def guard(now: Present) -> None:
        there = find(now, ref)
        if there is not None:
            raise name_errors.name_taken(there)

    return guard


def guard_for(new: Resource) -> Guard | None:
    """For an object that a caller wrote in full through the resource API."""
    match new.kind:
        case "Model":
            return _guard_model(new)
        case "InferenceModel":
            return require_not_deleting(new)
        case "MLGraph":
            return _guard_graph(new)
        case "TrainingJob" | "Monitor" | "Rollout":
            return _guard_model_member(new)
    return None


def require_version(model: Ref, version: str, server: str) -> Guard:
    """For a new server with a generated name. Raises AlreadyExists if a model or a graph answers to that name: a server
    with the name of a model takes over its calls, and only a person should decide that."""

    def guard(now: Present) -> None:
        model_family.refuse_deleting(now.get(model))
        model_family.refuse_deleting(now.get(version_ref(model, version)))
        for kind in ("Model", "MLGraph"):
            _refuse_taken(now, Ref(kind, server, model.namespace))

    return guard


def require_trainable(model: Ref, version: str) -> Guard:
    """For a new job set."""

    def guard(now: Present) -> None:
        model_family.require_first_name(now.get(model), "it has no versions of its own to train")
        model_family.refuse_deleting(now.get(version_ref(model, version)))

    return guard


def require_not_deleting(server: Resource) -> Guard:
    """For a server. It may name a model or version that does not exist yet, but not one that is being deleted.

    Raises AlreadyExists for the name of a graph. It may have the name of a model: once ready, it answers to that name.
    """
    model = model_ref(server)

    def guard(now: Present) -> None:
        _refuse_taken(now, Ref("MLGraph", server.meta.name, server.meta.namespace))
        for ref in (model, version_ref(model, version_of(server))):
            _refuse_deleting(now, ref)

    return guard


def require_answering(model: Ref, version: str, *, force: bool = False) -> Guard:
    """For making a version current: it must be serving, and callers of the current one must be able to call it, unless
    `force`."""

    def guard(now: Present) -> None:
        found = model_family.require_first_name(now.get(model), "that model decides which version is current")
        now.get(version_ref(model, version))
        servers = now.list("InferenceModel", model_family.where_model(model))
        if not any(
            model_family.is_ready(server) and server.status.get("servingVersion") == version for server in servers
        ):
            raise Conflict(
                f"no server of version {version} of {model} is ready",
                hint=f"serve it first: 'mizzen serve {model.name} {version}' waits until it is ready",
            )
        if not force:
            _require_compatible(now, model, model_family.current_of(found), version)

    return guard


def _require_compatible(now: Present, model: Ref, before: str | None, version: str) -> None:
    """Raises Conflict if callers of one version could not call the other, as far as both have signatures."""
    if before is None or before == version:
        return
    faults = differences(_signature(now, model, before), _signature(now, model, version))
    if faults:
        raise Conflict(
            f"version {version} of {model} cannot replace version {before}: {'; '.join(faults)}",
            hint="callers have to change too: serve it under another name or alias, or override this with "
            '--force ("force": true over HTTP)',
        )


def _signature(now: Present, model: Ref, version: str) -> Signature | None:
    found = find(now, version_ref(model, version))
    signature = ModelVersionStatus.of(found).signature if found is not None else None
    if signature is not None:
        return signature
    # The servers report it a moment earlier.
    servers = map(InferenceModelStatus.of, now.list("InferenceModel", model_family.where_model(model)))
    return next((server.signature for server in servers if server.serving_version == version), None)


def require_aliasable(model: Ref, alias: str, version: str, *, force: bool = False) -> Guard:
    """For pointing an alias at a version. Raises Invalid if the version does not exist: the body names it.

    Raises Conflict if callers of the alias could not call that version, unless `force`.
    """

    def guard(now: Present) -> None:
        found = model_family.require_first_name(now.get(model), "it has no aliases of its own")
        target = find(now, version_ref(model, version))
        if target is None or target.deleting:
            raise Invalid.of("the alias", (Fault("version", f"{model} has no version {version}"),))
        if find(now, version_ref(model, alias)) is not None:
            taken = f"'{alias}' is a version of {model}, so it cannot name an alias too"
            raise Invalid.of("the alias", (Fault("alias", taken),))
        if not force:
            _require_compatible(now, model, ModelStatus.of(found).aliases.get(alias), version)

    return guard


def version_ref(model: Ref, version: str) -> Ref:
    return Ref("ModelVersion", version_object_name(model.name, version), model.namespace)


def model_ref(resource: Resource) -> Ref:
    return Ref("Model", str(resource.spec.get("modelName")), resource.meta.namespace)


def _guard_model(new: Resource) -> Guard:
    """For a new model: its name must not be one that a server of another model answers to. A second name must not be
    added to a model that is being deleted, nor to a second name."""

    def guard(now: Present) -> None:
        server = find(now, Ref("InferenceModel", new.meta.name, new.meta.namespace))
        if server is not None and catalog.model_of(server) != new.meta.name:
            of = catalog.model_of(server)
            raise AlreadyExists(
                f"the name '{new.meta.name}' is taken: {server.ref} of model '{of}' answers to it",
                hint="choose another name, or delete that server first",
            )
        text = model_family.first_name_of(new)
        if text is None:
            return
        reference = references.parse_unaliased(text)
        first = Ref("Model", reference.name, new.meta.namespace)
        _refuse_deleting(now, first)
        if reference.version:
            _refuse_deleting(now, version_ref(first, reference.version))

    return guard


def _guard_graph(new: Resource) -> Guard:
    def guard(now: Present) -> None:
        server = find(now, Ref("InferenceModel", new.meta.name, new.meta.namespace))
        if server is not None:
            raise Conflict(
                f"the name '{new.meta.name}' is taken: {server.ref} answers to it", hint="choose another name"
            )

    return guard


def _guard_model_member(new: Resource) -> Guard:
    """For an object that may name a model that does not exist yet, but not one that is being deleted."""
    name = catalog.model_of(new) or catalog.field(new, "spec.target.name")

    def guard(now: Present) -> None:
        if name is not None:
            _refuse_deleting(now, Ref("Model", name, new.meta.namespace))

    return guard


def _refuse_taken(now: Present, owner: Ref) -> None:
    """For a server that would answer to the name of this object."""
    if find(now, owner) is not None:
        raise AlreadyExists(
            f"the name '{owner.name}' is taken: {owner} answers to it", hint="give the server another name"
        )


def _refuse_deleting(now: Present, ref: Ref) -> None:
    found = find(now, ref)
    if found is not None:
        model_family.refuse_deleting(found)


def find(now: Present, ref: Ref) -> Resource | None:
    try:
        return now.get(ref)
    except NotFound:
        return None
