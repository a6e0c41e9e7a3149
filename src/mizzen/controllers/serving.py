"""InferenceModel -> the Workload that serves its version.

A switch to another version never leaves nothing serving: the old Workload stays as it is until the new one answers.
What cannot be accepted, or cannot run here, changes nothing: whatever runs, runs on.

`Ready` speaks of the version asked for; `servingVersion` and `url` of what answers, also during a short loss. A version
that is meant through an alias, or as the current one, is looked up when the spec is new, and again with `followAlias`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from mizzen.errors import Invalid
from mizzen.kinds import catalog, placement
from mizzen.kinds.findings import Context
from mizzen.kinds.meta import Condition, Meta, Ref, Resource
from mizzen.kinds.model import ModelSpec, ModelStatus, ModelVersionSpec, version_object_name
from mizzen.kinds.parts import env
from mizzen.kinds.serving import InferenceModelSpec, InferenceModelStatus, url_of, workload_name
from mizzen.kinds.text.frameworks import SERVED_FRAMEWORKS
from mizzen.kinds.workload import MODEL_LABEL, ReplicaStatus, WorkloadStatus
from mizzen.reconcile.controller import Decision, Presence, find, owners
from mizzen.reconcile.mentions import Mentions
from mizzen.reconcile.recorder import Note
from mizzen.stores.store import Store, Where
from mizzen.stores.whole import whole

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
    nodes: tuple[Resource, ...] = ()
    """Those of the namespace, when it asks for one."""


class Obstacle(Exception):
    """Nothing is wrong with the spec, but it cannot be served here and now."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class Serving:
    kind = "InferenceModel"
    watches: tuple[str | Presence, ...] = ("Model", Presence("ModelVersion"), "Workload", "Node")

    def __init__(self, inference_url: str, context: Context) -> None:
        """`context` tells what the engine of this home can do."""
        self._inference_url = inference_url
        self._context = context
        self._named = Mentions()
        """Models and ModelVersions by name, and for who asks for a node, any Node of the namespace."""

    def keys(self, resource: Resource) -> Iterable[Ref]:
        if resource.kind == "Workload":
            return owners(resource, self.kind)
        return self._named.naming(_any_node(resource) if resource.kind == "Node" else resource.ref)

    async def load(self, store: Store, ref: Ref) -> ServingFacts | None:
        resource = await find(store, ref)
        if resource is None:
            self._named.forget(ref)
            return None
        try:
            spec = InferenceModelSpec.of(resource)
        except Invalid:
            self._named.forget(ref)
            return ServingFacts(resource, None, None, await _children(store, resource))
        return await self._load(store, resource, spec)

    async def _load(self, store: Store, resource: Resource, spec: InferenceModelSpec) -> ServingFacts:
        namespace = resource.meta.namespace

        def version(text: str | None) -> Ref | None:
            return Ref("ModelVersion", version_object_name(spec.model_name, text), namespace) if text else None

        # Everything is noted before it is read: what is created in between then wakes this key again.
        model = None if _numbered(spec) else Ref("Model", spec.model_name, namespace)
        serving = version(InferenceModelStatus.of(resource).serving_version)
        placed = _any_node(resource) if placement.asks_for_node(spec) else None
        named = [ref for ref in (model, version(spec.target_version), serving, placed) if ref]
        self._named.note(resource.ref, named)
        target = version(meant_version(resource, spec, await find(store, model) if model else None))
        self._named.note(resource.ref, [*named, target] if target else named)
        return ServingFacts(
            resource=resource,
            target=await find(store, target) if target else None,
            serving=await find(store, serving) if serving and serving != target else None,
            children=await _children(store, resource),
            nodes=await whole(store, "Node", Where(namespace=namespace)) if placed else (),
        )

    def decide(self, facts: ServingFacts, now: datetime) -> Decision:
        if facts.resource.deleting:
            return Decision()
        accepted, findings = catalog.accepted(facts.resource, self._context)
        if findings.faults:
            return self._refused(facts, accepted, accepted.reason, accepted.message)
        spec = InferenceModelSpec.of(facts.resource)
        try:
            version = _servable(facts, spec)
        except Obstacle as obstacle:
            return self._refused(facts, accepted, obstacle.reason, obstacle.message)
        except Invalid as fault:
            unreadable = _not("Accepted", "InvalidSpec", fault.message)
            return self._refused(facts, unreadable, unreadable.reason, unreadable.message)
        if version is None:
            missing = _not("Accepted", "VersionNotFound", _not_found(spec))
            return self._refused(facts, missing, missing.reason, missing.message)
        return self._accepted(facts, spec, version, accepted)

    def _accepted(
        self, facts: ServingFacts, spec: InferenceModelSpec, version: ModelVersionSpec, accepted: Condition
    ) -> Decision:
        told = InferenceModelStatus.of(facts.resource)
        served = told.serving_version
        workload = _running(facts, version.version)
        children = [_workload(facts.resource, spec, version)]
        if workload is not None and _available(workload):
            served = version.version
        elif served != version.version:
            older = _older_workload(facts, spec, served)
            children += [older] if older else []
            served = served if older else None
        target = None if spec.target_version == version.version else version.version
        conditions = (accepted, _ready(spec, version.version, workload))
        status = self._status(facts.resource, target, served, workload, conditions)
        return Decision(children=tuple(children), status=status, notes=tuple(_notes(facts.resource, told, status)))

    def _refused(self, facts: ServingFacts, accepted: Condition, reason: str, message: str) -> Decision:
        told = InferenceModelStatus.of(facts.resource)
        conditions = (accepted, _not("Ready", reason, message))
        running = _running(facts, told.serving_version)
        return Decision(
            children=tuple(child for child in facts.children if not child.deleting),
            status=self._status(facts.resource, told.target_version, told.serving_version, running, conditions),
        )

    def _status(
        self,
        resource: Resource,
        target: str | None,
        serving: str | None,
        workload: Resource | None,
        conditions: tuple[Condition, ...],
    ) -> InferenceModelStatus:
        replicas = WorkloadStatus.of(workload).replicas if workload else ()
        return InferenceModelStatus(
            conditions=conditions,
            url=url_of(self._inference_url, resource.ref) if serving else None,
            target_version=target,
            serving_version=serving,
            replicas=len(replicas),
            ready_replicas=sum(replica.state == "ready" for replica in replicas),
            restarts=sum(replica.restarts for replica in replicas),
        )


