"""Strict decoding of the objects people send: every fault at once, each with its field path.

What the server itself keeps (uid, times, finalizers, status) may be sent, because people send back what they got; it is
not read, except for `resourceVersion`, which guards an update.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from mizzen.access.policy import Actor
from mizzen.errors import Fault, Forbidden, Invalid
from mizzen.kinds.catalog import Kind
from mizzen.kinds.meta import ACTOR_ANNOTATION, API_VERSION, Meta, Resource, name_fault
from mizzen.server.fields import annotation_faults, label_faults, suggestion, unknown, unknown_in

TOP = ("apiVersion", "kind", "metadata", "spec", "status")
WRITABLE = ("name", "namespace", "labels", "annotations")
SERVER_SIDE = (
    "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "managedFields",
    "ownerReferences", "finalizers",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Draft:
    """What a person may say about an object, and nothing else."""

    name: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    spec: Mapping[str, Any]
    resource_version: str = ""


def refuse_internal(kind: Kind) -> None:
    if kind.internal:
        raise Forbidden(
            f"{kind.name} is internal: controllers write it, people only read it",
            hint="change the object that owns it; its metadata.ownerReferences names that",
        )


def decode(kind: Kind, body: Mapping[str, Any], *, namespace: str, name: str | None = None) -> Draft:
    """Read an object sent to a path that says kind and namespace, and for updates the name. Raises Invalid."""
    metadata, spec = body.get("metadata"), body.get("spec")
    faults = [
        *unknown(body, TOP),
        *_type_faults(kind, body),
        *_metadata_faults(metadata, namespace, name),
        *_spec_faults(kind, metadata, spec),
    ]
    if faults:
        raise Invalid.of(f"the {kind.name}", tuple(dict.fromkeys(faults)))
    assert isinstance(metadata, Mapping)
    return Draft(
        metadata["name"],
        metadata.get("labels") or {},
        metadata.get("annotations") or {},
        spec or {},
        metadata.get("resourceVersion") or "",
    )


def created(kind: Kind, draft: Draft, namespace: str, actor: Actor) -> Resource:
    """The object to create: finalizers from the catalog, and who made it."""
    meta = Meta(
        draft.name,
        namespace,
        labels=draft.labels,
        annotations={**draft.annotations, ACTOR_ANNOTATION: actor.name},
        finalizers=kind.finalizers,
    )
    return Resource(kind.name, meta, draft.spec)


def updated(kind: Kind, draft: Draft, old: Resource, actor: Actor) -> Resource:
    """`old` with what the draft says. Invalid when a field that is fixed at creation would change.

    Nothing changes when the draft says nothing new: sending a file again must not make its sender the last author.
    """
    changes = tuple(
        Fault(f"spec.{key}", f"cannot change once the {kind.name} is created")
        for key in sorted(kind.fixed)
        if not _same(draft.spec.get(key), old.spec.get(key))
    )
    if changes:
        raise Invalid.of(str(old.ref), changes)
    author = old.meta.annotations.get(ACTOR_ANNOTATION)
    signed = {**draft.annotations, ACTOR_ANNOTATION: author or actor.name}
    if not _same([draft.spec, draft.labels, signed], [old.spec, old.meta.labels, old.meta.annotations]):
        signed[ACTOR_ANNOTATION] = actor.name
    meta = replace(old.meta, labels=draft.labels, annotations=signed)
    return replace(old, meta=meta, spec=draft.spec)


def _type_faults(kind: Kind, body: Mapping[str, Any]) -> list[Fault]:
    wanted = {"apiVersion": API_VERSION, "kind": kind.name}
    return [
        Fault(name, "required" if body.get(name) is None else f"must be '{value}' here, not '{body[name]}'")
        for name, value in wanted.items()
        if body.get(name) != value
    ]


def _metadata_faults(metadata: Any, namespace: str, name: str | None) -> list[Fault]:
    if not isinstance(metadata, Mapping):
        return [Fault("metadata", "required" if metadata is None else "must be an object")]
    faults = [
        Fault("metadata", f"unknown field '{field}', {suggestion(field, WRITABLE)}")
        for field in metadata
        if field not in WRITABLE + SERVER_SIDE
    ]
    fault = name_fault(namespace, "metadata.namespace")
    faults += [fault] if fault else []
    faults += label_faults(metadata.get("labels"), "metadata.labels")
    faults += annotation_faults(metadata.get("annotations"), "metadata.annotations")
    for field, path_says in (("namespace", namespace), ("name", name)):
        said = metadata.get(field)
        if path_says is not None and said is not None and said != path_says:
            faults.append(Fault(f"metadata.{field}", f"must be '{path_says}', as the path says, not '{said}'"))
    version = metadata.get("resourceVersion")
    if version is not None and not isinstance(version, str):
        faults.append(Fault("metadata.resourceVersion", "must be a text"))
    return faults


def _spec_faults(kind: Kind, metadata: Any, spec: Any) -> list[Fault]:
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    if isinstance(metadata, Mapping) and not isinstance(name, str):
        said = "required" if name is None else f"must be a text; quote it: '{name}'"
        return [Fault("metadata.name", said), *_inner_faults(kind, None, spec)]
    return _inner_faults(kind, name, spec)


def _inner_faults(kind: Kind, name: str | None, spec: Any) -> list[Fault]:
    if spec is not None and not isinstance(spec, Mapping):
        return [Fault("spec", "must be an object")]
    spec = spec or {}
    found = kind.spec.strict(spec) if name is None else kind.faults(name, spec)
    # Unknown fields are told by `unknown_in`, which says what was meant and takes only the wire's spelling of names.
    return [
        *(fault for fault in found if not fault.message.startswith("unknown field ")),
        *unknown_in(kind.spec, spec, "spec"),
    ]


def _same(one: Any, other: Any) -> bool:
    """Equal as JSON: Python's own comparison would take true for 1."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
