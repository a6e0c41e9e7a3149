"""The controller of Models: it chooses the current version where no user did, or where the model tracks the latest. It
also resolves the model's aliases and, for a model with `aliasOf`, the model that it stands for.

The current version only moves forward. A version that stops serving stays current: rolling back is a user's decision.
An alias moves to the version in the spec as soon as that version serves, and stays where it is until then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from mizzen.errors import Conflict, Invalid
from mizzen.kinds import catalog
from mizzen.kinds.model import Current, ModelSpec, ModelStatus, ModelVersionSpec, version_object_name
from mizzen.kinds.parts.signatures import Signature, differences
from mizzen.kinds.rules import references as rules_references
from mizzen.kinds.schema.findings import Context
from mizzen.kinds.schema.resource import ACTOR_ANNOTATION, Condition, Ref, Resource, format_time
from mizzen.kinds.serving import InferenceModelStatus
from mizzen.kinds.text import references
from mizzen.kinds.text.references import ModelReference
from mizzen.reconcile.apply import ACTOR
from mizzen.reconcile.controller import Decision, Presence, find
from mizzen.reconcile.recorder import EventNote
from mizzen.reconcile.reverse_index import ReverseIndex
from mizzen.reconcile.workloads import false_condition
from mizzen.stores.all_pages import whole
from mizzen.stores.store import Guard, Present, Store, Where


@dataclass(frozen=True, slots=True)
class ModelFacts:
    resource: Resource
    inference_models: tuple[Resource, ...]
    """Those of this model, or of the model that it is an alias of."""
    versions: frozenset[str]
    """The existing ones among the versions of that model that something names."""
    aliased: Resource | None = None
    """The model that this one is an alias of."""
    children: ClassVar[tuple[Resource, ...]] = ()


@dataclass(frozen=True, slots=True)
class _ServingVersion:
    """A version that serves requests."""

    version: str
    since: str
    actor: str
    signature: Signature | None = None

    @property
    def number(self) -> int:
        return _number_of(self.version)


class Models:
    kind = "Model"
    watches: tuple[str | Presence, ...] = ("Model", "InferenceModel", Presence("ModelVersion"))

    def __init__(self, context: Context) -> None:
        """`context` lists the capabilities of the engine."""
        self._context = context
        self._alias_targets = ReverseIndex()

    def keys(self, resource: Resource) -> Iterable[Ref]:
        """The model itself, and the models that are aliases of it."""
        name = catalog.model_of(resource)
        if name is None:
            return ()
        model = Ref(self.kind, name, resource.meta.namespace)
        return (model, *self._alias_targets.keys_for(model))

    async def load(self, store: Store, ref: Ref) -> ModelFacts | None:
        model = await find(store, ref)
        if model is None:
            self._alias_targets.remove(ref)
            return None
        second = _alias_target_of(model)
        owner = Ref(self.kind, second.name if second else ref.name, ref.namespace)
        self._alias_targets.set(ref, (owner,) if second else ())
        of_model = Where(namespace=ref.namespace, fields={"spec.modelName": owner.name})
        inference_models = await whole(store, "InferenceModel", of_model)
        named = _versions_named_by(model, second, inference_models)
        # One by one, since a model has many more versions than are named.
        found = [await find(store, _version_ref(owner, version)) for version in sorted(named)]
        versions = (_version_of(item) for item in found if item is not None)
        return ModelFacts(
            resource=model,
            inference_models=inference_models,
            versions=frozenset(version for version in versions if version is not None),
            aliased=await find(store, owner) if second else None,
        )

    def decide(self, facts: ModelFacts, now: datetime) -> Decision:
        if facts.resource.deleting:
            return Decision()
        accepted, findings = catalog.check_accepted(facts.resource, self._context)
        status = ModelStatus.of(facts.resource)
        if findings.faults:  # running versions keep serving
            return Decision(status=status.model_copy(update={"conditions": (accepted,)}))
        second = _alias_target_of(facts.resource)
        if second is not None:
            return _decide_alias(facts, second, accepted, status)
        return _decide_model(facts, accepted, status, now)


def _decide_model(facts: ModelFacts, accepted: Condition, status: ModelStatus, now: datetime) -> Decision:
    spec, served = ModelSpec.of(facts.resource), _list_serving(facts.inference_models, facts.versions)
    answering = {entry.version for entry in served}
    aliases = answering_aliases(spec.aliases, status.aliases, answering)
    notes = tuple(
        EventNote("AliasMoved", f"alias '{alias}' now points to version {version}")
        for alias, version in aliases.items()
        if status.aliases.get(alias) != version
    )
    waiting = rules_references.waiting_aliases(spec.aliases, lambda version: version in facts.versions)
    # The rest of the status is carried over: the server maintains `highestVersion` there.
    status = status.model_copy(
        update={"conditions": (catalog.add_warnings(accepted, waiting),), "aliases": aliases, "alias_of": None}
    )
    chosen = _choose_current(served, status, track=spec.track)
    if chosen is None:
        return Decision(status=status, notes=notes)
    current = Current(version=chosen.version, actor=chosen.actor, time=format_time(now))
    previous = status.current.version if status.current else status.previous
    return Decision(
        status=status.model_copy(update={"current": current, "previous": previous}),
        decision="promoted",
        actor=chosen.actor,
        guard=_require_serving(facts.resource.ref, chosen.version),
        notes=(*notes, EventNote("Promoted", f"version {chosen.version} became current")),
    )


def answering_aliases(wanted: Mapping[str, str], before: Mapping[str, str], answering: set[str]) -> dict[str, str]:
    """The version that answers for each alias: the desired one once it serves; until then the one before."""
    moved = {alias: version if version in answering else before.get(alias) for alias, version in wanted.items()}
    return {alias: version for alias, version in sorted(moved.items()) if version is not None}


def _decide_alias(facts: ModelFacts, second: ModelReference, accepted: Condition, status: ModelStatus) -> Decision:
    refusal = _check_alias_target(facts, second)
    if refusal is not None:
        return Decision(status=status.model_copy(update={"conditions": (refusal,)}))
    assert facts.aliased is not None
    current = ModelStatus.of(facts.aliased).current
    version = second.version or (current.version if current else "")
    served = _list_serving(facts.inference_models, facts.versions)
    update: dict[str, object] = {"conditions": (accepted,)}
    notes: tuple[EventNote, ...] = ()
    if any(entry.version == version for entry in served):
        update["alias_of"] = str(second)
        if status.alias_of != str(second):
            notes = (EventNote("AliasMoved", f"is now a second name of {second}"),)
    return Decision(status=status.model_copy(update=update), notes=notes)


def _check_alias_target(facts: ModelFacts, second: ModelReference) -> Condition | None:
    first = facts.aliased
    if first is None or first.deleting:
        return false_condition("Accepted", "ModelNotFound", f"spec.aliasOf: there is no model '{second.name}'")
    if first.spec.get("aliasOf"):
        target = first.spec["aliasOf"]
        message = f"spec.aliasOf: '{second.name}' is itself an alias of '{target}'; use '{target}'"
        return false_condition("Accepted", "AliasChain", message)
    if second.version and second.version not in facts.versions:
        message = f"spec.aliasOf: model '{second.name}' has no version {second.version}"
        return false_condition("Accepted", "VersionNotFound", message)
    return None


def _alias_target_of(model: Resource) -> ModelReference | None:
    """The model that this one is an alias of; None: none, or its spec cannot be parsed."""
    text = catalog.field(model, "spec.aliasOf")
    try:
        return references.parse_unaliased(text) if text else None
    except ValueError:
        return None


def _versions_named_by(
    model: Resource, second: ModelReference | None, inference_models: Iterable[Resource]
) -> set[str]:
    """All versions whose existence a decision may depend on."""
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


def _list_serving(inference_models: Iterable[Resource], versions: frozenset[str]) -> list[_ServingVersion]:
    """Versions that serve requests, in the order in which they became ready."""
    served = []
    for resource in inference_models:
        status = InferenceModelStatus.of(resource)
        ready = status.condition("Ready")
        if resource.deleting or ready is None or not ready.true or status.serving_version not in versions:
            continue
        actor = resource.meta.annotations.get(ACTOR_ANNOTATION, ACTOR)
        served.append(_ServingVersion(status.serving_version, ready.last_transition_time, actor, status.signature))
    return sorted(served, key=lambda entry: (entry.since, entry.version))


def _require_serving(model: Ref, version: str) -> Guard:
    """The guard of a promotion: the version or its server may have been deleted since the facts were loaded."""

    def guard(now: Present) -> None:
        now.get(_version_ref(model, version))
        servers = now.list("InferenceModel", Where(namespace=model.namespace, fields={"spec.modelName": model.name}))
        if not _list_serving(servers, frozenset({version})):
            raise Conflict(f"version {version} of {model} is no longer served")

    return guard


def _choose_current(served: list[_ServingVersion], status: ModelStatus, *, track: str) -> _ServingVersion | None:
    """The version to make current now; None: no change."""
    if not served:
        return None
    if track == "latest":
        highest = max(served, key=lambda entry: entry.number)
        # Above the previous one, too: after a rollback from 3 to 2, the model waits for 4 and must not get 3 again.
        past = (status.current.version if status.current else "", status.previous or "")
        # A version with another signature would break callers of the current one; only a user may promote it.
        now = next((entry.signature for entry in served if entry.version == past[0]), None)
        if highest.number > max(map(_number_of, past)) and not differences(now, highest.signature):
            return highest
    return served[0] if status.current is None else None


def _number_of(version: str) -> int:
    """0 for a version that is not a number: it is never the latest."""
    return int(version) if version.isdecimal() else 0
