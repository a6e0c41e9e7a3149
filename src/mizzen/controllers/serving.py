"""InferenceModel -> the Workload that serves its version.

Whatever needs other processes, be it another version or the same with another environment, gets a Workload of its own
beside the one that serves, which stays as it is until all replicas of the new one answer, and ends after the switch.
What cannot be accepted, or cannot run here, or cannot start, changes nothing: whatever runs, runs on.

`Ready` speaks of the version asked for; `servingVersion` and `url` of what answers, also during a short loss. A version
that is meant through an alias, or as the current one, is looked up when the spec is new, and again with `followAlias`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from mizzen.errors import Invalid
from mizzen.kinds import catalog, placement, running
from mizzen.kinds.fetching import Fetching, NoFetching, Progress, entry_of
from mizzen.kinds.findings import Context, Warn
from mizzen.kinds.meta import DEFAULT_NAMESPACE, Condition, Ref, Resource, parse_time
from mizzen.kinds.model import ModelSpec, ModelStatus, ModelVersionSpec, version_object_name
from mizzen.kinds.serving import InferenceModelSpec, InferenceModelStatus, ModelFile, url_of, workload_name
from mizzen.kinds.text.frameworks import SERVED_FRAMEWORKS
from mizzen.kinds.workload import ReplicaStatus, WorkloadStatus
from mizzen.reconcile.controller import Decision, Presence, find, owners
from mizzen.reconcile.mentions import Mentions
from mizzen.reconcile.recorder import Note
from mizzen.stores.store import Store, Where
from mizzen.stores.whole import whole

CRASHES = 2
"""So many restarts, and waiting for the next one, is a crash loop."""
PROGRESS = 30.0
"""Seconds between two reports of how much has been fetched."""
LINGER = timedelta(milliseconds=300)
"""Several times what it takes until a new Table is published and every gateway has looked at it."""
START_LIMIT = timedelta(minutes=10)
"""After so long, what has not answered yet is told as a trouble. It is not ended: a large model may take its time."""


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
    fetched: Progress | None = None
    """How far the archive of a manifest is, when the version asked for is not there."""


class Obstacle(Exception):
    """Nothing is wrong with the spec, but it cannot be served here and now."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class Serving:
    kind = "InferenceModel"
    watches: tuple[str | Presence, ...] = ("Model", Presence("ModelVersion"), "Workload", "Node")

    def __init__(
        self, inference_url: str, context: Context, fetching: Fetching | None = None, *, here: str = ""
    ) -> None:
        """`context` tells what the engine of this home can do. `fetching` brings what manifests name. `here` is the
        name of the Node of this machine, which is in the default namespace and serves all of them."""
        self._inference_url = inference_url
        self._context = context
        self._fetching = fetching or NoFetching()
        self._here = here
        self._named = Mentions()
        """Models and ModelVersions by name, and for who asks for a node, any Node of the namespace."""

    def keys(self, resource: Resource) -> Iterable[Ref]:
        if resource.kind == "Workload":
            return owners(resource, self.kind)
        any_node = Ref("Node", "", resource.meta.namespace)
        return self._named.naming(any_node if resource.kind == "Node" else resource.ref)

    async def load(self, store: Store, ref: Ref) -> ServingFacts | None:
        resource = await find(store, ref)
        if resource is None or resource.deleting:
            self._fetching.forget(ref)
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
        placed = _any_nodes(resource) if placement.asks_for_node(spec) else ()
        named = [ref for ref in (model, version(spec.target_version), serving, *placed) if ref]
        self._named.note(resource.ref, named)
        target = version(meant_version(resource, spec, await find(store, model) if model else None))
        self._named.note(resource.ref, [*named, target] if target else named)
        found = await find(store, target) if target else None
        nodes = [node for each in placed for node in await whole(store, "Node", Where(namespace=each.namespace))]
        return ServingFacts(
            resource=resource,
            target=found,
            serving=await find(store, serving) if serving and serving != target else None,
            children=await _children(store, resource),
            nodes=tuple(nodes),
            fetched=self._fetched(resource, spec, found, nodes),
        )

    def _fetched(
        self, resource: Resource, spec: InferenceModelSpec, found: Resource | None, nodes: Sequence[Resource]
    ) -> Progress | None:
        """Nothing is fetched for what cannot run here, or is to run no more."""
        entry = entry_of(spec)
        misplaced = placement.misplaced(spec, nodes, self._here) is not None
        if entry is None or found is not None or resource.deleting or misplaced:
            self._fetching.forget(resource.ref)
            return None
        return self._fetching.look(resource, spec, entry)

    def decide(self, facts: ServingFacts, now: datetime) -> Decision:
        if facts.resource.deleting:
            return Decision()
        accepted, findings = catalog.accepted(facts.resource, self._context)
        if findings.faults:
            return self._refused(facts, accepted, accepted.reason, accepted.message)
        spec = InferenceModelSpec.of(facts.resource)
        try:
            version = _servable(facts, spec, self._here)
        except Obstacle as obstacle:
            return self._refused(facts, accepted, obstacle.reason, obstacle.message)
        except Invalid as fault:
            unreadable = _not("Accepted", "InvalidSpec", fault.message)
            return self._refused(facts, unreadable, unreadable.reason, unreadable.message)
        if version is None:
            missing = _not("Accepted", "VersionNotFound", _not_found(spec))
            return self._refused(facts, missing, missing.reason, missing.message)
        return self._accepted(facts, spec, version, accepted, now)

    def _accepted(
        self,
        facts: ServingFacts,
        spec: InferenceModelSpec,
        version: ModelVersionSpec,
        accepted: Condition,
        now: datetime,
    ) -> Decision:
        told = InferenceModelStatus.of(facts.resource)
        wanted = running.workload_of(facts.resource, spec, version, facts.children)
        workload = _child(facts, wanted.meta.name)
        old = None if spec.replicas == 0 else _old_workload(facts, spec, told, wanted)
        served, answers = told.serving_version, told.serving_workload
        lingering: tuple[Resource, ...] = ()
        if _may_take_over(spec, workload, old):
            served, answers, old = version.version, wanted.meta.name, None
            lingering = _lingering(facts, told, wanted, now)
        elif old is not None:
            answers = old.meta.name
        else:
            # What still answers to its name is what is wanted, away for a moment; or nothing does.
            served = served if served == version.version else None
            answers = wanted.meta.name if served else None
        children = (wanted, old) if old is not None else (wanted, *lingering)
        target = None if spec.target_version == version.version else version.version
        accepted = catalog.warned(accepted, tuple(_not_offered(spec)))
        conditions = (accepted, _ready(spec, version.version, workload, now, switching=old is not None))
        counted = _child(facts, old.meta.name) if old is not None else workload
        now_told = {"target_version": target, "serving_version": served, "serving_workload": answers}
        status = self._status(facts.resource, told.model_copy(update=now_told), counted, conditions)
        again = LINGER.total_seconds() if lingering else _patience(workload, now)
        return Decision(
            children=children,
            status=status,
            notes=tuple(_notes(facts.resource, told, status)),
            again=again if again > 0 else None,
        )

    def _refused(self, facts: ServingFacts, accepted: Condition, reason: str, message: str) -> Decision:
        told = InferenceModelStatus.of(facts.resource)
        conditions = (accepted, _not("Ready", reason, message))
        counted = _child(facts, _answering(facts.resource, told))
        return Decision(
            children=tuple(child for child in facts.children if not child.deleting),
            status=self._status(facts.resource, told, counted, conditions),
            again=PROGRESS if reason == "Fetching" else None,
        )

    def _status(
        self,
        resource: Resource,
        told: InferenceModelStatus,
        workload: Resource | None,
        conditions: tuple[Condition, ...],
    ) -> InferenceModelStatus:
        """`told` says what is meant and what answers; `workload` is counted."""
        replicas = WorkloadStatus.of(workload).replicas if workload else ()
        return InferenceModelStatus(
            conditions=conditions,
            url=url_of(self._inference_url, resource.ref) if told.serving_version else None,
            target_version=told.target_version,
            serving_version=told.serving_version,
            serving_workload=told.serving_workload,
            signature=WorkloadStatus.of(workload).signature if workload and told.serving_version else None,
            replicas=len(replicas),
            ready_replicas=sum(replica.state == "ready" for replica in replicas),
            restarts=sum(replica.restarts for replica in replicas),
        )


