"""Conversion of a Namespace between its wire form and its stored form. Pure.

On the wire, the spec holds Kubernetes' own finalizer and the status holds a phase. The store keeps that finalizer with
the others, and the phase follows from the deletion timestamp.
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

TOP_LEVEL_FIELDS = ("apiVersion", "kind", "metadata", "spec", "status")


@dataclass(frozen=True, slots=True)
class NamespaceDraft:
    """A namespace as a client sent it, without the fields that the server adds."""

    meta: Meta
    has_managed_fields: bool
    warnings: tuple[Warn, ...] = ()

    @property
    def resource(self) -> Resource:
        return Resource(KIND, replace(self.meta, uid="", resource_version=""))


def to_wire(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Kubernetes' wire form, from the wire form that all our kinds share."""
    metadata = {name: value for name, value in stored["metadata"].items() if name not in ("namespace", "finalizers")}
    held = stored["metadata"].get("finalizers") or ()
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


def render_remaining(left: Iterable[Resource], since: str) -> dict[str, Any]:
    """Status conditions of a terminating namespace: the objects left by kind, and their finalizers."""
    items = [*left]
    kinds = Counter(f"{catalog.BY_NAME[item.kind].plural}.{API_GROUP}" for item in items)
    holders = Counter(name for item in items for name in item.meta.finalizers)
    content = ", ".join(f"{kind} has {count} resource instances" for kind, count in sorted(kinds.items()))
    held = ", ".join(f"{name} in {count} resource instances" for name, count in sorted(holders.items()))
    findings = []
    if content:
        findings.append(("Content", "Resources", f"Some resources are remaining: {content}"))
    if held:
        findings.append(("Finalizers", "Finalizers", f"Some content in the namespace has finalizers remaining: {held}"))
    conditions = [
        {
            "type": f"Namespace{type_}Remaining", "status": "True", "reason": f"Some{what}Remain",
            "message": message, "lastTransitionTime": since,
        }
        for type_, what, message in findings
    ]  # fmt: skip
    return {"conditions": conditions} if conditions else {}


def decode(body: Any, strictness: Strictness, name: str | None = None) -> NamespaceDraft:
    """Decode a namespace from a request; `name` is the one in the path. Raises Invalid with all faults."""
    if not isinstance(body, Mapping):
        raise BadRequest("the body must be an object")
    metadata = metadata_of(body)
    unknown_fields = tuple(unknown(body, TOP_LEVEL_FIELDS))
    faults = [
        *(unknown_fields if strictness == "Strict" else ()),
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
    warnings = tuple(Warn(fault.path, fault.message) for fault in unknown_fields) if strictness == "Warn" else ()
    return NamespaceDraft(meta, metadata.get("managedFields") is not None, warnings)


def to_apply_document(body: Any, name: str) -> dict[str, Any]:
    """The applied configuration, ready to compare with the stored one: the server owns spec and status."""
    if not isinstance(body, Mapping):
        raise BadRequest("the applied configuration must be an object")
    whole = {key: value for key, value in body.items() if key not in ("spec", "status")}
    return {**whole, "metadata": {"name": name, **metadata_of(body)}}


def without_server_fields(stored: Resource) -> Resource:
    """Without the fields that only the server writes, to compute field ownership."""
    labels = {key: value for key, value in stored.meta.labels.items() if key != NAME_LABEL}
    others = tuple(name for name in stored.meta.finalizers if name != FINALIZER)
    return replace(stored, meta=replace(stored.meta, labels=labels, finalizers=others))


def with_server_fields(new: Resource, old: Resource) -> Resource:
    """With those fields again. A finalizer that was removed stays removed."""
    ours = (FINALIZER,) if FINALIZER in old.meta.finalizers else ()
    labels = {**new.meta.labels, NAME_LABEL: new.meta.name}
    return replace(new, meta=replace(new.meta, labels=labels, finalizers=(*ours, *new.meta.finalizers)))


def merge_draft(before: Resource, draft: NamespaceDraft, actor: str) -> Resource:
    """`before`, without server fields, with the content of the draft. The actor is recorded if anything changed."""
    labels = {key: value for key, value in draft.meta.labels.items() if key != NAME_LABEL}
    author = before.meta.annotations.get(ACTOR_ANNOTATION) or actor
    signed = {**draft.meta.annotations, ACTOR_ANNOTATION: author}
    if (labels, signed) != (before.meta.labels, before.meta.annotations):
        signed[ACTOR_ANNOTATION] = actor
    meta = replace(before.meta, labels=labels, annotations=signed, finalizers=draft.meta.finalizers)
    if draft.has_managed_fields:
        meta = replace(meta, managed=draft.meta.managed)
    return replace(before, meta=meta)


def metadata_of(body: Any) -> Mapping[str, Any]:
    metadata = body.get("metadata") if isinstance(body, Mapping) else None
    return metadata if isinstance(metadata, Mapping) else {}


def _type_faults(body: Mapping[str, Any]) -> list[Fault]:
    return [
        Fault(field, f"must be '{value}' here")
        for field, value in (("apiVersion", CORE_VERSION), ("kind", namespaced_store.KIND))
        if body.get(field, value) != value  # typed clients leave out what the path already says
    ]


def _name_faults(metadata: Mapping[str, Any], name: str | None) -> list[Fault]:
    sent_name = metadata.get("name")
    fault = name_fault(sent_name)
    faults = [fault] if fault else []
    if name is not None and sent_name != name and not fault:
        faults.append(Fault("metadata.name", f"must be '{name}', as the path says, not '{sent_name}'"))
    if metadata.get("namespace"):
        faults.append(Fault("metadata.namespace", "must be absent: a namespace is not in a namespace"))
    return faults


def _spec_faults(spec: Any) -> list[Fault]:
    if spec is None:
        return []
    if not isinstance(spec, Mapping):
        return [Fault("spec", "must be an object")]
    if spec.get("finalizers") not in (None, [], [FINALIZER]):
        return [Fault("spec.finalizers", f"must be {FINALIZER}; other finalizers belong in metadata.finalizers")]
    return list(unknown(spec, ("finalizers",), "spec"))
