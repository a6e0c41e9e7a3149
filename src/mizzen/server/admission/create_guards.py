"""What must hold of a model's family at the very moment of a write, so that two callers never both succeed by halves.

The store asks a guard within the write itself. Whoever adds to a model looks for its deletion, and whoever deletes
looks for what was added: of two at once, the second sees the first.
"""

from __future__ import annotations

from collections.abc import Iterable

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


def model_stands(model: Ref, version: str = "") -> Guard:
    """For a new version."""

    def guard(now: Present) -> None:
        found = now.get(model)
        model_family.refuse_deleting(found)
        model_family.refuse_second_name(found, "it has no versions of its own")
        if version in model_family.aliases_of(found):
            raise Conflict(
                f"'{version}' is an alias of {model}: a version of that name could not be told from it",
                hint="give the version another name, or remove the alias first",
            )

    return guard


def absent(ref: Ref) -> Guard:
    """For a creation that is only tried."""

    def guard(now: Present) -> None:
        there = find(now, ref)
        if there is not None:
            raise name_errors.taken(there)

    return guard


def admits(new: Resource) -> Guard | None:
    """For what somebody wrote out in full."""
    match new.kind:
        case "Model":
            return _new_model(new)
        case "InferenceModel":
            return not_going(new)
        case "MLGraph":
            return _new_graph(new)
        case "TrainingJob" | "Monitor" | "Rollout":
            return _added(new)
    return None


def version_stands(model: Ref, version: str, server: str) -> Guard:
    """For a new server, whose name nobody chose. AlreadyExists when a model or a graph answers to it: a server may have
    the name of a model, but then takes over its calls, and only people should decide that."""

    def guard(now: Present) -> None:
        model_family.refuse_deleting(now.get(model))
        model_family.refuse_deleting(now.get(version_ref(model, version)))
        for kind in ("Model", "MLGraph"):
            _refuse_taken(now, Ref(kind, server, model.namespace))

    return guard


def may_be_trained(model: Ref, version: str) -> Guard:
    """For a new job set."""

    def guard(now: Present) -> None:
        found = now.get(model)
        model_family.refuse_deleting(found)
        model_family.refuse_second_name(found, "it has no versions of its own to train")
        model_family.refuse_deleting(now.get(version_ref(model, version)))

    return guard


def not_going(server: Resource) -> Guard:
    """For a server that may name what is yet to come, but not what is being deleted; AlreadyExists for the name of a
    graph. It may have the name of a model: once it is ready, it answers to it."""
    model = _model_of(server)

    def guard(now: Present) -> None:
        _refuse_taken(now, Ref("MLGraph", server.meta.name, server.meta.namespace))
        for ref in (model, version_ref(model, version_of(server))):
            _refuse_going(now, ref)

    return guard


def answers(model: Ref, version: str, *, force: bool = False) -> Guard:
    """For making a version current: it answers, and those who call the one before can call it, unless `force`."""

    def guard(now: Present) -> None:
        found = now.get(model)
        model_family.refuse_deleting(found)
        model_family.refuse_second_name(found, "what is current is that one's to say")
        now.get(version_ref(model, version))
        servers = now.list("InferenceModel", model_family.of_model(model))
        if not any(model_family.ready(server) and server.status.get("servingVersion") == version for server in servers):
            raise Conflict(
                f"no server of version {version} of {model} is ready",
                hint=f"serve it first: 'mizzen serve {model.name} {version}' waits until it is ready",
            )
        if not force:
            _fits(now, model, model_family.current_of(found), version)

    return guard


def _fits(now: Present, model: Ref, before: str | None, version: str) -> None:
    """Conflict when callers of one version could not call the other, as far as both told what they take and give."""
    if before is None or before == version:
        return
    faults = differences(_signature(now, model, before), _signature(now, model, version))
    if faults:
        raise Conflict(
            f"version {version} of {model} cannot stand in for version {before}: {'; '.join(faults)}",
            hint="callers have to change with it: serve it under another name or alias, or say so with "
            '--force ("force": true over HTTP)',
        )


def _signature(now: Present, model: Ref, version: str) -> Signature | None:
    found = find(now, version_ref(model, version))
    told = ModelVersionStatus.of(found).signature if found is not None else None
    if told is not None:
        return told
    # Its servers know it a moment earlier.
    servers = map(InferenceModelStatus.of, now.list("InferenceModel", model_family.of_model(model)))
    return next((server.signature for server in servers if server.serving_version == version), None)


def may_be_aliased(model: Ref, alias: str, version: str, *, force: bool = False) -> Guard:
    """For pointing an alias at a version. Invalid when there is no such version: it is part of what was sent.

    Conflict when callers of the alias could not call that version, unless `force`.
    """

    def guard(now: Present) -> None:
        found = now.get(model)
        model_family.refuse_deleting(found)
        model_family.refuse_second_name(found, "it has no aliases of its own")
        target = find(now, version_ref(model, version))
        if target is None or target.deleting:
            raise Invalid.of("the alias", (Fault("version", f"{model} has no version {version}"),))
        if find(now, version_ref(model, alias)) is not None:
            taken = f"'{alias}' is a version of {model}: an alias of that name could not be told from it"
            raise Invalid.of("the alias", (Fault("alias", taken),))
        if not force:
            _fits(now, model, ModelStatus.of(found).aliases.get(alias), version)

    return guard


