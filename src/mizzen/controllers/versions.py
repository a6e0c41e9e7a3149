"""The controller of ModelVersions: whether the spec is accepted, and whether servers have been able to serve it.

The last known result stays: a version that was ready once is `Servable` even when no server serves it any more.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from mizzen.errors import Invalid
from mizzen.kinds import catalog
from mizzen.kinds.model import ModelVersionStatus, version_object_name
from mizzen.kinds.parts.signatures import Signature
from mizzen.kinds.schema.findings import Context
from mizzen.kinds.schema.resource import Condition, Ref, Resource
from mizzen.kinds.serving import InferenceModelSpec, InferenceModelStatus
from mizzen.reconcile.controller import Decision, find
from mizzen.reconcile.reverse_index import ReverseIndex
from mizzen.stores.store import Store


@dataclass(frozen=True, slots=True)
class VersionFacts:
    resource: Resource
    inference_models: tuple[Resource, ...]
    """Those that serve this version, or want to."""
    children: ClassVar[tuple[Resource, ...]] = ()


class Versions:
    kind = "ModelVersion"
    watches: tuple[str, ...] = ("InferenceModel",)

    def __init__(self, context: Context) -> None:
        """`context` lists the capabilities of the engine."""
        self._context = context
        self._named = ReverseIndex()
        """For each InferenceModel, the versions that it serves or wants to serve."""

    def keys(self, resource: Resource) -> Iterable[Ref]:
        # Indexed here: the loop asks for the keys of every InferenceModel before any version is loaded. So most
        # versions, which no server serves, are loaded without a query for their servers.
        versions = _versions_of(resource)
        self._named.set(resource.ref, versions)
        return versions

    async def load(self, store: Store, ref: Ref) -> VersionFacts | None:
        version = await find(store, ref)
        if version is None:
            return None
        serving = []
        for name in self._named.keys_for(ref):
            resource = await find(store, name)
            if resource is None:
                self._named.remove(name)
            elif ref in _versions_of(resource):
                serving.append(resource)
        return VersionFacts(version, tuple(serving))

    def decide(self, facts: VersionFacts, now: datetime) -> Decision:
        if facts.resource.deleting:
            return Decision()
        accepted, _ = catalog.check_accepted(facts.resource, self._context)
        reported_conditions = [_servable_condition(facts.resource.ref, resource) for resource in facts.inference_models]
        known = ModelVersionStatus.of(facts.resource).condition("Servable")
        servable = (
            next((condition for condition in reported_conditions if condition and condition.true), None)
            or next((condition for condition in reported_conditions if condition), None)
            or known
            or Condition(type="Servable", status="Unknown", reason="NotServedYet")
        )
        recorded = ModelVersionStatus.of(facts.resource).signature
        reported = (_signature_from(facts.resource.ref, resource) for resource in facts.inference_models)
        signature = recorded or next(filter(None, reported), None)
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


def _signature_from(version: Ref, resource: Resource) -> Signature | None:
    """The signature that this InferenceModel's replicas report for the version; None when its spec overrides it."""
    status, spec = InferenceModelStatus.of(resource), InferenceModelSpec.of(resource)
    answers = version.name == version_object_name(spec.model_name, status.serving_version or "")
    return status.signature if answers and not spec.inputs and not spec.outputs else None


def _servable_condition(version: Ref, resource: Resource) -> Condition | None:
    """`Servable`, as this InferenceModel's status shows it; None when it shows nothing about this version."""
    status = InferenceModelStatus.of(resource)
    ready = status.condition("Ready")
    # A condition of an older spec may be about another version.
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
