"""From one Workload to the next: which one answers now, when the new one may take over, and when the old one ends."""

from __future__ import annotations

from dataclasses import replace

from mizzen.controllers.serving.facts import ServingFacts, is_available
from mizzen.kinds.rules import workload_template
from mizzen.kinds.schema.resource import Resource
from mizzen.kinds.serving import InferenceModelSpec, InferenceModelStatus, workload_name
from mizzen.kinds.workload import WorkloadStatus


def next_workload(facts: ServingFacts, told: InferenceModelStatus, beside: Resource) -> Resource:
    """`beside`, or the one that answers, where that takes the files of the version without a restart."""
    answers, there = facts.child(answering(facts.resource, told)), facts.child(beside.meta.name)
    begun = there is not None and workload_template.serves(there, beside.spec)
    # Whoever cannot say which files answer now could not tell the old ones from the new.
    if answers is None or begun or not told.serving_files:
        return beside
    return workload_template.in_place(answers, beside) or beside


def old_workload(
    facts: ServingFacts, spec: InferenceModelSpec, told: InferenceModelStatus, wanted: Resource
) -> Resource | None:
    """The Workload that answers now, to be kept during a switch, or rebuilt if it was lost."""
    name = answering(facts.resource, told)
    if name is None or name == wanted.meta.name:
        return None
    there = facts.child(name)
    if there is not None:
        return kept(facts, told, there)
    version = facts.serving_version
    return None if version is None else workload_template.workload_of(facts.resource, spec, version, facts.children)


def kept(facts: ServingFacts, told: InferenceModelStatus, child: Resource) -> Resource:
    """As it is; of the one that answers, with the files of the version it answers for, should it have been given
    those of another one that it did not take, or that is not asked for any more."""
    version = facts.serving_version
    if child.meta.name != answering(facts.resource, told) or version is None or not told.serving_files:
        return child
    if workload_template.files_digest(child.spec.get("artifacts", ())) == told.serving_files:
        return child
    artifacts = [artifact.wire() for artifact in version.artifacts]
    return replace(child, spec={**child.spec, "artifacts": artifacts})


def answering(resource: Resource, told: InferenceModelStatus) -> str | None:
    """The name of the Workload that answers. An older plane did not say it, and gave each version one."""
    if told.serving_version is None:
        return None
    return told.serving_workload or workload_name(resource.meta.name, told.serving_version)


def may_take_over(spec: InferenceModelSpec, files: str, new: Resource | None, old: Resource | None) -> bool:
    """All that answer have these files. Beside one that answers, only with as many replicas as are asked for: the load
    is there from the first moment."""
    if new is None or not is_available(new) or not workload_template.has_files(new, files):
        return False
    if old is None or not is_available(old):
        return True
    ready = sum(replica.state == "ready" for replica in WorkloadStatus.of(new).replicas)
    return ready >= spec.replicas


def lingering(facts: ServingFacts, told: InferenceModelStatus, wanted: Resource) -> tuple[Resource, ...]:
    """What answered until a moment ago, while a gateway may still send to it."""
    others = (child for child in facts.children if child.meta.name != wanted.meta.name and not child.deleting)
    # What gateways have left is of interest only once they can know who answers instead.
    left = facts.left if answering(facts.resource, told) == wanted.meta.name else frozenset()
    return tuple(child for child in others if is_available(child) and child.meta.name not in left)
