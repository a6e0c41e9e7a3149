"""Strict decoding of the objects that callers send: reports all faults at once, each with its field path.

Callers may send fields that the server maintains (uid, times, finalizers, status), because they send back objects that
they read. These are ignored, except `resourceVersion` and `uid`, which guard an update, and the finalizers and managers
of other programs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from mizzen.access.policy import Actor
from mizzen.errors import Fault, Forbidden, Invalid
from mizzen.kinds.catalog import NOTHING_KNOWN, Kind
from mizzen.kinds.schema import metadata as metadata_rules
from mizzen.kinds.schema.findings import Context, Findings, Warn, unknown
from mizzen.kinds.schema.resource import ACTOR_ANNOTATION, API_GROUP, API_VERSION, Meta, Resource, name_fault

OWN_PREFIX = f"{API_GROUP}/"

TOP_FIELDS = ("apiVersion", "kind", "metadata", "spec", "status")


@dataclass(frozen=True, slots=True)
class Draft:
    """The parts of an object that a caller may set."""

    name: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    spec: Mapping[str, Any]
    resource_version: str = ""
    uid: str = ""
    """If set, the stored object must have this uid."""
    finalizers: tuple[str, ...] | None = None
    """Finalizers of other programs; None: unchanged."""
    managed: tuple[Mapping[str, Any], ...] | None = None
    """The managedFields that the caller sent; None: unchanged."""
    warnings: tuple[Warn, ...] = ()
    restored: bool = False
    """Whether the spec holds fields that its sender left out; see `Spec.restore_written`."""


def refuse_internal(kind: Kind) -> None:
    if kind.virtual:
        raise Forbidden(
            f"a {kind.name} is history: the plane writes one with each change of an object; change that object instead"
        )
    if kind.internal:
        raise Forbidden(
            f"{kind.name} is internal: only controllers write it; write the object that owns it, such "
            "as an InferenceModel",
            hint="its metadata.ownerReferences name the owner",
        )


def decode(
    kind: Kind, body: Mapping[str, Any], *, namespace: str, name: str | None = None, known: Context = NOTHING_KNOWN
) -> Draft:
    """Decodes an object; the path of the request names its kind and namespace, and for updates its name.

    Raises Invalid.
    """
    metadata, spec = body.get("metadata"), body.get("spec")
    context = replace(known, annotations=_annotations(metadata), namespace=namespace)
    found = _examine(kind, metadata, spec, context)
    faults = [
        *unknown(body, TOP_FIELDS),
        *_type_faults(kind, body),
        *metadata_rules.faults(metadata),
        *_path_faults(metadata, namespace, name),
        *found.faults,
    ]
    if faults:
        raise Invalid.of(f"the {kind.name}", tuple(dict.fromkeys(faults)))
    assert isinstance(metadata, Mapping)
    written = kind.spec.restore_written(spec or {}, context.annotations)
    return Draft(
        metadata["name"],
        metadata.get("labels") or {},
        metadata.get("annotations") or {},
        written,
        metadata.get("resourceVersion") or "",
        str(metadata.get("uid") or ""),
        _finalizers(metadata),
        None if metadata.get("managedFields") is None else tuple(metadata["managedFields"]),
        found.warnings,
        restored=written != (spec or {}),
    )


def build_new(kind: Kind, draft: Draft, namespace: str, actor: Actor) -> Resource:
    """Returns the object to create, with the finalizers of its kind and its creator."""
    annotations = {**draft.annotations, ACTOR_ANNOTATION: actor.name}
    finalizers = (*kind.finalizers, *(draft.finalizers or ()))
    meta = Meta(draft.name, namespace, labels=draft.labels, annotations=annotations, finalizers=finalizers)
    return Resource(kind.name, meta, draft.spec)


def build_update(kind: Kind, draft: Draft, old: Resource, actor: Actor) -> Resource:
    """Returns `old` with the draft applied. Raises Invalid if an immutable field would change.

    A draft without changes changes nothing: sending a file again must not make its sender the last author.
    """
    refused = f"cannot change once the {kind.name} is created"
    if kind.alternative:
        refused = f"cannot be changed; {kind.alternative}"
    changed = [key for key in sorted(kind.fixed) if not is_same(draft.spec.get(key), old.spec.get(key))]
    if changed:
        raise Invalid.of(str(old.ref), tuple(Fault(f"spec.{key}", refused) for key in changed))
    author = old.meta.annotations.get(ACTOR_ANNOTATION)
    signed = {**draft.annotations, ACTOR_ANNOTATION: author or actor.name}
    if not is_same([draft.spec, draft.labels, signed], [old.spec, old.meta.labels, old.meta.annotations]):
        signed[ACTOR_ANNOTATION] = actor.name
    meta = replace(old.meta, labels=draft.labels, annotations=signed)
    if draft.finalizers is not None:
        ours = tuple(name for name in old.meta.finalizers if name.startswith(OWN_PREFIX))
        meta = replace(meta, finalizers=(*ours, *draft.finalizers))
    if draft.managed is not None:
        meta = replace(meta, managed=draft.managed)
    return replace(old, meta=meta, spec=draft.spec)


def is_same(one: Any, other: Any) -> bool:
    """Whether both are equal as JSON: Python's own comparison takes true for 1."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _finalizers(metadata: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Returns the finalizers of other programs. Callers cannot set or remove ours."""
    sent = metadata.get("finalizers")
    return None if sent is None else tuple(dict.fromkeys(name for name in sent if not name.startswith(OWN_PREFIX)))


def _type_faults(kind: Kind, body: Mapping[str, Any]) -> list[Fault]:
    wanted = {"apiVersion": API_VERSION, "kind": kind.name}
    return [
        Fault(name, "required" if body.get(name) is None else f"must be '{value}' here, not '{body[name]}'")
        for name, value in wanted.items()
        if body.get(name) != value
    ]


def _path_faults(metadata: Any, namespace: str, name: str | None) -> list[Fault]:
    if not isinstance(metadata, Mapping):
        return []
    fault = name_fault(namespace, "metadata.namespace")
    faults = [fault] if fault else []
    for field, path_says in (("namespace", namespace), ("name", name)):
        sent = metadata.get(field)
        if path_says is not None and sent is not None and sent != path_says:
            faults.append(Fault(f"metadata.{field}", f"must be '{path_says}', as the path says, not '{sent}'"))
    return faults


def _examine(kind: Kind, metadata: Any, spec: Any, context: Context) -> Findings:
    name = metadata.get("name") if isinstance(metadata, Mapping) else ""
    if spec is not None and not isinstance(spec, Mapping):
        return Findings((Fault("spec", "must be an object"),))
    if isinstance(metadata, Mapping) and isinstance(name, str | None):
        return kind.examine(name or "", spec or {}, replace(context, name=name or ""))
    found = kind.examine("", spec or {}, context)
    faults = tuple(fault for fault in found.faults if fault.path != "metadata.name")
    if isinstance(metadata, Mapping):
        faults = (Fault("metadata.name", f"must be a text; quote it: '{name}'"), *faults)
    return Findings(faults, found.warnings)


def _annotations(metadata: Any) -> Mapping[str, str]:
    annotations = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    return annotations if isinstance(annotations, Mapping) else {}