def _not_offered(spec: InferenceModelSpec) -> Iterator[Warn]:
    """What is asked for and not to be had on one machine, where it answers all the same."""
    if spec.serving_port:
        yield Warn("spec.servingPort", "no port of its own is opened here: it answers at status.url, on the gateway's")
    if spec.resources is not None and spec.resources.cpu is not None:
        yield Warn("spec.resources.cpu", "not enforced here; unless resources.threads does, it says how many threads")


def _notes(resource: Resource, told: InferenceModelStatus, status: InferenceModelStatus) -> Iterator[Note]:
    before, now = told.serving_version, status.serving_version
    if before and now and before != now:
        yield Note("Switched", f"version {now} answers instead of version {before}")
    # Of another Workload they are others; and with another spec it may have been another one.
    same = told.serving_workload == status.serving_workload and told.observed_generation == resource.meta.generation
    if same and status.restarts > told.restarts:
        yield Note("ReplicaEnded", "a replica ended and was started again; its log may say why", warning=True)


async def _children(store: Store, resource: Resource) -> tuple[Resource, ...]:
    where = Where(namespace=resource.meta.namespace, owner=resource.meta.uid)
    return await whole(store, "Workload", where)


def _any_nodes(resource: Resource) -> tuple[Ref, ...]:
    """Any Node of its namespace, and of that where the machine's own is."""
    namespaces = dict.fromkeys((resource.meta.namespace, DEFAULT_NAMESPACE))
    return tuple(Ref("Node", "", namespace) for namespace in namespaces)


