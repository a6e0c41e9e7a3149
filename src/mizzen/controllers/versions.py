"""ModelVersion: whether its spec can be worked with, and whether it can be served, as experience has shown.

The last thing known stays known: a version that answered once is `Servable` also when nobody serves it any more.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from mizzen.errors import Invalid
from mizzen.kinds import catalog
from mizzen.kinds.model import ModelVersionStatus, version_object_name
from mizzen.kinds.parts.signatures import Signature
from mizzen.kinds.schema.findings import Context
from mizzen.kinds.schema.resource import Condition, Ref, Resource
from mizzen.kinds.serving import InferenceModelSpec, InferenceModelStatus
from mizzen.reconcile.controller import Decision, find
from mizzen.reconcile.reverse_index import Mentions
from mizzen.stores.store import Store


@dataclass(frozen=True, slots=True)
class VersionFacts:
    resource: Resource
    inference_models: tuple[Resource, ...]
    """Those that serve this version, or mean to."""

    @property
    def children(self) -> tuple[Resource, ...]:
        return ()


class Versions:
    kind = "ModelVersion"
    watches: tuple[str, ...] = ("InferenceModel",)

    def __init__(self, context: Context) -> None:
        """`context` tells what the engine of this home can do."""
        self._context = context
        self._named = Mentions()
        """Of each InferenceModel, the versions that it serves or means to."""

    def keys(self, resource: Resource) -> Iterable[Ref]:
        # Noted here: of every InferenceModel the keys are asked for, before any version is looked at. So a version that
        # nobody serves, as most are, is looked at without asking the store who does.
        versions = _versions_of(resource)
        self._named.note(resource.ref, versions)
        return versions

    async def load(self, store: Store, ref: Ref) -> VersionFacts | None:
        version = await find(store, ref)
        if version is None:
            return None
        serving = []
        for name in self._named.naming(ref):
            resource = await find(store, name)
            if resource is None:
                self._named.forget(name)
            elif ref in _versions_of(resource):
                serving.append(resource)
        return VersionFacts(version, tuple(serving))

    def decide(self, facts: VersionFacts, now: datetime) -> Decision:
        if facts.resource.deleting:
            return Decision()
        accepted, _ = catalog.accepted(facts.resource, self._context)
        seen = [_experience(facts.resource.ref, resource) for resource in facts.inference_models]
        known = ModelVersionStatus.of(facts.resource).condition("Servable")
        servable = (
            next((condition for condition in seen if condition and condition.true), None)
            or next((condition for condition in seen if condition), None)
            or known
            or Condition(type="Servable", status="Unknown", reason="NotServedYet")
        )
        told = ModelVersionStatus.of(facts.resource).signature
        said = (_signature(facts.resource.ref, resource) for resource in facts.inference_models)
        signature = told or next(filter(None, said), None)
        return Decision(status=ModelVersionStatus(conditions=(accepted, servable), signature=signature))


def _versions_of(resource: Resource) -> tuple[Ref, ...]:
    try:
        spec = InferenceModelSpec.of(resource)
    except Invalid:
        return ()
    status = InferenceModelStatus.of(resource)
    versions = {spec.target_version, status.target_version, status.serving_version} - {None}
    return tuple(
        Ref(Versions.kind, version_object_name(spec.model_name, str(version)), resource.meta.namespace)
        for version in versions
    )


def _signature(version: Ref, resource: Resource) -> Signature | None:
    """As this InferenceModel's replicas say it, of the version that answers; nothing where its spec tells them what."""
    status, spec = InferenceModelStatus.of(resource), InferenceModelSpec.of(resource)
    answers = version.name == version_object_name(spec.model_name, status.serving_version or "")
    return status.signature if answers and not spec.inputs and not spec.outputs else None


def _experience(version: Ref, resource: Resource) -> Condition | None:
    """What this InferenceModel tells about the version; None when it tells nothing."""
    status = InferenceModelStatus.of(resource)
    ready = status.condition("Ready")
    # A condition about an older spec may speak of another version.
    if ready is None or ready.observed_generation != resource.meta.generation:
        return None
    spec = InferenceModelSpec.of(resource)
    if version.name != version_object_name(spec.model_name, status.target_version or spec.target_version or ""):
        return None
    if ready.true:
        return Condition(type="Servable", status="True", reason="Served", message=f"{resource.ref} served it")
    if ready.reason == "LoadFailed":
        return Condition(type="Servable", status="False", reason="LoadFailed", message=ready.message)
    return None
