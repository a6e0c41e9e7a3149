"""Strict decoding of the objects people send: every fault at once, each with its field path.

What the server itself keeps (uid, times, finalizers, status) may be sent, because people send back what they got; it is
not read, except for `resourceVersion` and `uid`, which guard an update, and finalizers and field managers of others.
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

OURS = f"{API_GROUP}/"

TOP = ("apiVersion", "kind", "metadata", "spec", "status")


@dataclass(frozen=True, slots=True)
class Draft:
    """What a person may say about an object, and nothing else."""

    name: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    spec: Mapping[str, Any]
    resource_version: str = ""
    uid: str = ""
    """When given, the object must be the one that has it."""
    finalizers: tuple[str, ...] | None = None
    """Those of others than us; None: as they are."""
    managed: tuple[Mapping[str, Any], ...] | None = None
    """Who owns what, in somebody's own words; None: as it is."""
    warnings: tuple[Warn, ...] = ()
    restored: bool = False
    """Whether the spec holds what its sender left out; see `Spec.written`."""


def refuse_internal(kind: Kind) -> None:
    if kind.virtual:
        raise Forbidden(
            f"a {kind.name} is history: it is written with each change of an object, and nobody else writes one; "
            "change that object itself"
        )
    if kind.internal:
        raise Forbidden(
            f"{kind.name} is internal: controllers write it, people only read it; write the object that owns it, such "
            "as an InferenceModel",
            hint="the metadata.ownerReferences of one that is there name its owner",
        )


def decode(
    kind: Kind, body: Mapping[str, Any], *, namespace: str, name: str | None = None, known: Context = NOTHING_KNOWN
) -> Draft:
    """Read an object sent to a path that says kind and namespace, and for updates the name. Raises Invalid."""
    metadata, spec = body.get("metadata"), body.get("spec")
    context = replace(known, annotations=_annotations(metadata), namespace=namespace)
    found = _findings(kind, metadata, spec, context)
    faults = [
        *unknown(body, TOP),
        *_type_faults(kind, body),
        *metadata_rules.faults(metadata),
        *_path_faults(metadata, namespace, name),
        *found.faults,
    ]
    if faults:
        raise Invalid.of(f"the {kind.name}", tuple(dict.fromkeys(faults)))
    assert isinstance(metadata, Mapping)
    written = kind.spec.written(spec or {}, context.annotations)
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


def created(kind: Kind, draft: Draft, namespace: str, actor: Actor) -> Resource:
    """The object to create: finalizers from the catalog, and who made it."""
    meta = Meta(
        draft.name,
        namespace,
        labels=draft.labels,
        annotations={**draft.annotations, ACTOR_ANNOTATION: actor.name},
        finalizers=(*kind.finalizers, *(draft.finalizers or ())),
    )
    return Resource(kind.name, meta, draft.spec)


def updated(kind: Kind, draft: Draft, old: Resource, actor: Actor) -> Resource:
    """`old` with what the draft says. Invalid when a field that is fixed at creation would change.

    Nothing changes when the draft says nothing new: sending a file again must not make its sender the last author.
    """
    refused = f"cannot be changed; {kind.anew}" if kind.anew else f"cannot change once the {kind.name} is created"
    changes = tuple(
        Fault(f"spec.{key}", refused) for key in sorted(kind.fixed) if not same(draft.spec.get(key), old.spec.get(key))
    )
    if changes:
        raise Invalid.of(str(old.ref), changes)
    author = old.meta.annotations.get(ACTOR_ANNOTATION)
    signed = {**draft.annotations, ACTOR_ANNOTATION: author or actor.name}
    if not same([draft.spec, draft.labels, signed], [old.spec, old.meta.labels, old.meta.annotations]):
        signed[ACTOR_ANNOTATION] = actor.name
    meta = replace(old.meta, labels=draft.labels, annotations=signed)
    if draft.finalizers is not None:
        ours = tuple(name for name in old.meta.finalizers if name.startswith(OURS))
        meta = replace(meta, finalizers=(*ours, *draft.finalizers))
    if draft.managed is not None:
        meta = replace(meta, managed=draft.managed)
    return replace(old, meta=meta, spec=draft.spec)


def same(one: Any, other: Any) -> bool:
    """Equal as JSON: Python's own comparison would take true for 1."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _finalizers(metadata: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Ours come and go by themselves, whatever is said of them."""
    said = metadata.get("finalizers")
    return None if said is None else tuple(dict.fromkeys(name for name in said if not name.startswith(OURS)))


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
        said = metadata.get(field)
        if path_says is not None and said is not None and said != path_says:
            faults.append(Fault(f"metadata.{field}", f"must be '{path_says}', as the path says, not '{said}'"))
    return faults


def _findings(kind: Kind, metadata: Any, spec: Any, context: Context) -> Findings:
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