def _numbered(spec: InferenceModelSpec) -> bool:
    """A number is a version and nothing else: the model need not be asked what it means. Nor for a manifest."""
    return (spec.target_version or "").isdecimal() or entry_of(spec) is not None


def meant_version(resource: Resource, spec: InferenceModelSpec, model: Resource | None) -> str | None:
    """The version that `targetVersion` names, itself or as an alias of the model; without it, the current one.

    Of a manifest, the entry's.
    """
    entry = entry_of(spec)
    if entry is not None:
        return entry.version
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


def _servable(facts: ServingFacts, spec: InferenceModelSpec, here: str) -> ModelVersionSpec | None:
    """The version to serve; None when there is none yet. Raises Obstacle, or Invalid when it cannot be read."""
    if spec.image:
        raise Obstacle("ContainersUnsupported", "this engine runs no container images; register a version and serve it")
    misplaced = placement.misplaced(spec, facts.nodes, here)
    if misplaced is not None:
        raise Obstacle(misplaced.reason, misplaced.message)
    if facts.fetched is not None:
        raise Obstacle({"fetching": "Fetching", "failed": "FetchFailed"}[facts.fetched.state], facts.fetched.message)
    if spec.checkpoint is not None:
        raise Obstacle("CheckpointNotFound", f"there is no checkpoint '{spec.checkpoint}'; leave spec.checkpoint out")
    if facts.target is None or facts.target.deleting:
        return None
    version = ModelVersionSpec.of(facts.target)
    _refuse_another_archive(entry_of(spec), version)
    if version.image is not None and not version.artifacts:
        raise Obstacle("ContainersUnsupported", f"{facts.target.ref} is a container image, and this engine runs none")
    if not version.artifacts:
        raise Obstacle("NoFiles", f"{facts.target.ref} has no files to serve; register a version with its files")
    framework = spec.framework_type or version.framework
    if framework not in SERVED_FRAMEWORKS:
        known = ", ".join(SERVED_FRAMEWORKS)
        raise Obstacle("UnsupportedFramework", f"nothing here serves framework '{framework}'; served are {known}")
    running.entrypoint(version)
    return version


def _refuse_another_archive(entry: ModelFile | None, version: ModelVersionSpec) -> None:
    """A version never changes: one that is there already must have come from the archive that is meant now."""
    wanted = entry.sha256sum if entry is not None else None
    source = version.source.sha256sum if version.source is not None else None
    if wanted is not None and wanted != source:
        it_is = f"the archive with the sha256 {source}" if source else "files that somebody registered"
        raise Obstacle(
            "VersionConflict",
            f"version {version.version} of model '{version.model_name}' was made from {it_is}, not from the one that "
            "the manifest names; versions never change, so give that one another version",
        )


