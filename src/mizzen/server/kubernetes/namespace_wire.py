"""A Namespace on the wire and as it is kept. Pure.

Kubernetes shows its own finalizer in the spec, and says in a phase whether a namespace is going; it is kept with the
other finalizers, and the phase follows from the mark of the deletion.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from mizzen.errors import BadRequest, Fault, Invalid
from mizzen.kinds import catalog
from mizzen.kinds.events_and_namespaces import CORE_VERSION
from mizzen.kinds.schema import metadata as metadata_rules
from mizzen.kinds.schema.findings import Warn, unknown
from mizzen.kinds.schema.resource import ACTOR_ANNOTATION, API_GROUP, Meta, Resource, name_fault
from mizzen.server.admission import namespaced_store
from mizzen.server.admission.field_validation import Strictness
from mizzen.server.admission.namespaced_store import FINALIZER, KIND, NAME_LABEL

TOP = ("apiVersion", "kind", "metadata", "spec", "status")


@dataclass(frozen=True, slots=True)
class Draft:
    """What somebody wants a namespace to be, without what the server adds."""

    meta: Meta
    managers_said: bool
    warnings: tuple[Warn, ...] = ()

    @property
    def resource(self) -> Resource:
        return Resource(KIND, replace(self.meta, uid="", resource_version=""))


def wire(kept: Mapping[str, Any]) -> dict[str, Any]:
    """Of the wire form that every kind of ours has."""
    metadata = {name: value for name, value in kept["metadata"].items() if name not in ("namespace", "finalizers")}
    held = kept["metadata"].get("finalizers") or ()
    others = [name for name in held if name != FINALIZER]
    if others:
        metadata["finalizers"] = others
    if "managedFields" in metadata:
        metadata["managedFields"] = [{**entry, "apiVersion": CORE_VERSION} for entry in metadata["managedFields"]]
    phase = "Terminating" if "deletionTimestamp" in metadata else "Active"
    return {
        "kind": KIND, "apiVersion": CORE_VERSION, "metadata": metadata,
        "spec": {"finalizers": [FINALIZER]} if FINALIZER in held else {}, "status": {"phase": phase},
    }  # fmt: skip


def remaining(left: Iterable[Resource], since: str) -> dict[str, Any]:
    """For the status of one that is going: what keeps it, by kind, and who holds that, by finalizer."""
    items = [*left]
    kinds = Counter(f"{catalog.BY_NAME[item.kind].plural}.{API_GROUP}" for item in items)
    holders = Counter(name for item in items for name in item.meta.finalizers)
    content = ", ".join(f"{kind} has {count} resource instances" for kind, count in sorted(kinds.items()))
    held = ", ".join(f"{name} in {count} resource instances" for name, count in sorted(holders.items()))
    said = []
    if content:
        said.append(("Content", "Resources", f"Some resources are remaining: {content}"))
    if held:
        said.append(("Finalizers", "Finalizers", f"Some content in the namespace has finalizers remaining: {held}"))
    conditions = [
        {
            "type": f"Namespace{type_}Remaining", "status": "True", "reason": f"Some{what}Remain",
            "message": message, "lastTransitionTime": since,
        }
        for type_, what, message in said
    ]  # fmt: skip
    return {"conditions": conditions} if conditions else {}


def decode(body: Any, strictness: Strictness, name: str | None = None) -> Draft:
    """Read a namespace that somebody sent; `name`: as the path says. Raises Invalid with all that is wrong."""
    if not isinstance(body, Mapping):
        raise BadRequest("what is sent is no object")
    metadata = metadata_of(body)
    strange = tuple(unknown(body, TOP))
    faults = [
        *(strange if strictness == "Strict" else ()),
        *_type_faults(body),
        *metadata_rules.faults(body.get("metadata")),
        *_name_faults(metadata, name),
        *_spec_faults(body.get("spec")),
    ]
    if faults:
        raise Invalid.of(f"the {KIND}", tuple(dict.fromkeys(faults)))
    meta = Meta(
        metadata["name"],
        "",
        uid=str(metadata.get("uid") or ""),
        resource_version=metadata.get("resourceVersion") or "",
        labels=metadata.get("labels") or {},
        annotations=metadata.get("annotations") or {},
        finalizers=tuple(dict.fromkeys(one for one in metadata.get("finalizers") or () if one != FINALIZER)),
        managed=tuple(metadata.get("managedFields") or ()),
    )
    told = tuple(Warn(fault.path, fault.message) for fault in strange) if strictness == "Warn" else ()
    return Draft(meta, metadata.get("managedFields") is not None, told)


def document(body: Any, name: str) -> dict[str, Any]:
    """What is applied, as it is compared with what there is: the spec is ours."""
    if not isinstance(body, Mapping):
        raise BadRequest("what is applied is no object")
    whole = {key: value for key, value in body.items() if key not in ("spec", "status")}
    return {**whole, "metadata": {"name": name, **metadata_of(body)}}


def bare(kept: Resource) -> Resource:
    """Without what nobody but the server writes, for the question who owns what."""
    labels = {key: value for key, value in kept.meta.labels.items() if key != NAME_LABEL}
    others = tuple(name for name in kept.meta.finalizers if name != FINALIZER)
    return replace(kept, meta=replace(kept.meta, labels=labels, finalizers=others))


def dressed(new: Resource, old: Resource) -> Resource:
    """With it again. A finalizer that is gone stays gone."""
    ours = (FINALIZER,) if FINALIZER in old.meta.finalizers else ()
    labels = {**new.meta.labels, NAME_LABEL: new.meta.name}
    return replace(new, meta=replace(new.meta, labels=labels, finalizers=(*ours, *new.meta.finalizers)))


def updated(before: Resource, draft: Draft, actor: str) -> Resource:
    """`before`, which is bare, with what the draft says. Its writer is noted when that is something new."""
    labels = {key: value for key, value in draft.meta.labels.items() if key != NAME_LABEL}
    author = before.meta.annotations.get(ACTOR_ANNOTATION) or actor
    signed = {**draft.meta.annotations, ACTOR_ANNOTATION: author}
    if (labels, signed) != (before.meta.labels, before.meta.annotations):
        signed[ACTOR_ANNOTATION] = actor
    meta = replace(before.meta, labels=labels, annotations=signed, finalizers=draft.meta.finalizers)
    if draft.managers_said:
        meta = replace(meta, managed=draft.meta.managed)
    return replace(before, meta=meta)


def metadata_of(body: Any) -> Mapping[str, Any]:
    metadata = body.get("metadata") if isinstance(body, Mapping) else None
    return metadata if isinstance(metadata, Mapping) else {}


def _type_faults(body: Mapping[str, Any]) -> list[Fault]:
    return [
        Fault(field, f"must be '{value}' here")
        for field, value in (("apiVersion", CORE_VERSION), ("kind", namespaced_store.KIND))
        if body.get(field, value) != value  # clients with types of their own leave out what the path says
    ]


def _name_faults(metadata: Mapping[str, Any], name: str | None) -> list[Fault]:
    said = metadata.get("name")
    fault = name_fault(said)
    faults = [fault] if fault else []
    if name is not None and said != name and not fault:
        faults.append(Fault("metadata.name", f"must be '{name}', as the path says, not '{said}'"))
    if metadata.get("namespace"):
        faults.append(Fault("metadata.namespace", "a namespace is in none"))
    return faults


def _spec_faults(spec: Any) -> list[Fault]:
    if spec is None:
        return []
    if not isinstance(spec, Mapping):
        return [Fault("spec", "must be an object")]
    if spec.get("finalizers") not in (None, [], [FINALIZER]):
        return [Fault("spec.finalizers", f"only {FINALIZER} is possible; others stand in metadata.finalizers")]
    return list(unknown(spec, ("finalizers",), "spec"))
