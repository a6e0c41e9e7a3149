"""Model: which version is current when nobody chose one, or when the model tracks the latest; and what answers for its
aliases and, if it is a second name of another model, to that name.

Current moves forward only. A version that stops answering stays current: taking it back is a person's decision. An
alias moves to what its author wants as soon as that answers, and until then stays where it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from mizzen.errors import Conflict, Invalid
from mizzen.kinds import catalog
from mizzen.kinds.model import Current, ModelSpec, ModelStatus, ModelVersionSpec, version_object_name
from mizzen.kinds.parts.signatures import Signature, differences
from mizzen.kinds.rules import references as rules_references
from mizzen.kinds.schema.findings import Context
from mizzen.kinds.schema.resource import ACTOR_ANNOTATION, Condition, Ref, Resource, format_time
from mizzen.kinds.serving import InferenceModelStatus
from mizzen.kinds.text import references
from mizzen.kinds.text.references import Reference
from mizzen.reconcile.apply import ACTOR
from mizzen.reconcile.controller import Decision, Presence, find
from mizzen.reconcile.recorder import Note
from mizzen.reconcile.reverse_index import Mentions
from mizzen.stores.all_pages import whole
from mizzen.stores.store import Guard, Present, Store, Where


@dataclass(frozen=True, slots=True)
class ModelFacts:
    resource: Resource
    inference_models: tuple[Resource, ...]
    """Those of this model, or of the one that this is a second name of."""
    versions: frozenset[str]
    """Those that exist, likewise, of the versions that something names."""
    first: Resource | None = None
    """The model that this is a second name of."""

    @property
    def children(self) -> tuple[Resource, ...]:
        return ()


@dataclass(frozen=True, slots=True)
class _Served:
    """A version that answers."""

    version: str
    since: str
    actor: str
    signature: Signature | None = None

    @property
    def number(self) -> int:
        return _number(self.version)


class Models:
    kind = "Model"
    watches: tuple[str | Presence, ...] = ("Model", "InferenceModel", Presence("ModelVersion"))

    def __init__(self, context: Context) -> None:
        """`context` tells what the engine of this home can do."""
        self._context = context
        self._first_names = Mentions()

    def keys(self, resource: Resource) -> Iterable[Ref]:
        """The model itself, and its second names."""
        name = catalog.model_of(resource)
        if name is None:
            return ()
        model = Ref(self.kind, name, resource.meta.namespace)
        return (model, *self._first_names.naming(model))

    async def load(self, store: Store, ref: Ref) -> ModelFacts | None:
        model = await find(store, ref)
        if model is None:
            self._first_names.forget(ref)
            return None
        second = _second_name_of(model)
        owner = Ref(self.kind, second.name if second else ref.name, ref.namespace)
        self._first_names.note(ref, (owner,) if second else ())
        of_model = Where(namespace=ref.namespace, fields={"spec.modelName": owner.name})
        inference_models = await whole(store, "InferenceModel", of_model)
        named = _named_versions(model, second, inference_models)
        # One by one, since a model has many more versions than are named.
        found = [await find(store, _version_ref(owner, version)) for version in sorted(named)]
        versions = (_version_of(item) for item in found if item is not None)
        return ModelFacts(
            resource=model,
            inference_models=inference_models,
            versions=frozenset(version for version in versions if version is not None),
            first=await find(store, owner) if second else None,
        )

    def decide(self, facts: ModelFacts, now: datetime) -> Decision:
        if facts.resource.deleting:
            return Decision()
        accepted, findings = catalog.accepted(facts.resource, self._context)
        status = ModelStatus.of(facts.resource)
        if findings.faults:  # whatever answers, answers on
            return Decision(status=status.model_copy(update={"conditions": (accepted,)}))
        second = _second_name_of(facts.resource)
        if second is not None:
            return _second_name(facts, second, accepted, status)
        return _first_name(facts, accepted, status, now)


def _first_name(facts: ModelFacts, accepted: Condition, status: ModelStatus, now: datetime) -> Decision:
    spec, served = ModelSpec.of(facts.resource), _served(facts.inference_models, facts.versions)
    answering = {entry.version for entry in served}
    aliases = answering_aliases(spec.aliases, status.aliases, answering)
    notes = tuple(
        Note("AliasMoved", f"alias '{alias}' is answered by version {version}")
        for alias, version in aliases.items()
        if status.aliases.get(alias) != version
    )
    waiting = rules_references.waiting_aliases(spec.aliases, lambda version: version in facts.versions)
    # Everything else of the status is carried over: the server counts `highestVersion` in it.
    status = status.model_copy(
        update={
            "conditions": (catalog.warned(accepted, waiting),), "aliases": aliases, "alias_of": None,
        }
    )  # fmt: skip
    chosen = _chosen(served, status, track=spec.track)
    if chosen is None:
        return Decision(status=status, notes=notes)
    current = Current(version=chosen.version, actor=chosen.actor, time=format_time(now))
    previous = status.current.version if status.current else status.previous
    return Decision(
        status=status.model_copy(update={"current": current, "previous": previous}),
        decision="promoted",
        actor=chosen.actor,
        guard=_still_answers(facts.resource.ref, chosen.version),
        notes=(*notes, Note("Promoted", f"version {chosen.version} became current")),
    )


def answering_aliases(wanted: Mapping[str, str], told: Mapping[str, str], answering: Iterable[str]) -> dict[str, str]:
    """What answers for each alias: the version that is wanted, as soon as that one does; until then the one before."""
    ready = frozenset(answering)
    moved = {alias: version if version in ready else told.get(alias) for alias, version in wanted.items()}
    return {alias: version for alias, version in sorted(moved.items()) if version is not None}


def _second_name(facts: ModelFacts, second: Reference, accepted: Condition, status: ModelStatus) -> Decision:
    refusal = _refusal(facts, second)
    if refusal is not None:
        return Decision(status=status.model_copy(update={"conditions": (refusal,)}))
    assert facts.first is not None
    current = ModelStatus.of(facts.first).current
    version = second.version or (current.version if current else "")
    served = _served(facts.inference_models, facts.versions)
    update: dict[str, object] = {"conditions": (accepted,)}
    notes: tuple[Note, ...] = ()
    if any(entry.version == version for entry in served):
        update["alias_of"] = str(second)
        if status.alias_of != str(second):
            notes = (Note("AliasMoved", f"is answered by {second}"),)
    return Decision(status=status.model_copy(update=update), notes=notes)


def _refusal(facts: ModelFacts, second: Reference) -> Condition | None:
    first = facts.first
    if first is None or first.deleting:
        return _refused("ModelNotFound", f"spec.aliasOf: there is no model '{second.name}'")
    if first.spec.get("aliasOf"):
        meant = first.spec["aliasOf"]
        return _refused("AliasChain", f"spec.aliasOf: '{second.name}' is itself a second name, of '{meant}'; name that")
    if second.version and second.version not in facts.versions:
        return _refused("VersionNotFound", f"spec.aliasOf: model '{second.name}' has no version {second.version}")
    return None


def _refused(reason: str, message: str) -> Condition:
    return Condition(type="Accepted", status="False", reason=reason, message=message)


def _second_name_of(model: Resource) -> Reference | None:
    """The model that this one is a second name of, as far as its spec can be read."""
    text = catalog.field(model, "spec.aliasOf")
    try:
        return references.parse_unaliased(text) if text else None
    except ValueError:
        return None


def _named_versions(model: Resource, second: Reference | None, inference_models: Iterable[Resource]) -> set[str]:
    """All whose presence a decision may depend on."""
    served = {InferenceModelStatus.of(resource).serving_version for resource in inference_models}
    wanted = {second.version} if second else set(ModelSpec.readable(model.spec).aliases.values())
    return {version for version in served | wanted if version}


def _version_ref(model: Ref, version: str) -> Ref:
    return Ref("ModelVersion", version_object_name(model.name, version), model.namespace)


def _version_of(resource: Resource) -> str | None:
    if resource.deleting:
        return None
    try:
        return ModelVersionSpec.of(resource).version
    except Invalid:
        return None


def _served(inference_models: Iterable[Resource], versions: frozenset[str]) -> list[_Served]:
    """Versions that answer, in the order in which they began to."""
    served = []
    for resource in inference_models:
        status = InferenceModelStatus.of(resource)
        ready = status.condition("Ready")
        if resource.deleting or ready is None or not ready.true or status.serving_version not in versions:
            continue
        actor = resource.meta.annotations.get(ACTOR_ANNOTATION, ACTOR)
        served.append(_Served(status.serving_version, ready.last_transition_time, actor, status.signature))
    return sorted(served, key=lambda entry: (entry.since, entry.version))


def _still_answers(model: Ref, version: str) -> Guard:
    """For the write that makes a version current: it may have gone, or its server, since the facts were gathered."""

    def guard(now: Present) -> None:
        now.get(_version_ref(model, version))
        servers = now.list("InferenceModel", Where(namespace=model.namespace, fields={"spec.modelName": model.name}))
        if not _served(servers, frozenset({version})):
            raise Conflict(f"version {version} of {model} no longer answers")

    return guard


def _chosen(served: list[_Served], status: ModelStatus, *, track: str) -> _Served | None:
    """The version to make current now; None to leave things as they are."""
    if not served:
        return None
    if track == "latest":
        highest = max(served, key=lambda entry: entry.number)
        # Above the previous one, too: who went back from 3 to 2 waits for 4, and must not be handed 3 again.
        past = (status.current.version if status.current else "", status.previous or "")
        # One that callers of the current one could not call is for a person to promote.
        now = next((entry.signature for entry in served if entry.version == past[0]), None)
        if highest.number > max(map(_number, past)) and not differences(now, highest.signature):
            return highest
    return served[0] if status.current is None else None


def _number(version: str) -> int:
    """0 for a version with a name: it is never the latest."""
    return int(version) if version.isdecimal() else 0