def _notes(resource: Resource, told: InferenceModelStatus, status: InferenceModelStatus) -> Iterator[Note]:
    before, now = told.serving_version, status.serving_version
    if before and now and before != now:
        yield Note("Switched", f"version {now} answers instead of version {before}")
    # With another spec it may be another Workload that is counted.
    if told.observed_generation == resource.meta.generation and status.restarts > told.restarts:
        yield Note("ReplicaEnded", "a replica ended and was started again; its log may say why", warning=True)


async def _children(store: Store, resource: Resource) -> tuple[Resource, ...]:
    where = Where(namespace=resource.meta.namespace, owner=resource.meta.uid)
    return await whole(store, "Workload", where)


def _any_node(resource: Resource) -> Ref:
    return Ref("Node", "", resource.meta.namespace)


def _numbered(spec: InferenceModelSpec) -> bool:
    """A number is a version and nothing else: the model need not be asked what it means."""
    return (spec.target_version or "").isdecimal()


def meant_version(resource: Resource, spec: InferenceModelSpec, model: Resource | None) -> str | None:
    """The version that `targetVersion` names, itself or as an alias of the model; without it, the current one."""
    aliases = ModelSpec.readable(model.spec).aliases if model else {}
    asked = spec.target_version
    if asked is not None and asked not in aliases:
        return asked
    told = InferenceModelStatus.of(resource)
    if told.target_version and not spec.follow_alias and told.observed_generation == resource.meta.generation:
        return told.target_version
    if asked is not None:
        return aliases[asked]
    current = ModelStatus.of(model).current if model else None
    return current.version if current else None


