"""The controller of InferenceModels: what it loads, and how it comes to a Decision."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from mizzen.controllers.serving import replica_count
from mizzen.controllers.serving.checkpoint_choice import checkpoint_of, chosen
from mizzen.controllers.serving.facts import Checkpoints, Scaled, Scaling, ServingFacts, Traffic
from mizzen.controllers.serving.readiness import ARRIVING, ASLEEP, WAKING, not_true, patience, ready
from mizzen.controllers.serving.version_resolution import (
    LOST,
    UNTRAINED,
    Obstacle,
    advised,
    awaits_trust,
    is_numbered,
    meant_version,
    not_found,
    servable,
)
from mizzen.controllers.serving.workload_switch import (
    answering,
    kept,
    lingering,
    may_take_over,
    next_workload,
    old_workload,
)
from mizzen.errors import Invalid
from mizzen.kinds import catalog
from mizzen.kinds.model import ModelVersionSpec, version_object_name
from mizzen.kinds.rules import placement, workload_template
from mizzen.kinds.rules.archive_progress import Fetching, NoFetching, Progress, entry_of
from mizzen.kinds.schema.findings import Context, Warn
from mizzen.kinds.schema.resource import DEFAULT_NAMESPACE, Condition, Ref, Resource
from mizzen.kinds.serving import InferenceModelSpec, InferenceModelStatus, url_of
from mizzen.kinds.workload import WorkloadStatus
from mizzen.reconcile.controller import Decision, Presence, find, owners
from mizzen.reconcile.recorder import Note
from mizzen.reconcile.reverse_index import Mentions
from mizzen.runs.checkpoints import Checkpoint
from mizzen.stores.all_pages import whole
from mizzen.stores.store import Store, Where

PROGRESS = 30.0
"""Seconds between two reports of how much has been fetched."""
SAVED = 5.0
"""Seconds between two looks for a checkpoint that something waits for: nobody tells when one is saved, or trusted."""
LOOK = 0.05
"""Seconds between two looks at whether gateways know what answers now, and have left what did before."""
LOOKS = {"Fetching": PROGRESS, UNTRAINED: SAVED, LOST: SAVED}
"""By what it waits for."""


class Serving:
    kind = "InferenceModel"
    watches: tuple[str | Presence, ...] = ("Model", Presence("ModelVersion"), "Workload", "Node")

    def __init__(
        self,
        inference_url: str,
        context: Context,
        fetching: Fetching | None = None,
        *,
        here: str = "",
        traffic: Traffic | None = None,
        scaling: Scaling | None = None,
        checkpoints: Checkpoints | None = None,
    ) -> None:
        """`context` tells what the engine of this home can do. `fetching` brings what manifests name. `here` is the
        name of the Node of this machine, which is in the default namespace and serves all of them. `traffic` tells
        what gateways know; without it, they know all at once. `scaling` says how many replicas the load asks for;
        without it, specs alone do. `checkpoints` has what jobs saved; without it, nothing was."""
        self._inference_url = inference_url
        self._context = context
        self._fetching = fetching or NoFetching()
        self._here = here
        self._traffic = traffic
        self._scaling = scaling
        self._checkpoints = checkpoints
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
            self._unscale(ref)
        if resource is None:
            self._named.forget(ref)
            return None
        try:
            spec = InferenceModelSpec.of(resource)
        except Invalid:
            self._named.forget(ref)
            self._unscale(ref)
            return ServingFacts(resource, None, None, await _children(store, resource))
        return await self._load(store, resource, spec)

    async def _load(self, store: Store, resource: Resource, spec: InferenceModelSpec) -> ServingFacts:
        namespace = resource.meta.namespace

        def version(text: str | None) -> Ref | None:
            return Ref("ModelVersion", version_object_name(spec.model_name, text), namespace) if text else None

        # Everything is noted before it is read: what is created in between then wakes this key again.
        model = None if is_numbered(spec) else Ref("Model", spec.model_name, namespace)
        serving = version(InferenceModelStatus.of(resource).serving_version)
        placed = _any_nodes(resource) if placement.asks_for_node(spec) else ()
        named = [ref for ref in (model, version(spec.target_version), serving, *placed) if ref]
        self._named.note(resource.ref, named)
        target = version(meant_version(resource, spec, await find(store, model) if model else None))
        self._named.note(resource.ref, [*named, target] if target else named)
        found = await find(store, target) if target else None
        nodes = [node for each in placed for node in await whole(store, "Node", Where(namespace=each.namespace))]
        children = await _children(store, resource)
        saved = await self._saved(resource, spec, found)
        told = InferenceModelStatus.of(resource)
        other = serving != target or told.serving_checkpoint != (saved and saved.id)
        answers = await find(store, serving) if serving and other else None
        return ServingFacts(
            resource=resource,
            target=found,
            serving=answers,
            children=children,
            checkpoint=saved,
            serving_checkpoint=await self._found(answers, told.serving_checkpoint) if answers is not None else None,
            nodes=tuple(nodes),
            fetched=self._fetched(resource, spec, found, nodes),
            left=frozenset(child.meta.name for child in children if self._has_left(child))
            if len(children) > 1
            else frozenset(),
            unreached=frozenset(child.meta.name for child in children if not self._is_reached(child)),
            scaled=self._scaled(resource, spec),
        )

    async def _saved(self, resource: Resource, spec: InferenceModelSpec, version: Resource | None) -> Checkpoint | None:
        if self._checkpoints is None or version is None or resource.deleting:
            return None
        return await asyncio.to_thread(chosen, self._checkpoints, resource, spec, version)

    async def _found(self, version: Resource, id_: str | None) -> Checkpoint | None:
        if self._checkpoints is None or id_ is None:
            return None
        return await asyncio.to_thread(checkpoint_of, self._checkpoints, version, id_)

    def _scaled(self, resource: Resource, spec: InferenceModelSpec) -> Scaled | None:
        if self._scaling is None or resource.deleting:
            return None
        told = InferenceModelStatus.of(resource)
        # What rests has answered before; a spec that is refused, or a version that cannot start, does not wake it.
        rests = told.desired_replicas == 0 and told.serving_version is not None
        return self._scaling.replicas(resource.ref, spec, told.desired_replicas, proven=rests or told.is_true("Ready"))

    def _unscale(self, ref: Ref) -> None:
        if self._scaling is not None:
            self._scaling.forget(ref)

    def _has_left(self, child: Resource) -> bool:
        return self._traffic is None or self._traffic.has_left(_addresses(child))

    def _is_reached(self, child: Resource) -> bool:
        return self._traffic is None or self._traffic.reaches(_addresses(child))

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
            return self._refused(facts, accepted, accepted.reason, accepted.message, now)
        spec = InferenceModelSpec.of(facts.resource)
        try:
            version = servable(facts, spec, self._here, self._context.capabilities)
        except Obstacle as obstacle:
            return self._refused(facts, accepted, obstacle.reason, obstacle.message, now)
        except Invalid as fault:
            unreadable = not_true("Accepted", "InvalidSpec", fault.message)
            return self._refused(facts, unreadable, unreadable.reason, unreadable.message, now)
        if version is None:
            missing = not_true("Accepted", "VersionNotFound", not_found(spec))
            return self._refused(facts, missing, missing.reason, missing.message, now)
        return self._accepted(facts, replica_count.meant(spec, facts.scaled), version, accepted, now)

    def _accepted(
        self,
        facts: ServingFacts,
        spec: InferenceModelSpec,
        version: ModelVersionSpec,
        accepted: Condition,
        now: datetime,
    ) -> Decision:
        told = InferenceModelStatus.of(facts.resource)
        beside = workload_template.workload_of(facts.resource, spec, version, facts.children)
        wanted = next_workload(facts, told, beside)
        files = workload_template.files_digest(wanted.spec["artifacts"])
        workload = facts.child(wanted.meta.name)
        mine = answering(facts.resource, told) == wanted.meta.name
        if not mine or told.serving_files not in ("", files):
            spec = replica_count.proving(spec, facts.scaled)
            wanted = replica_count.sized(wanted, spec.replicas)
        old = None if spec.replicas == 0 else old_workload(facts, spec, told, wanted)
        if old is not None and facts.scaled is not None:
            old = replica_count.sized(old, facts.scaled.replicas)
        served, answers, served_files = told.serving_version, told.serving_workload, told.serving_files
        saved = facts.checkpoint.id if facts.checkpoint is not None else None
        served_checkpoint = told.serving_checkpoint
        reloading = False
        staying: tuple[Resource, ...] = ()
        if may_take_over(spec, files, workload, old):
            served, answers, served_files, old = version.version, wanted.meta.name, files, None
            served_checkpoint = saved
            staying = lingering(facts, told, wanted)
        elif old is not None:
            answers = old.meta.name
        elif mine and told.serving_files not in ("", files) and spec.replicas > 0:
            reloading = True
        else:
            # What still answers to its name is what is wanted, away for a moment; or nothing does.
            staying = lingering(facts, told, wanted) if mine else ()
            served = served if served == version.version else None
            answers = wanted.meta.name if served else None
            served_files = files if served else ""
            served_checkpoint = saved if served else None
        children = (wanted, old) if old is not None else (wanted, *staying)
        target = None if spec.target_version == version.version else version.version
        accepted = catalog.warned(accepted, tuple(_not_offered(spec)))
        # Whoever has answered goes on to, also while nobody can tell what gateways know, as at a start of the plane.
        arriving = wanted.meta.name in facts.unreached and not (mine and told.is_true("Ready"))
        before = told.condition("Ready")
        is_ready = ready(
            spec, version.version, workload, now, switching=old is not None, reloading=reloading, arriving=arriving,
            scaled=facts.scaled is not None,
            rested=facts.scaled is not None and before is not None and before.reason in (ASLEEP, WAKING),
        )  # fmt: skip
        is_ready = advised(is_ready, facts)
        counted = facts.child(old.meta.name) if old is not None else workload
        now_told = {
            "target_version": target,
            "serving_version": served,
            "serving_workload": answers,
            "serving_files": served_files,
            "checkpoint": saved if spec.checkpoint is None else None,
            "serving_checkpoint": served_checkpoint,
            **replica_count.recorded(told, facts.scaled, now),
        }
        status = self._status(facts.resource, told.model_copy(update=now_told), counted, (accepted, is_ready))
        again = 0.0 if is_ready.reason == ASLEEP else patience(workload, now)
        if staying or is_ready.reason == ARRIVING:
            again = LOOK
        elif awaits_trust(is_ready, facts):
            again = SAVED
        return Decision(
            children=children,
            status=status,
            notes=(*_refusals(facts, told, version), *_notes(facts.resource, told, status)),
            again=again if again > 0 else None,
        )

    def _refused(self, facts: ServingFacts, accepted: Condition, reason: str, message: str, now: datetime) -> Decision:
        told = InferenceModelStatus.of(facts.resource)
        conditions = (accepted, not_true("Ready", reason, message))
        counted = facts.child(answering(facts.resource, told))
        told = told.model_copy(update=replica_count.recorded(told, facts.scaled, now))
        children = [kept(facts, told, child) for child in facts.children if not child.deleting]
        if facts.scaled is not None and counted is not None:  # what runs, runs on, and follows the load
            name, replicas = counted.meta.name, facts.scaled.replicas
            children = [replica_count.sized(each, replicas) if each.meta.name == name else each for each in children]
        return Decision(
            children=tuple(children),
            status=self._status(facts.resource, told, counted, conditions),
            notes=tuple(_notes(facts.resource, InferenceModelStatus.of(facts.resource), told)),
            again=LOOKS.get(reason),
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
            serving_files=told.serving_files,
            checkpoint=told.checkpoint,
            serving_checkpoint=told.serving_checkpoint,
            signature=WorkloadStatus.of(workload).signature if workload and told.serving_version else None,
            replicas=len(replicas),
            desired_replicas=told.desired_replicas,
            desired_since=told.desired_since,
            desired_reason=told.desired_reason,
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
    scaled = replica_count.note(told, status)
    if scaled is not None:
        yield scaled
    if before and now and before != now:
        yield Note("Switched", f"version {now} answers instead of version {before}")
    elif now and before and told.serving_checkpoint != status.serving_checkpoint:
        saved = status.serving_checkpoint
        yield Note("Switched", f"checkpoint {saved} answers" if saved else f"the files of version {now} itself answer")
    # Of another Workload they are others; and with another spec it may have been another one.
    same = told.serving_workload == status.serving_workload and told.observed_generation == resource.meta.generation
    if same and status.restarts > told.restarts:
        yield Note("ReplicaEnded", "a replica ended and was started again; its log may say why", warning=True)


def _refusals(facts: ServingFacts, told: InferenceModelStatus, version: ModelVersionSpec) -> Iterator[Note]:
    answers = facts.child(answering(facts.resource, told))
    why = workload_template.refusal(answers) if answers is not None else ""
    if why:
        said = f"what answers does not take the files of version {version.version}, which is started beside it: {why}"
        yield Note("ReloadRefused", said, warning=True)


async def _children(store: Store, resource: Resource) -> tuple[Resource, ...]:
    where = Where(namespace=resource.meta.namespace, owner=resource.meta.uid)
    return await whole(store, "Workload", where)


def _addresses(workload: Resource) -> list[str]:
    return [replica.address for replica in WorkloadStatus.of(workload).replicas if replica.address]


def _any_nodes(resource: Resource) -> tuple[Ref, ...]:
    """Any Node of its namespace, and of that where the machine's own is."""
    namespaces = dict.fromkeys((resource.meta.namespace, DEFAULT_NAMESPACE))
    return tuple(Ref("Node", "", namespace) for namespace in namespaces)