def _not_found(spec: InferenceModelSpec) -> str:
    if spec.target_version is None:
        return f"model '{spec.model_name}' has no current version; set spec.targetVersion to the one to serve"
    return (
        f"model '{spec.model_name}' has no version {spec.target_version}; "
        "register it, or set spec.targetVersion to a version that exists"
    )


def _old_workload(
    facts: ServingFacts, spec: InferenceModelSpec, told: InferenceModelStatus, wanted: Resource
) -> Resource | None:
    """The Workload that answers now, to be kept during a switch: as it is, or rebuilt if it was lost."""
    name = _answering(facts.resource, told)
    if name is None or name == wanted.meta.name:
        return None
    there = _child(facts, name)
    if there is not None:
        return there
    if facts.serving is None:
        return None
    return running.workload_of(facts.resource, spec, ModelVersionSpec.of(facts.serving), facts.children)


def _answering(resource: Resource, told: InferenceModelStatus) -> str | None:
    """The name of the Workload that answers. An older plane did not say it, and gave each version one."""
    if told.serving_version is None:
        return None
    return told.serving_workload or workload_name(resource.meta.name, told.serving_version)


def _may_take_over(spec: InferenceModelSpec, new: Resource | None, old: Resource | None) -> bool:
    """Beside one that answers, only with as many replicas as are asked for: the load is there from the first moment."""
    if new is None or not _available(new):
        return False
    if old is None or not _available(old):
        return True
    ready = sum(replica.state == "ready" for replica in WorkloadStatus.of(new).replicas)
    return ready >= spec.replicas


def _lingering(
    facts: ServingFacts, told: InferenceModelStatus, wanted: Resource, now: datetime
) -> tuple[Resource, ...]:
    """What answered until a moment ago: it ends when gateways have seen who answers now.

    Were it ended at once, no request would fail, but those that come before a gateway has looked would have to wait.
    """
    ready = told.condition("Ready")
    since = parse_time(ready.last_transition_time) if ready is not None and ready.true else None
    if since is not None and now - since >= LINGER:
        return ()
    others = (child for child in facts.children if child.meta.name != wanted.meta.name and not child.deleting)
    return tuple(child for child in others if _available(child))


def _child(facts: ServingFacts, name: str | None) -> Resource | None:
    """The Workload of this name. One that is being deleted does not count, whatever its status still says."""
    return next((child for child in facts.children if child.meta.name == name and not child.deleting), None)


def _available(workload: Resource) -> bool:
    condition = WorkloadStatus.of(workload).condition("Available")
    return condition is not None and condition.true


def _ready(
    spec: InferenceModelSpec, version: str, workload: Resource | None, now: datetime, *, switching: bool
) -> Condition:
    """Of what the spec asks for: while the Workload before it still answers, not yet."""
    if spec.replicas == 0:
        return _not("Ready", "NoReplicas", "spec.replicas is 0")
    replicas = WorkloadStatus.of(workload).replicas if workload else ()
    if workload is not None and _available(workload) and not switching:
        return Condition(type="Ready", status="True", reason="Serving", message=f"version {version} answers")
    reason, message = _why_not(replicas)
    if reason == "Starting" and workload is not None and _patience(workload, now) <= 0 and not _available(workload):
        minutes = START_LIMIT // timedelta(minutes=1)
        reason, message = "NotReadyInTime", f"no answer for {minutes} minutes; its log may say why. {message}"
    if switching:
        message = f"{message}; what answered before goes on"
    return _not("Ready", reason, message)


def _patience(workload: Resource | None, now: datetime) -> float:
    """Seconds that it has left to become ready, or to be so again; 0 when it is."""
    if workload is None or _available(workload):
        return 0.0
    condition = WorkloadStatus.of(workload).condition("Available")
    since = parse_time(condition.last_transition_time) if condition is not None else None
    return ((since or now) + START_LIMIT - now).total_seconds()


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
