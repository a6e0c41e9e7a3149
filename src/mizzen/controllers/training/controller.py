"""The controller of TrainingJobs: what it loads, and how it comes to a Decision."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime

from mizzen.controllers.training import (
    checkpoint_retention,
    completion,
    conditions,
    start_checks,
)
from mizzen.controllers.training import (
    decide as training_decide,
)
from mizzen.controllers.training.admission_queue import Ask, Shares, Verdict
from mizzen.controllers.training.facts import WAITS, Saved, TrainingFacts, attempt_of, seen_of
from mizzen.controllers.training.ports import Ports
from mizzen.controllers.training.replicas import ask_of, replicas_of
from mizzen.controllers.training.results import Job, Looked, Results, saved_of
from mizzen.errors import Invalid
from mizzen.kinds import catalog
from mizzen.kinds.model import version_object_name
from mizzen.kinds.rules import placement, references
from mizzen.kinds.rules.references import Surroundings
from mizzen.kinds.schema.findings import Context
from mizzen.kinds.schema.resource import DEFAULT_NAMESPACE, Ref, Resource, parse_time
from mizzen.kinds.text import selectors
from mizzen.kinds.training import TrainingJobSpec, TrainingJobStatus
from mizzen.kinds.workload import MODEL_LABEL
from mizzen.reconcile.controller import Decision, Presence, find, owners
from mizzen.reconcile.reverse_index import Mentions
from mizzen.stores.all_pages import whole
from mizzen.stores.lookup import Lookup
from mizzen.stores.store import Store, Where

LOST = frozenset({"StorageUnavailable", "NoRoom", "RunnerLost", "Interrupted"})
"""Ends after which what was saved may be on this disk only."""


class Training:
    kind = "TrainingJob"
    watches: tuple[str | Presence, ...] = (Presence("ModelVersion"), "Workload", "Node")

    def __init__(
        self,
        context: Context,
        shares: Shares,
        results: Results,
        lookup: Lookup,
        *,
        now: Callable[[], datetime],
        here: str = "",
        ports: Ports | None = None,
    ) -> None:
        """`context` tells what the engine of this home can do; `here` is the name of the Node of this machine."""
        self._now = now
        self._began = now()
        self._context = context
        self._shares = shares
        self._results = results
        self._lookup = lookup
        self._here = here
        self._ports = ports or Ports()
        self._named = Mentions()
        """ModelVersions by name, and for who asks for a node, any Node of the namespace."""
        self._saved: dict[str, tuple[int, Saved]] = {}
        """By uid: how many checkpoints runners said they had kept when they were looked at last, and what was found."""

    async def prime(self, store: Store) -> None:
        """Before the first look at any job: who has a share counts before anybody new is given one."""
        for job in await whole(store, self.kind):
            told = TrainingJobStatus.of(job)
            self._ports.note(job.ref, told.ports.values() if not conditions.is_over(told) else ())
            try:
                spec = TrainingJobSpec.of(job)
            except Invalid:
                spec = None
            waits = spec is not None and not (
                conditions.is_over(told) or spec.suspend or told.terminated or job.deleting
            )
            if told.admitted or waits:
                ask = ask_of(spec, self._shares.whole) if spec is not None else Ask()
                priority = spec.priority if spec is not None else 0
                self._shares.note(
                    job.ref, job.meta.uid, ask, priority=priority, created=job.meta.created, admitted=told.admitted
                )

    def keys(self, resource: Resource) -> Iterable[Ref]:
        if resource.kind == "Workload":
            return owners(resource, self.kind)
        any_node = Ref("Node", "", resource.meta.namespace)
        return self._named.naming(any_node if resource.kind == "Node" else resource.ref)

    async def load(self, store: Store, ref: Ref) -> TrainingFacts | None:
        resource = await find(store, ref)
        if resource is None:
            self._forget(ref)
            return None
        told = TrainingJobStatus.of(resource)
        since = parse_time(told.running_since)
        inherited = since is not None and since < self._began
        facts = TrainingFacts(resource, await _children(store, resource), inherited=inherited)
        try:
            spec = TrainingJobSpec.of(resource)
        except Invalid:
            self._named.forget(ref)
            return replace(facts, verdict=self._kept(facts, told))
        if conditions.is_over(told) or resource.deleting:
            self._named.forget(ref)
            return await self._load_ended(store, replace(facts, verdict=self._kept(facts, told)), spec, told)
        facts = await self._load_named(store, facts, spec)
        facts = replace(facts, verdict=self._verdict(facts, spec, told))
        if facts.verdict.admitted:
            facts = replace(facts, ports=self._chosen_ports(facts, spec, told))
        return await self._load_results(store, facts, spec) if facts.verdict.admitted or told.admitted else facts

    async def _load_named(self, store: Store, facts: TrainingFacts, spec: TrainingJobSpec) -> TrainingFacts:
        resource = facts.resource
        version = (
            Ref("ModelVersion", version_object_name(spec.model_name, spec.version), resource.meta.namespace)
            if spec.version
            else None
        )
        placed = _any_nodes(resource) if placement.asks_for_node(spec) else ()
        # Noted before anything is read: what is created in between then wakes this key again.
        self._named.note(resource.ref, [*placed, *([version] if version is not None else [])])
        found = await find(store, version) if version is not None else None
        nodes = [node for each in placed for node in await whole(store, "Node", Where(namespace=each.namespace))]
        return replace(facts, version=found, nodes=tuple(nodes), there=await self._there(store, facts, found))

    async def _there(self, store: Store, facts: TrainingFacts, version: Resource | None) -> Surroundings:
        named = references.named(facts.resource)
        objects = {version.ref: None} if version is not None else {}
        if not named.secrets:
            return Surroundings(objects)
        looked = replace(named, objects=frozenset())
        return replace(await self._lookup.around(store, looked, facts.resource.meta.namespace), objects=objects)

    async def _load_results(self, store: Store, facts: TrainingFacts, spec: TrainingJobSpec) -> TrainingFacts:
        job = _job(facts.resource, spec)
        looked = await asyncio.to_thread(self._results.look, job)
        known = self._saved.get(job.uid)
        ended = any(_has_ended(child) for child in facts.children)  # then what is known has to be right
        if known is not None and known[0] == looked.saved and not ended:
            return _with(facts, looked, known[1])
        found = await self._keep(store, job, spec)
        if found is not None:
            self._saved[job.uid] = (looked.saved, found)
        return _with(facts, looked, found)

    async def _load_ended(
        self, store: Store, facts: TrainingFacts, spec: TrainingJobSpec, told: TrainingJobStatus
    ) -> TrainingFacts:
        """Once more when the last process is gone. Then all is known of it, and its status says so: at later looks, as
        at each start of a plane, only what is kept for a while may be due."""
        job, resource = _job(facts.resource, spec), facts.resource
        if resource.deleting:
            return facts
        settled = not facts.children and not told.admitted
        limited = spec.retention is not None and spec.retention.checkpoints is not None
        saved = await self._keep(store, job, spec) if not settled or limited else None
        looked = await asyncio.to_thread(self._results.look, job) if not settled else Looked()
        if not facts.children:
            self._saved.pop(job.uid, None)
            self._ports.forget(resource.ref)
            await self._tidy(job, spec, told)
        return _with(facts, looked, saved)

    async def _tidy(self, job: Job, spec: TrainingJobSpec, told: TrainingJobStatus) -> None:
        if told.admitted and not any(replica.reason in LOST for replica in told.replica_states):
            await asyncio.to_thread(self._results.clear, job.uid)
        kept = completion.until(told, completion.logs_kept(spec), self._now())
        if kept is not None and kept <= 0:
            await asyncio.to_thread(self._results.forget_logs, job.uid)

    async def _keep(self, store: Store, job: Job, spec: TrainingJobSpec) -> Saved | None:
        """What there is when retention has been seen to."""
        found = await asyncio.to_thread(self._results.checkpoints, job)
        if found is None:
            return None
        retention = spec.retention
        if checkpoint_retention.surplus(found, retention, checkpoint_retention.Served()):
            left = await asyncio.to_thread(self._results.keep, found, retention, await _served(store, job))
            # Somebody may have begun to serve one while it was removed: whichever came first, it is there in the end.
            served = await _served(store, job)
            missed = [each for each in found if each not in left and served.holds(each)]
            found = [*left, *await asyncio.to_thread(self._results.put_back, missed)]
        return saved_of(found)

    def _verdict(self, facts: TrainingFacts, spec: TrainingJobSpec, told: TrainingJobStatus) -> Verdict:
        resource = facts.resource
        if spec.suspend or told.terminated is not None:
            return self._kept(facts, told)
        if not told.admitted and self._refused(facts, spec):
            self._shares.leave(resource.ref)
            return WAITS
        return self._shares.look(
            resource.ref,
            resource.meta.uid,
            ask_of(spec, self._shares.whole),
            priority=spec.priority,
            created=resource.meta.created,
            admitted=told.admitted,
        )

    def _refused(self, facts: TrainingFacts, spec: TrainingJobSpec) -> bool:
        """It cannot be started anyway."""
        faults = catalog.accepted(facts.resource, self._context)[1].faults
        return bool(faults) or start_checks.blocked(facts, spec, self._here) is not None

    def _kept(self, facts: TrainingFacts, told: TrainingJobStatus) -> Verdict:
        """Of what is not to run any more: it has its share until its last process has ended."""
        if told.admitted and facts.children:
            return Verdict(admitted=True)
        self._shares.leave(facts.resource.ref)
        return Verdict(admitted=False)

    def _chosen_ports(self, facts: TrainingFacts, spec: TrainingJobSpec, told: TrainingJobStatus) -> dict[str, int]:
        self._ports.note(facts.resource.ref, told.ports.values())
        names = [replica.name for replica in replicas_of(spec)]
        lacking = [name for name in names if name not in told.ports] if len(names) > 1 else []
        return dict(self._ports.chosen(facts.resource.ref, lacking)) if lacking else {}

    def _forget(self, ref: Ref) -> None:
        self._named.forget(ref)
        self._shares.leave(ref)
        self._ports.forget(ref)

    def decide(self, facts: TrainingFacts, now: datetime) -> Decision:
        return training_decide.decide(facts, self._context, self._here, now)


def _job(resource: Resource, spec: TrainingJobSpec) -> Job:
    leader = next((replica.name for replica in replicas_of(spec)), "")
    return Job(resource.meta.namespace, spec.model_name, spec.version or "", resource.meta.uid, leader)


def _with(facts: TrainingFacts, looked: Looked, saved: Saved | None) -> TrainingFacts:
    return replace(facts, progress=looked.progress, saved=saved, leader_is_done=looked.leader_is_done)


def _has_ended(child: Resource) -> bool:
    seen = seen_of(child, attempt_of(child))
    return seen is not None and seen.state == "ended"


async def _children(store: Store, resource: Resource) -> tuple[Resource, ...]:
    return await whole(store, "Workload", Where(namespace=resource.meta.namespace, owner=resource.meta.uid))


async def _served(store: Store, job: Job) -> checkpoint_retention.Served:
    where = Where(namespace=job.namespace, fields={"spec.modelName": job.model})
    servers = await whole(store, "InferenceModel", where)
    of_model = Where(namespace=job.namespace, labels=selectors.equal({MODEL_LABEL: job.model}))
    return checkpoint_retention.served_by(servers, await whole(store, "Workload", of_model))


def _any_nodes(resource: Resource) -> tuple[Ref, ...]:
    """Any Node of its namespace, and of that where the machine's own is."""
    namespaces = dict.fromkeys((resource.meta.namespace, DEFAULT_NAMESPACE))
    return tuple(Ref("Node", "", namespace) for namespace in namespaces)