def _servable(facts: ServingFacts, spec: InferenceModelSpec) -> ModelVersionSpec | None:
    """The version to serve; None when there is none yet. Raises Obstacle, or Invalid when it cannot be read."""
    if spec.image:
        raise Obstacle("ContainersUnsupported", "this engine runs no container images; register a version and serve it")
    misplaced = placement.misplaced(spec, facts.nodes)
    if misplaced is not None:
        raise Obstacle(misplaced.reason, misplaced.message)
    if spec.manifest:
        raise Obstacle("ManifestNotFetched", "archives of a manifest are not fetched yet; register the version instead")
    if spec.checkpoint is not None:
        raise Obstacle("CheckpointNotFound", f"there is no checkpoint '{spec.checkpoint}'; leave spec.checkpoint out")
    if facts.target is None or facts.target.deleting:
        return None
    version = ModelVersionSpec.of(facts.target)
    if version.image is not None and not version.artifacts:
        raise Obstacle("ContainersUnsupported", f"{facts.target.ref} is a container image, and this engine runs none")
    if not version.artifacts:
        raise Obstacle("NoFiles", f"{facts.target.ref} has no files to serve; register a version with its files")
    framework = spec.framework_type or version.framework
    if framework not in SERVED_FRAMEWORKS:
        known = ", ".join(SERVED_FRAMEWORKS)
        raise Obstacle("UnsupportedFramework", f"nothing here serves framework '{framework}'; served are {known}")
    _entrypoint(version)
    return version


def _not_found(spec: InferenceModelSpec) -> str:
    if spec.target_version is None:
        return f"model '{spec.model_name}' has no current version; set spec.targetVersion to the one to serve"
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
    name, labels = workload_name(resource.meta.name, version.version), {MODEL_LABEL: spec.model_name}
    meta = Meta(name, resource.meta.namespace, labels=labels)
    secrets = {name: ref.wire() for name, ref in env.secret_values(spec.env).items()}
    variables = {"env": env.plain_values(spec.env), "secretEnv": secrets}
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
            **{field: values for field, values in variables.items() if values},
        },
    )


def _command(spec: InferenceModelSpec, version: ModelVersionSpec) -> Iterable[str]:
    yield from ("python", "-m", "mizzen.runtime", "--framework", spec.framework_type or version.framework)
    yield from ("--entrypoint", _entrypoint(version))
    # Without files there is nothing that anybody could have vouched for.
    if version.artifacts and all(artifact.trusted for artifact in version.artifacts):
        yield "--trusted"
    if spec.batching is not None:
        yield "--batch"


def _entrypoint(version: ModelVersionSpec) -> str:
    """Where the model is in its artifacts. With a single file there is nothing to choose."""
    if version.entrypoint is not None:
        return version.entrypoint
    if len(version.artifacts) != 1:
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


def _ready(spec: InferenceModelSpec, version: str, workload: Resource | None) -> Condition:
    if spec.replicas > 0 and workload is not None and _available(workload):
        return Condition(type="Ready", status="True", reason="Serving", message=f"version {version} answers")
    replicas = WorkloadStatus.of(workload).replicas if workload else ()
    return _not("Ready", *(_why_not(replicas) if spec.replicas > 0 else ("NoReplicas", "spec.replicas is 0")))


def _why_not(replicas: tuple[ReplicaStatus, ...]) -> tuple[str, str]:
    for replica in replicas:
        if replica.state == "failed":
            return "LoadFailed", replica.message or f"replica {replica.index} gave up; see its log"
    for replica in replicas:
        if replica.reason:
            return replica.reason, replica.message
    for replica in replicas:
        if replica.state == "waiting" and replica.restarts >= CRASHES:
            return (
                "CrashLoop",
                replica.message or f"replica {replica.index} ended {replica.restarts} times; see its log",
            )
    said = next((replica.message for replica in replicas if replica.message), "")
    return "Starting", said or "waiting for the first replica to answer"


def _not(type_: str, reason: str, message: str) -> Condition:
    return Condition(type=type_, status="False", reason=reason, message=message)
