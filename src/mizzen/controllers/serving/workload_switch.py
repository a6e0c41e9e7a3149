"""The switch from one Workload to the next: which one serves, when the new one takes over, when the old one ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from mizzen.controllers.serving import replica_count
from mizzen.controllers.serving.facts import ServingFacts
from mizzen.kinds.model import ModelVersionSpec
from mizzen.kinds.rules import workload_template
from mizzen.kinds.schema.resource import Resource
from mizzen.kinds.serving import InferenceModelSpec, InferenceModelStatus, workload_name
from mizzen.reconcile.workloads import count_ready, is_available


@dataclass(frozen=True, slots=True)
class Switch:
    """The Workloads to run now, and the one that is serving."""

    spec: InferenceModelSpec
    """With the number of replicas of `wanted`."""
    wanted: Resource
    workload: Resource | None
    """`wanted` as it is now; None: it does not exist yet."""
    is_serving: bool
    """`wanted` is the Workload that is serving."""
    old: Resource | None
    """Another Workload that serves until `wanted` takes over."""
    draining: tuple[Resource, ...] = ()
    reloading: bool = False
    serving: Mapping[str, str | None] = field(default_factory=dict)
    """Changed status fields about the serving version."""

    @property
    def children(self) -> tuple[Resource, ...]:
        return (self.wanted, self.old) if self.old is not None else (self.wanted, *self.draining)


def plan_switch(facts: ServingFacts, spec: InferenceModelSpec, version: ModelVersionSpec) -> Switch:
    """Serve this version: with the serving Workload, or with another one that takes over once it is ready."""
    last_status = InferenceModelStatus.of(facts.resource)
    candidate = workload_template.workload_of(facts.resource, spec, version, facts.children)
    wanted = choose_workload(facts, last_status, candidate)
    files = workload_template.files_digest(wanted.spec["artifacts"])
    is_serving = serving_workload_name(facts.resource, last_status) == wanted.meta.name
    has_other_files = last_status.serving_files not in ("", files)
    if not is_serving or has_other_files:
        spec = replica_count.with_first_replica(spec, facts.scale)
        wanted = replica_count.with_replicas(wanted, spec.replicas)
    old = None if spec.replicas == 0 else find_old_workload(facts, spec, last_status, wanted)
    if old is not None and facts.scale is not None:
        old = replica_count.with_replicas(old, facts.scale.replicas)
    switch = Switch(spec, wanted, facts.child(wanted.meta.name), is_serving, old)
    serving = {
        "serving_version": version.version,
        "serving_workload": wanted.meta.name,
        "serving_files": files,
        "serving_checkpoint": facts.checkpoint.id if facts.checkpoint is not None else None,
    }
    if may_take_over(spec, files, switch.workload, old):
        return replace(switch, old=None, draining=find_draining(facts, last_status, wanted), serving=serving)
    if old is not None:
        return replace(switch, serving={"serving_workload": old.meta.name})
    if is_serving and has_other_files and spec.replicas > 0:
        return replace(switch, reloading=True)
    # Either `wanted` has been serving this version and is down for a moment, or nothing is serving.
    if last_status.serving_version != version.version:
        serving = {**dict.fromkeys(serving), "serving_files": ""}
    return replace(switch, draining=find_draining(facts, last_status, wanted) if is_serving else (), serving=serving)


def choose_workload(facts: ServingFacts, last_status: InferenceModelStatus, candidate: Resource) -> Resource:
    """The serving Workload, if it can reload the files of the version without a restart; otherwise `candidate`."""
    answers, there = facts.child(serving_workload_name(facts.resource, last_status)), facts.child(candidate.meta.name)
    begun = there is not None and workload_template.serves(there, candidate.spec)
    # Without the digest of the serving files, the old files could not be told from the new ones.
    if answers is None or begun or not last_status.serving_files:
        return candidate
    return workload_template.in_place(answers, candidate) or candidate


def find_old_workload(
    facts: ServingFacts, spec: InferenceModelSpec, last_status: InferenceModelStatus, wanted: Resource
) -> Resource | None:
    """The Workload that is serving now, to be kept during a switch, or recreated if it was lost."""
    name = serving_workload_name(facts.resource, last_status)
    if name is None or name == wanted.meta.name:
        return None
    there = facts.child(name)
    if there is not None:
        return keep_serving_files(facts, last_status, there)
    version = facts.serving_version
    return None if version is None else workload_template.workload_of(facts.resource, spec, version, facts.children)


def keep_serving_files(facts: ServingFacts, last_status: InferenceModelStatus, child: Resource) -> Resource:
    """The child as it is. The serving one gets its version's files back if it was given those of another version that
    it did not load, or that the spec no longer means."""
    version = facts.serving_version
    serves = child.meta.name == serving_workload_name(facts.resource, last_status)
    if not serves or version is None or not last_status.serving_files:
        return child
    if workload_template.files_digest(child.spec.get("artifacts", ())) == last_status.serving_files:
        return child
    artifacts = [artifact.wire() for artifact in version.artifacts]
    return replace(child, spec={**child.spec, "artifacts": artifacts})


def serving_workload_name(resource: Resource, last_status: InferenceModelStatus) -> str | None:
    """The name of the serving Workload. An older plane did not record it and used one Workload per version."""
    if last_status.serving_version is None:
        return None
    return last_status.serving_workload or workload_name(resource.meta.name, last_status.serving_version)


def may_take_over(spec: InferenceModelSpec, files: str, new: Resource | None, old: Resource | None) -> bool:
    """True when all ready replicas of the new Workload have these files. If the old one is serving, the new one also
    needs all desired replicas: it gets the full load from the first moment."""
    if new is None or not is_available(new) or not workload_template.has_files(new, files):
        return False
    if old is None or not is_available(old):
        return True
    return count_ready(new) >= spec.replicas


def find_draining(facts: ServingFacts, last_status: InferenceModelStatus, wanted: Resource) -> tuple[Resource, ...]:
    """Workloads that were serving until just now, while a gateway may still route to them."""
    others = (child for child in facts.children if child.meta.name != wanted.meta.name and not child.deleting)
    # Whether gateways have left a Workload matters only once they can know its replacement.
    left = facts.left if serving_workload_name(facts.resource, last_status) == wanted.meta.name else frozenset()
    return tuple(child for child in others if is_available(child) and child.meta.name not in left)