def free_to_go(model: Ref) -> Guard:
    """For deleting a model."""

    def guard(now: Present) -> None:
        members = model_family.around(now, model)
        faults = [*_in_the_way(members), *_second_names(members.second_names)]
        hint = "a cascade ends these first: --cascade, cascade=True in Python, ?cascade=true over HTTP"
        if members.second_names:
            hint = "delete the second names first, or point them elsewhere; a cascade leaves them alone"
        _refuse_in_use(model, faults, hint)

    return guard


def without_second_names(model: Ref) -> Guard:
    """For deleting a model with all that is its own. A name under which somebody else calls it is not."""

    def guard(now: Present) -> None:
        faults = [*_second_names(model_family.second_names(now, model))]
        _refuse_in_use(model, faults, "delete these names first, or point them elsewhere; a cascade leaves them alone")

    return guard


def unneeded(version: Resource) -> Guard:
    """For deleting a version."""
    ref, number = _model_of(version), version_of(version)

    def guard(now: Present) -> None:
        model = find(now, ref)
        if model is None:
            return
        current = model_family.current_of(model) == number
        hint = "make another version current, and end or change the rest" if current else "end or change these first"
        _refuse_in_use(version.ref, [*_needing(now, model, number)], hint)

    return guard


def version_ref(model: Ref, version: str) -> Ref:
    return Ref("ModelVersion", version_object_name(model.name, version), model.namespace)


def _new_model(new: Resource) -> Guard:
    """A second name must not be added to what is going, nor to a second name. And whoever calls a model means that one:
    its name must not be one that a server of another model answers to."""

    def guard(now: Present) -> None:
        server = find(now, Ref("InferenceModel", new.meta.name, new.meta.namespace))
        if server is not None and catalog.model_of(server) != new.meta.name:
            of = catalog.model_of(server)
            raise AlreadyExists(
                f"the name '{new.meta.name}' is taken: {server.ref} of model '{of}' answers to it",
                hint="take another name, or delete that server first",
            )
        text = model_family.is_second_name(new)
        if text is None:
            return
        reference = references.parse_unaliased(text)
        first = Ref("Model", reference.name, new.meta.namespace)
        _refuse_going(now, first)
        if reference.version:
            _refuse_going(now, version_ref(first, reference.version))

    return guard


def _new_graph(new: Resource) -> Guard:
    def guard(now: Present) -> None:
        server = find(now, Ref("InferenceModel", new.meta.name, new.meta.namespace))
        if server is not None:
            raise Conflict(f"the name '{new.meta.name}' is taken: {server.ref} answers to it", hint="take another name")

    return guard


def _added(new: Resource) -> Guard:
    """For what may name a model that is yet to come, but none that is being deleted."""
    name = catalog.model_of(new) or catalog.field(new, "spec.target.name")

    def guard(now: Present) -> None:
        if name is not None:
            _refuse_going(now, Ref("Model", name, new.meta.namespace))

    return guard


def _in_the_way(members: model_family.Family) -> Iterable[Fault]:
    yield from (Fault(str(item.ref), f"serves version {version_of(item)}") for item in members.servers)
    yield from (_trains(item) for item in members.jobs if not model_family.ended(item))
    yield from (Fault(str(item.ref), "monitors it") for item in members.monitors)
    yield from (Fault(str(item.ref), "rolls it out") for item in members.rollouts)


def _needing(now: Present, model: Resource, number: str) -> Iterable[Fault]:
    """What a version cannot go before."""
    if model_family.current_of(model) == number:
        yield Fault(str(model.ref), f"version {number} is its current one")
    here = model_family.of_model(model.ref)
    for server in now.list("InferenceModel", here):
        if model_family.serves(server, number):
            yield Fault(str(server.ref), f"serves version {version_of(server)}")
    for job in now.list("TrainingJob", here):
        if version_of(job) == number and not model_family.ended(job):
            yield _trains(job)
    yield from (Fault(str(item.ref), "rolls it out") for item in model_family.rollouts(now, model.ref))
    wanted, answering = model_family.aliases_of(model), model_family.answering_aliases(model)
    for alias in sorted({*wanted, *answering}):
        if number in (wanted.get(alias), answering.get(alias)):
            yield Fault(f"{model.ref}@{alias}", f"alias '{alias}' names version {number}")
    names = model_family.second_names(now, model.ref)
    yield from _second_names(item for item in names if model_family.first_version(item) == number)


def _trains(job: Resource) -> Fault:
    return Fault(str(job.ref), f"trains version {version_of(job)}")


def _second_names(models: Iterable[Resource]) -> Iterable[Fault]:
    return (Fault(str(item.ref), f"is a second name of '{model_family.is_second_name(item)}'") for item in models)


def _refuse_taken(now: Present, owner: Ref) -> None:
    """For a server that would answer to the name of this one."""
    if find(now, owner) is not None:
        raise AlreadyExists(
            f"the name '{owner.name}' is taken: {owner} answers to it", hint="give the server another name"
        )


def _refuse_going(now: Present, ref: Ref) -> None:
    found = find(now, ref)
    if found is not None:
        model_family.refuse_deleting(found)


def _refuse_in_use(ref: Ref, faults: Iterable[Fault], hint: str) -> None:
    faults = tuple(faults)
    if faults:
        raise Conflict(f"{ref} is in use: " + "; ".join(map(str, faults)), hint=hint, faults=faults)


def find(now: Present, ref: Ref) -> Resource | None:
    try:
        return now.get(ref)
    except NotFound:
        return None


def _model_of(resource: Resource) -> Ref:
    return Ref("Model", str(resource.spec.get("modelName")), resource.meta.namespace)
