"""The controller of InferenceModels: its facts and its decisions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from mizzen.controllers.serving import replica_count
from mizzen.controllers.serving.checkpoint_choice import choose_checkpoint, find_checkpoint
from mizzen.controllers.serving.facts import Checkpoints, Scaler, ServingFacts
from mizzen.controllers.serving.readiness import ROUTING, SCALED_TO_ZERO, WAKING, ready_condition, start_time_left
from mizzen.controllers.serving.version_resolution import (
    CHECKPOINT_LOST,
    UNTRAINED,
    ServingObstacle,
    add_trust_advice,
    awaits_trust,
    explain_not_found,
    find_servable,
    is_numbered,
    resolve_version,
)
from mizzen.controllers.serving.workload_switch import Switch, keep_serving_files, plan_switch, serving_workload_name
from mizzen.errors import Invalid
from mizzen.kinds import catalog
from mizzen.kinds.model import ModelVersionSpec, version_object_name
from mizzen.kinds.rules import placement, workload_template
from mizzen.kinds.rules.archive_progress import ArchiveFetcher, FetchProgress, NoArchiveFetcher, entry_of
from mizzen.kinds.schema.findings import Context, Warn
from mizzen.kinds.schema.resource import Condition, Ref, Resource
from mizzen.kinds.serving import InferenceModelSpec, InferenceModelStatus, url_of
from mizzen.kinds.workload import WorkloadStatus
from mizzen.reconcile.controller import Decision, Presence, find, find_owners
from mizzen.reconcile.recorder import EventNote
from mizzen.reconcile.reverse_index import ReverseIndex
from mizzen.reconcile.workloads import DesiredScale, Traffic, addresses_of, any_nodes, count_ready, false_condition
from mizzen.runs.checkpoints import Checkpoint
from mizzen.stores.all_pages import whole, workloads_of
from mizzen.stores.store import Store, Where

FETCH_POLL = 30.0
"""Seconds between two updates of the fetch progress."""
CHECKPOINT_POLL = 5.0
"""Seconds between two lookups of a missing or untrusted checkpoint: saving or trusting one triggers no event."""
GATEWAY_POLL = 0.05
"""Seconds between two checks of whether gateways route to the new Workload and no longer to the old one."""
POLL_BY_REASON = {"Fetching": FETCH_POLL, UNTRAINED: CHECKPOINT_POLL, CHECKPOINT_LOST: CHECKPOINT_POLL}
"""Poll intervals by the reason for waiting."""


class Serving:
    kind = "InferenceModel"
    watches: tuple[str | Presence, ...] = ("Model", Presence("ModelVersion"), "Workload", "Node")

    def __init__(
        self,
        inference_url: str,
        context: Context,
        fetching: ArchiveFetcher | None = None,
        *,
        here: str = "",
        traffic: Traffic | None = None,
        scaler: Scaler | None = None,
        checkpoints: Checkpoints | None = None,
    ) -> None:
        """`context` lists the capabilities of the engine. `fetching` fetches the archives that manifests name. `here`
        is the name of this machine's Node, which is in the default namespace and serves all namespaces. `traffic` knows
        where gateways route to; without it, gateways count as up to date. `scaler` returns the replicas that the load
        needs; without it, only specs set them. `checkpoints` finds those that jobs saved; without it, none exist."""
        self._inference_url = inference_url
        self._context = context
        self._fetching = fetching or NoArchiveFetcher()
        self._here = here
        self._traffic = traffic
        self._scaler = scaler
        self._checkpoints = checkpoints
        self._named = ReverseIndex()
        """Models and ModelVersions by name; for a spec with a node selector, also any Node of the namespace."""

    def keys(self, resource: Resource) -> Iterable[Ref]:
        if resource.kind == "Workload":
            return find_owners(resource, self.kind)
        any_node = Ref("Node", "", resource.meta.namespace)
        return self._named.keys_for(any_node if resource.kind == "Node" else resource.ref)

    async def load(self, store: Store, ref: Ref) -> ServingFacts | None:
        resource = await find(store, ref)
        if resource is None or resource.deleting:
            self._fetching.forget(ref)
            self._forget_scale(ref)
        if resource is None:
            self._named.remove(ref)
            return None
        try:
            spec = InferenceModelSpec.of(resource)
        except Invalid:
            self._named.remove(ref)
            self._forget_scale(ref)
            return ServingFacts(resource, None, None, await workloads_of(store, resource))
        return await self._load(store, resource, spec)

    async def _load(self, store: Store, resource: Resource, spec: InferenceModelSpec) -> ServingFacts:
        namespace = resource.meta.namespace

        def version(text: str | None) -> Ref | None:
            return Ref("ModelVersion", version_object_name(spec.model_name, text), namespace) if text else None

        # Everything is indexed before it is read: an object created in between then wakes this key again.
        model = None if is_numbered(spec) else Ref("Model", spec.model_name, namespace)
        serving = version(InferenceModelStatus.of(resource).serving_version)
        placed = any_nodes(resource) if placement.asks_for_node(spec) else ()
        named = [ref for ref in (model, version(spec.target_version), serving, *placed) if ref]
        self._named.set(resource.ref, named)
        target = version(resolve_version(resource, spec, await find(store, model) if model else None))
        self._named.set(resource.ref, [*named, target] if target else named)
        found = await find(store, target) if target else None
        nodes = [node for each in placed for node in await whole(store, "Node", Where(namespace=each.namespace))]
        children = await workloads_of(store, resource)
        saved = await self._choose_checkpoint(resource, spec, found)
        last_status = InferenceModelStatus.of(resource)
        other = serving != target or last_status.serving_checkpoint != (saved and saved.id)
        answers = await find(store, serving) if serving and other else None
        # A single Workload is never waited for.
        left = [child for child in children if self._has_left(child)] if len(children) > 1 else []
        return ServingFacts(
            resource=resource,
            target=found,
            serving=answers,
            children=children,
            checkpoint=saved,
            serving_checkpoint=await self._find_checkpoint(answers, last_status.serving_checkpoint),
            nodes=tuple(nodes),
            fetched=self._fetch(resource, spec, found, nodes),
            left=frozenset(child.meta.name for child in left),
            unreached=frozenset(child.meta.name for child in children if not self._is_reached(child)),
            scale=self._scale(resource, spec),
        )

    async def _choose_checkpoint(
        self, resource: Resource, spec: InferenceModelSpec, version: Resource | None
    ) -> Checkpoint | None:
        if self._checkpoints is None or version is None or resource.deleting:
            return None
        return await asyncio.to_thread(choose_checkpoint, self._checkpoints, resource, spec, version)

    async def _find_checkpoint(self, version: Resource | None, id_: str | None) -> Checkpoint | None:
        if self._checkpoints is None or version is None or id_ is None:
            return None
        return await asyncio.to_thread(find_checkpoint, self._checkpoints, version, id_)

    def _scale(self, resource: Resource, spec: InferenceModelSpec) -> DesiredScale | None:
        if self._scaler is None or resource.deleting:
            return None
        last_status = InferenceModelStatus.of(resource)
        # A model scaled to zero has been ready before. A rejected spec or a version that cannot start does not wake it.
        rests = last_status.desired_replicas == 0 and last_status.serving_version is not None
        return self._scaler.replicas(
            resource.ref, spec, last_status.desired_replicas, proven=rests or last_status.is_true("Ready")
        )

    def _forget_scale(self, ref: Ref) -> None:
        if self._scaler is not None:
            self._scaler.forget(ref)

    def _has_left(self, child: Resource) -> bool:
        return self._traffic is None or self._traffic.has_left(addresses_of(child))

    def _is_reached(self, child: Resource) -> bool:
        return self._traffic is None or self._traffic.reaches(addresses_of(child))

    def _fetch(
        self, resource: Resource, spec: InferenceModelSpec, found: Resource | None, nodes: Sequence[Resource]
    ) -> FetchProgress | None:
        """Fetch nothing for an object that cannot run here or is being deleted."""
        entry = entry_of(spec)
        misplaced = placement.find_obstacle(spec, nodes, self._here) is not None
        if entry is None or found is not None or resource.deleting or misplaced:
            self._fetching.forget(resource.ref)
            return None
        return self._fetching.look(resource, spec, entry)

    def decide(self, facts: ServingFacts, now: datetime) -> Decision:
        if facts.resource.deleting:
            return Decision()
        accepted, findings = catalog.check_accepted(facts.resource, self._context)
        if findings.faults:
            return self._decide_rejected(facts, accepted, accepted.reason, accepted.message, now)
        spec = InferenceModelSpec.of(facts.resource)
        try:
            version = find_servable(facts, spec, self._here, self._context.capabilities)
        except ServingObstacle as obstacle:
            return self._decide_rejected(facts, accepted, obstacle.reason, obstacle.message, now)
        except Invalid as fault:
            unreadable = false_condition("Accepted", "InvalidSpec", fault.message)
            return self._decide_rejected(facts, unreadable, unreadable.reason, unreadable.message, now)
        if version is None:
            missing = false_condition("Accepted", "VersionNotFound", explain_not_found(spec))
            return self._decide_rejected(facts, missing, missing.reason, missing.message, now)
        return self._decide_accepted(facts, replica_count.with_scale(spec, facts.scale), version, accepted, now)

    def _decide_accepted(
        self,
        facts: ServingFacts,
        spec: InferenceModelSpec,
        version: ModelVersionSpec,
        accepted: Condition,
        now: datetime,
    ) -> Decision:
        last_status = InferenceModelStatus.of(facts.resource)
        switch = plan_switch(facts, spec, version)
        accepted = catalog.add_warnings(accepted, tuple(_list_unsupported(spec)))
        ready = add_trust_advice(_ready_condition(facts, switch, version.version, now), facts)
        saved = facts.checkpoint.id if facts.checkpoint is not None else None
        update = {
            "target_version": None if spec.target_version == version.version else version.version,
            "checkpoint": saved if spec.checkpoint is None else None,
            **switch.serving,
            **replica_count.scale_status(last_status, facts.scale, now),
        }
        counted = facts.child(switch.old.meta.name) if switch.old is not None else switch.workload
        status = self._status(facts.resource, last_status.model_copy(update=update), counted, (accepted, ready))
        again = 0.0 if ready.reason == SCALED_TO_ZERO else start_time_left(switch.workload, now)
        if switch.draining or ready.reason == ROUTING:
            again = GATEWAY_POLL
        elif awaits_trust(ready, facts):
            again = CHECKPOINT_POLL
        return Decision(
            children=switch.children,
            status=status,
            notes=(*_reload_notes(facts, last_status, version), *_list_notes(facts.resource, last_status, status)),
            requeue_after=again if again > 0 else None,
        )

    def _decide_rejected(
        self, facts: ServingFacts, accepted: Condition, reason: str, message: str, now: datetime
    ) -> Decision:
        last_status = InferenceModelStatus.of(facts.resource)
        conditions = (accepted, false_condition("Ready", reason, message))
        counted = facts.child(serving_workload_name(facts.resource, last_status))
        last_status = last_status.model_copy(update=replica_count.scale_status(last_status, facts.scale, now))
        children = [keep_serving_files(facts, last_status, child) for child in facts.children if not child.deleting]
        if facts.scale is not None and counted is not None:  # the running Workload keeps following the load
            name, replicas = counted.meta.name, facts.scale.replicas
            children = [
                replica_count.with_replicas(each, replicas) if each.meta.name == name else each for each in children
            ]
        return Decision(
            children=tuple(children),
            status=self._status(facts.resource, last_status, counted, conditions),
            notes=tuple(_list_notes(facts.resource, InferenceModelStatus.of(facts.resource), last_status)),
            requeue_after=POLL_BY_REASON.get(reason),
        )

    def _status(
        self,
        resource: Resource,
        decided: InferenceModelStatus,
        workload: Resource | None,
        conditions: tuple[Condition, ...],
    ) -> InferenceModelStatus:
        """`decided` holds the target and the serving version; the replicas of `workload` are counted."""
        reported = WorkloadStatus.of(workload) if workload else WorkloadStatus()
        serves = bool(decided.serving_version)
        counted = {
            "conditions": conditions,
            "url": url_of(self._inference_url, resource.ref) if serves else None,
            "signature": reported.signature if serves else None,
            "replicas": len(reported.replicas),
            "ready_replicas": count_ready(workload),
            "restarts": sum(replica.restarts for replica in reported.replicas),
        }
        return decided.model_copy(update=counted)


def _ready_condition(facts: ServingFacts, switch: Switch, version: str, now: datetime) -> Condition:
    last_status = InferenceModelStatus.of(facts.resource)
    before = last_status.condition("Ready")
    was_ready = switch.is_serving and last_status.is_true("Ready")
    return ready_condition(
        switch.spec,
        version,
        switch.workload,
        now,
        switching=switch.old is not None,
        reloading=switch.reloading,
        # A ready Workload stays ready while it is unknown what gateways route to, as at a start of the plane.
        routing=switch.wanted.meta.name in facts.unreached and not was_ready,
        scaled=facts.scale is not None,
        was_scaled_to_zero=facts.scale is not None and before is not None and before.reason in (SCALED_TO_ZERO, WAKING),
    )


def _list_unsupported(spec: InferenceModelSpec) -> Iterator[Warn]:
    """Warnings about fields that have no effect on a single machine."""
    if spec.serving_port:
        yield Warn("spec.servingPort", "ignored: this engine opens no dedicated port; send requests to status.url")


def _list_notes(
    resource: Resource, last_status: InferenceModelStatus, status: InferenceModelStatus
) -> Iterator[EventNote]:
    before, now = last_status.serving_version, status.serving_version
    scaled = replica_count.scale_note(last_status, status)
    if scaled is not None:
        yield scaled
    if before and now and before != now:
        yield EventNote("Switched", f"switched from version {before} to version {now}")
    elif now and before and last_status.serving_checkpoint != status.serving_checkpoint:
        saved = status.serving_checkpoint
        to = f"checkpoint {saved}" if saved else f"the files of version {now} itself"
        yield EventNote("Switched", f"switched to {to}")
    # Restarts are comparable only within one Workload, and another spec may mean another Workload.
    same_workload = last_status.serving_workload == status.serving_workload
    same_spec = last_status.observed_generation == resource.meta.generation
    if same_workload and same_spec and status.restarts > last_status.restarts:
        yield EventNote("ReplicaEnded", "a replica ended and was restarted; check its log", warning=True)


def _reload_notes(
    facts: ServingFacts, last_status: InferenceModelStatus, version: ModelVersionSpec
) -> Iterator[EventNote]:
    answers = facts.child(serving_workload_name(facts.resource, last_status))
    why = workload_template.refusal(answers) if answers is not None else ""
    if why:
        message = f"running replicas cannot load the files of version {version.version}, so new replicas start: {why}"
        yield EventNote("ReloadRefused", message, warning=True)
