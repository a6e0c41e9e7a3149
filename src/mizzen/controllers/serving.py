"""InferenceModel -> the Workload that serves its version.

A switch to another version never leaves nothing serving: the old Workload stays as it is until the new one answers.
What cannot be accepted changes nothing: whatever runs, runs on.

`Ready` speaks of the version asked for; `servingVersion` and `url` of what answers, also during a short loss.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from mizzen.errors import Invalid
from mizzen.kinds.meta import Condition, Meta, Ref, Resource
from mizzen.kinds.model import ModelVersionSpec, version_object_name
from mizzen.kinds.serving import InferenceModelSpec, InferenceModelStatus, url_of, workload_name
from mizzen.kinds.workload import ReplicaStatus, WorkloadStatus
from mizzen.reconcile.controller import Decision, find, owners
from mizzen.stores.store import Store, Where

CRASHES = 2
"""So many restarts, and waiting for the next one, is a crash loop."""


@dataclass(frozen=True, slots=True)
class ServingFacts:
    resource: Resource
    target: Resource | None
    """The ModelVersion asked for."""
    serving: Resource | None
    """The ModelVersion that answers now, when it is another one."""
    children: tuple[Resource, ...]


class Serving:
    kind = "InferenceModel"
    watches: tuple[str, ...] = ("ModelVersion", "Workload")

    def __init__(self, inference_url: str) -> None:
        self._inference_url = inference_url
        self._named: dict[Ref, frozenset[Ref]] = {}
        """Which ModelVersions each InferenceModel named when it was last loaded: the way back from version to key."""

    def keys(self, resource: Resource) -> Iterable[Ref]:
        if resource.kind == "ModelVersion":
            return [key for key, named in self._named.items() if resource.ref in named]
        return owners(resource, self.kind)

    async def load(self, store: Store, ref: Ref) -> ServingFacts | None:
        resource = await find(store, ref)
        if resource is None:
            self._named.pop(ref, None)
            return None
        target, serving = _versions_named(resource)
        # Noted before they are read: a version created in between then wakes this key again.
        self._named[ref] = frozenset(version for version in (target, serving) if version)
        children = await store.list("Workload", Where(namespace=ref.namespace, owner=resource.meta.uid))
        return ServingFacts(
            resource=resource,
            target=await find(store, target) if target else None,
            serving=await find(store, serving) if serving and serving != target else None,
            children=children.items,
        )

    def decide(self, facts: ServingFacts, now: datetime) -> Decision:
        if facts.resource.deleting:
            return Decision()
        try:
            spec = InferenceModelSpec.of(facts.resource)
            if facts.target is None or facts.target.deleting:
                return self._refused(facts, "VersionNotFound", _not_found(spec))
            return self._accepted(facts, spec, ModelVersionSpec.of(facts.target))
        except Invalid as fault:
            return self._refused(facts, "InvalidSpec", fault.message)

    def _accepted(self, facts: ServingFacts, spec: InferenceModelSpec, version: ModelVersionSpec) -> Decision:
        served = InferenceModelStatus.of(facts.resource).serving_version
        workload = _running(facts, version.version)
        children = [_workload(facts.resource, spec, version)]
        if workload is not None and _available(workload):
            served = version.version
        elif served != version.version:
            older = _older_workload(facts, spec, served)
            children += [older] if older else []
            served = served if older else None
        accepted = Condition(type="Accepted", status="True", reason="Accepted")
        status = self._status(facts.resource, served, workload, (accepted, _ready(spec, workload)))
        return Decision(children=tuple(children), status=status)

    def _refused(self, facts: ServingFacts, reason: str, message: str) -> Decision:
        serving = InferenceModelStatus.of(facts.resource).serving_version
        conditions = tuple(
            Condition(type=type_, status="False", reason=reason, message=message) for type_ in ("Accepted", "Ready")
        )
        return Decision(
            children=tuple(child for child in facts.children if not child.deleting),
            status=self._status(facts.resource, serving, _running(facts, serving), conditions),
        )

    def _status(
        self, resource: Resource, serving: str | None, workload: Resource | None, conditions: tuple[Condition, ...]
    ) -> InferenceModelStatus:
        replicas = WorkloadStatus.of(workload).replicas if workload else ()
        return InferenceModelStatus(
            conditions=conditions,
            url=url_of(self._inference_url, resource.ref) if serving else None,
            serving_version=serving,
            replicas=len(replicas),
            ready_replicas=sum(replica.state == "ready" for replica in replicas),
            restarts=sum(replica.restarts for replica in replicas),
        )


def _versions_named(resource: Resource) -> tuple[Ref | None, Ref | None]:
    """The ModelVersions asked for and serving, as far as the spec can be read."""
    try:
        spec = InferenceModelSpec.of(resource)
    except Invalid:
        return None, None
    serving = InferenceModelStatus.of(resource).serving_version

    def ref(version: str) -> Ref:
        return Ref("ModelVersion", version_object_name(spec.model_name, version), resource.meta.namespace)

    return ref(spec.target_version), ref(serving) if serving else None


def _not_found(spec: InferenceModelSpec) -> str:
    return (
        f"model '{spec.model_name}' has no version {spec.target_version}; "
        "register it, or set spec.targetVersion to a version that exists"
    )


def _older_workload(facts: ServingFacts, spec: InferenceModelSpec, version: str | None) -> Resource | None:
    """The Workload of the version that answers now, to be kept during a switch: as it is, or rebuilt if it was lost."""
    if version is None or spec.replicas == 0:  # with no replicas wanted, nothing has to bridge a gap
        return None
    there = _running(facts, version)
    if there is not None:
        return there
    return _workload(facts.resource, spec, ModelVersionSpec.of(facts.serving)) if facts.serving else None


def _workload(resource: Resource, spec: InferenceModelSpec, version: ModelVersionSpec) -> Resource:
    meta = Meta(name=workload_name(resource.meta.name, version.version), namespace=resource.meta.namespace)
    # The spec is written as plain data, not as a typed WorkloadSpec: new defaults must not restart what runs.
    return Resource(
        kind="Workload",
        meta=meta,
        spec={
            "purpose": "serve",
            "command": list(_command(spec, version)),
            "artifacts": [artifact.wire() for artifact in version.artifacts],
            "replicas": spec.replicas,
            "restart": "Always",
        },
    )


def _command(spec: InferenceModelSpec, version: ModelVersionSpec) -> Iterable[str]:
    yield from ("python", "-m", "mizzen.runtime", "--framework", spec.framework_type or version.framework)
    yield from ("--entrypoint", _entrypoint(version))
    if all(artifact.trusted for artifact in version.artifacts):
        yield "--trusted"
    if spec.batching is not None:
        yield "--batch"


def _entrypoint(version: ModelVersionSpec) -> str:
    """Where the model is in its artifacts. With a single file there is nothing to choose."""
    if version.entrypoint is not None:
        return version.entrypoint
    if len(version.artifacts) > 1:
        name = version_object_name(version.model_name, version.version)
        raise Invalid(
            f"ModelVersion/{name} has {len(version.artifacts)} files and no spec.entrypoint to tell which to load"
        )
    return version.artifacts[0].path


def _running(facts: ServingFacts, version: str | None) -> Resource | None:
    """The Workload of this version. One that is being deleted does not count, whatever its status still says."""
    if version is None:
        return None
    name = workload_name(facts.resource.meta.name, version)
    return next((child for child in facts.children if child.meta.name == name and not child.deleting), None)


def _available(workload: Resource) -> bool:
    condition = WorkloadStatus.of(workload).condition("Available")
    return condition is not None and condition.true


def _ready(spec: InferenceModelSpec, workload: Resource | None) -> Condition:
    if spec.replicas > 0 and workload is not None and _available(workload):
        message = f"version {spec.target_version} answers"
        return Condition(type="Ready", status="True", reason="Serving", message=message)
    replicas = WorkloadStatus.of(workload).replicas if workload else ()
    reason, message = _why_not(replicas) if spec.replicas > 0 else ("NoReplicas", "spec.replicas is 0")
    return Condition(type="Ready", status="False", reason=reason, message=message)


def _why_not(replicas: tuple[ReplicaStatus, ...]) -> tuple[str, str]:
    for replica in replicas:
        if replica.state == "failed":
            return "LoadFailed", replica.message or f"replica {replica.index} gave up; see its log"
    for replica in replicas:
        if replica.state == "waiting" and replica.restarts >= CRASHES:
            return (
                "CrashLoop",
                replica.message or f"replica {replica.index} ended {replica.restarts} times; see its log",
            )
    said = next((replica.message for replica in replicas if replica.message), "")
    return "Starting", said or "waiting for the first replica to answer"
