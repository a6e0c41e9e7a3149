"""The controller of TrainingJobs: it loads the facts; `decide` decides."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime

from mizzen.controllers.training import checkpoint_retention, completion, conditions, start_checks
from mizzen.controllers.training import decide as training_decide
from mizzen.controllers.training.admission_queue import Admission, AdmissionQueue, QueuedJob, ResourceRequest
from mizzen.controllers.training.facts import PENDING, SavedCheckpoints, TrainingFacts, attempt_of, find_observation
from mizzen.controllers.training.ports import JobPorts
from mizzen.controllers.training.replicas import replicas_of, resource_request_of
from mizzen.controllers.training.results import JobFiles, JobKey, JobResults, saved_of
from mizzen.errors import Invalid
from mizzen.kinds import catalog
from mizzen.kinds.model import version_object_name
from mizzen.kinds.rules import placement, references
from mizzen.kinds.rules.references import ReferencedObjects
from mizzen.kinds.schema.findings import Context
from mizzen.kinds.schema.resource import Ref, Resource, parse_time
from mizzen.kinds.text import selectors
from mizzen.kinds.training import TrainingJobSpec, TrainingJobStatus
from mizzen.kinds.workload import MODEL_LABEL
from mizzen.reconcile.controller import Decision, Presence, find, find_owners
from mizzen.reconcile.reverse_index import ReverseIndex
from mizzen.reconcile.workloads import any_nodes
from mizzen.stores.all_pages import whole, workloads_of
from mizzen.stores.lookup import Lookup
from mizzen.stores.store import Store, Where

UNSAVED_REASONS = frozenset({"StorageUnavailable", "NoRoom", "RunnerLost", "Interrupted"})
"""Ends after which saved checkpoints may be on this disk only."""


class TrainingJobs:
    kind = "TrainingJob"
    watches: tuple[str | Presence, ...] = (Presence("ModelVersion"), "Workload", "Node")

    def __init__(
        self,
        context: Context,
        queue: AdmissionQueue,
        results: JobResults,
        lookup: Lookup,
        *,
        now: Callable[[], datetime],
        here: str = "",
        ports: JobPorts | None = None,
    ) -> None:
        """`context` lists the capabilities of the engine; `here` is the name of this machine's Node."""
        self._now = now
        self._began = now()
        self._context = context
        self._queue = queue
        self._results = results
        self._lookup = lookup
        self._here = here
        self._ports = ports or JobPorts()
        self._named = ReverseIndex()
        """ModelVersions by name; for a job with a node selector, also any Node of the namespace."""
        self._saved: dict[str, tuple[int, SavedCheckpoints]] = {}
        """By uid: the number of checkpoints that runners had reported at the last listing, and its result."""

    async def restore(self, store: Store) -> None:
        """Restore the admission queue and the ports before any job is loaded: admitted jobs count before new ones."""
        for job in await whole(store, self.kind):
            last_status = TrainingJobStatus.of(job)
            self._ports.reserve(job.ref, last_status.ports.values() if not conditions.is_over(last_status) else ())
            try:
                spec = TrainingJobSpec.of(job)
            except Invalid:
                spec = None
            waits = spec is not None and not (
                conditions.is_over(last_status) or spec.suspend or last_status.terminated or job.deleting
            )
            if last_status.admitted or waits:
                self._queue.restore(self._queued_job(job, spec), admitted=last_status.admitted)

    def keys(self, resource: Resource) -> Iterable[Ref]:
        if resource.kind == "Workload":
            return find_owners(resource, self.kind)
        any_node = Ref("Node", "", resource.meta.namespace)
        return self._named.keys_for(any_node if resource.kind == "Node" else resource.ref)

    async def load(self, store: Store, ref: Ref) -> TrainingFacts | None:
        resource = await find(store, ref)
        if resource is None:
            self._forget(ref)
            return None
        last_status = TrainingJobStatus.of(resource)
        since = parse_time(last_status.running_since)
        inherited = since is not None and since < self._began
        facts = TrainingFacts(resource, await workloads_of(store, resource), inherited=inherited)
        try:
            spec = TrainingJobSpec.of(resource)
        except Invalid:
            self._named.remove(ref)
            return replace(facts, admission=self._keep_share(facts, last_status))
        if conditions.is_over(last_status) or resource.deleting:
            self._named.remove(ref)
            facts = replace(facts, admission=self._keep_share(facts, last_status))
            return await self._load_ended(store, facts, spec, last_status)
        facts = await self._load_inputs(store, facts, spec)
        facts = replace(facts, admission=self._admit(facts, spec, last_status))
        if facts.admission.admitted:
            facts = replace(facts, ports=self._choose_ports(facts, spec, last_status))
        begun = facts.admission.admitted or last_status.admitted
        return await self._load_results(store, facts, spec) if begun else facts

    async def _load_inputs(self, store: Store, facts: TrainingFacts, spec: TrainingJobSpec) -> TrainingFacts:
        resource = facts.resource
        placed = any_nodes(resource) if placement.asks_for_node(spec) else ()
        # Indexed before anything is read: an object created in between then wakes this key again.
        names = [version_object_name(spec.model_name, spec.version)] if spec.version else []
        versions = [Ref("ModelVersion", name, resource.meta.namespace) for name in names]
        self._named.set(resource.ref, [*placed, *versions])
        found = await find(store, versions[0]) if versions else None
        nodes = [node for each in placed for node in await whole(store, "Node", Where(namespace=each.namespace))]
        named = await self._find_references(store, facts, found)
        return replace(facts, version=found, nodes=tuple(nodes), referenced=named)

    async def _find_references(self, store: Store, facts: TrainingFacts, version: Resource | None) -> ReferencedObjects:
        named = references.references_of(facts.resource)
        objects = {version.ref: None} if version is not None else {}
        if not named.secrets:
            return ReferencedObjects(objects)
        files = replace(named, objects=frozenset())
        return replace(await self._lookup.around(store, files, facts.resource.meta.namespace), objects=objects)

    async def _load_results(self, store: Store, facts: TrainingFacts, spec: TrainingJobSpec) -> TrainingFacts:
        job = _job_of(facts.resource, spec)
        files = await asyncio.to_thread(self._results.read, job)
        known = self._saved.get(job.uid)
        ended = any(_has_ended(child) for child in facts.children)  # then the listing must be up to date
        if known is not None and known[0] == files.saved and not ended:
            return _with_results(facts, files, known[1])
        found = await self._apply_retention(store, job, spec)
        if found is not None:
            self._saved[job.uid] = (files.saved, found)
        return _with_results(facts, files, found)

    async def _load_ended(
        self, store: Store, facts: TrainingFacts, spec: TrainingJobSpec, last_status: TrainingJobStatus
    ) -> TrainingFacts:
        """Load the results once more when the last process has ended; the status then has all of them. Later loads, as
        at each start of a plane, only apply retention."""
        job, resource = _job_of(facts.resource, spec), facts.resource
        if resource.deleting:
            return facts
        settled = not facts.children and not last_status.admitted
        limited = spec.retention is not None and spec.retention.checkpoints is not None
        saved = await self._apply_retention(store, job, spec) if not settled or limited else None
        files = await asyncio.to_thread(self._results.read, job) if not settled else JobFiles()
        if not facts.children:
            self._saved.pop(job.uid, None)
            self._ports.release(resource.ref)
            await self._tidy(job, spec, last_status)
        return _with_results(facts, files, saved)

    async def _tidy(self, job: JobKey, spec: TrainingJobSpec, last_status: TrainingJobStatus) -> None:
        unsaved = any(replica.reason in UNSAVED_REASONS for replica in last_status.replica_states)
        if last_status.admitted and not unsaved:
            await asyncio.to_thread(self._results.clear_files, job.uid)
        kept = completion.seconds_until(last_status, completion.log_retention_of(spec), self._now())
        if kept is not None and kept <= 0:
            await asyncio.to_thread(self._results.remove_logs, job.uid)

    async def _apply_retention(self, store: Store, job: JobKey, spec: TrainingJobSpec) -> SavedCheckpoints | None:
        """Apply retention and return the remaining checkpoints; None when they cannot be listed."""
        found = await asyncio.to_thread(self._results.checkpoints, job)
        if found is None:
            return None
        retention = spec.retention
        if checkpoint_retention.find_surplus(found, retention, checkpoint_retention.ServedCheckpoints()):
            left = await asyncio.to_thread(self._results.prune, found, retention, await _load_served(store, job))
            # A server may have started to use a checkpoint during its removal. Then put it back.
            served = await _load_served(store, job)
            missed = [each for each in found if each not in left and served.holds(each)]
            found = [*left, *await asyncio.to_thread(self._results.restore, missed)]
        return saved_of(found)

    def _admit(self, facts: TrainingFacts, spec: TrainingJobSpec, last_status: TrainingJobStatus) -> Admission:
        resource = facts.resource
        if spec.suspend or last_status.terminated is not None:
            return self._keep_share(facts, last_status)
        if not last_status.admitted and self._cannot_start(facts, spec):
            self._queue.release(resource.ref)
            return PENDING
        return self._queue.admit(self._queued_job(resource, spec), admitted=last_status.admitted)

    def _queued_job(self, job: Resource, spec: TrainingJobSpec | None) -> QueuedJob:
        """None: the spec is not valid, so the job requests nothing."""
        if spec is None:
            return QueuedJob(job.ref, job.meta.uid, ResourceRequest(), created=job.meta.created)
        request = resource_request_of(spec, self._queue.capacity)
        return QueuedJob(job.ref, job.meta.uid, request, spec.priority, job.meta.created)

    def _cannot_start(self, facts: TrainingFacts, spec: TrainingJobSpec) -> bool:
        faults = catalog.check_accepted(facts.resource, self._context)[1].faults
        return bool(faults) or start_checks.find_obstacle(facts, spec, self._here) is not None

    def _keep_share(self, facts: TrainingFacts, last_status: TrainingJobStatus) -> Admission:
        """A job that should not run keeps its resources until its last process has ended."""
        if last_status.admitted and facts.children:
            return Admission(admitted=True)
        self._queue.release(facts.resource.ref)
        return Admission(admitted=False)

    def _choose_ports(
        self, facts: TrainingFacts, spec: TrainingJobSpec, last_status: TrainingJobStatus
    ) -> dict[str, int]:
        self._ports.reserve(facts.resource.ref, last_status.ports.values())
        names = [replica.name for replica in replicas_of(spec)]
        lacking = [name for name in names if name not in last_status.ports] if len(names) > 1 else []
        return dict(self._ports.choose(facts.resource.ref, lacking)) if lacking else {}

    def _forget(self, ref: Ref) -> None:
        self._named.remove(ref)
        self._queue.release(ref)
        self._ports.release(ref)

    def decide(self, facts: TrainingFacts, now: datetime) -> Decision:
        return training_decide.decide(facts, self._context, self._here, now)


def _job_of(resource: Resource, spec: TrainingJobSpec) -> JobKey:
    leader = next((replica.name for replica in replicas_of(spec)), "")
    return JobKey(resource.meta.namespace, spec.model_name, spec.version or "", resource.meta.uid, leader)


def _with_results(facts: TrainingFacts, files: JobFiles, saved: SavedCheckpoints | None) -> TrainingFacts:
    return replace(facts, progress=files.progress, saved=saved, leader_is_done=files.leader_is_done)


def _has_ended(child: Resource) -> bool:
    seen = find_observation(child, attempt_of(child))
    return seen is not None and seen.state == "ended"


async def _load_served(store: Store, job: JobKey) -> checkpoint_retention.ServedCheckpoints:
    where = Where(namespace=job.namespace, fields={"spec.modelName": job.model})
    servers = await whole(store, "InferenceModel", where)
    of_model = Where(namespace=job.namespace, labels=selectors.equal({MODEL_LABEL: job.model}))
    return checkpoint_retention.find_served(servers, await whole(store, "Workload", of_model))
