"""Field managers: which program owns which fields of an object. `patches/managed_fields.py` has the rules."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from starlette.requests import Request

from mizzen.access.policy import Actor
from mizzen.errors import BadRequest, Conflict, Fault
from mizzen.kinds.catalog import Kind
from mizzen.kinds.schema.resource import ACTOR_ANNOTATION, API_VERSION, Resource, format_time
from mizzen.kinds.training import IDEMPOTENCY_ANNOTATION, TRUSTED_ANNOTATION
from mizzen.manifests.canonical import LAST_APPLIED
from mizzen.patches import managed_fields
from mizzen.patches.managed_fields import FieldConflict, FieldConflicts, Manager
from mizzen.server.admission import decode
from mizzen.server.admission.decode import OWN_PREFIX, Draft
from mizzen.server.http.query import Query

LONGEST_NAME = 128
PLANE = "mizzen"
"""The manager of changes that callers make without writing objects: through /model, or by deleting a user."""
STATUS = "status"
UNOWNED = frozenset({ACTOR_ANNOTATION, TRUSTED_ANNOTATION, IDEMPOTENCY_ANNOTATION})
"""Annotations that only the plane sets."""
KUBECTL = "kubectl"
"""The manager of kubectl's server-side apply. If the object has a last-applied annotation from an earlier client-side
apply, kubectl leaves it to the server to update, and reads it again at its next client-side apply."""


def manager_name(request: Request, name: str) -> str:
    """Returns `name`, which is `fieldManager`; if it is empty, the name of the client's program. Raises BadRequest."""
    if len(name) > LONGEST_NAME or not name.isprintable():
        raise BadRequest(f"fieldManager: at most {LONGEST_NAME} printable characters")
    agent = request.headers.get("user-agent", "").partition("/")[0].strip()
    return name or "".join(filter(str.isprintable, agent))[:LONGEST_NAME] or "unknown"


def apply_manager(request: Request, query: Query) -> str:
    """Returns the `fieldManager` of an apply, which must have one. Raises BadRequest."""
    manager = query.text("fieldManager")
    if not manager:
        hint = "?fieldManager=<your tool>"
        raise BadRequest("apply needs fieldManager: the owner of the applied fields", hint=hint)
    return manager_name(request, manager)


def record(old: Resource | None, new: Resource, owners: tuple[Manager, ...] | None, by: str, now: datetime) -> Resource:
    """Returns `new` with these managers; None: with those that follow from the change by `by`."""
    return record_update(old, new, by, now) if owners is None else with_managers(new, owners)


def record_update(old: Resource | None, new: Resource, by: str, now: datetime) -> Resource:
    """Returns `new` with its managers after any write other than apply."""
    before = {} if old is None else ownable_fields(old)
    owners = managed_fields.update(
        before, managed_fields.from_wire(list(new.meta.managed)), ownable_fields(new), by, time=format_time(now)
    )
    return with_managers(new, owners)


def record_plane_update(old: Resource | None, new: Resource, now: datetime) -> Resource:
    """Returns `new` with its managers after the plane changed it for a caller that did not write the object."""
    return record_update(old, new, PLANE, now)


def build_new(draft: Draft, kind: Kind, namespace: str, actor: Actor, now: datetime) -> Resource:
    """Returns the object to create for a caller that did not write it in full."""
    return record_plane_update(None, decode.build_new(kind, draft, namespace, actor), now)


def change_spec(old: Resource, spec: Mapping[str, Any], actor: str, now: datetime) -> Resource:
    """Returns the object with this spec, changed by the plane for this actor."""
    meta = replace(old.meta, annotations={**old.meta.annotations, ACTOR_ANNOTATION: actor})
    return record_plane_update(old, replace(old, meta=meta, spec=spec), now)


def record_status_decision(old: Resource, new: Resource, now: datetime) -> Resource:
    """The same for a decision that is stored in the status. Controllers' reports there have no owner: nothing can
    conflict with them, and they write often."""
    owners = managed_fields.update(
        {STATUS: dict(old.status)},
        managed_fields.from_wire(list(new.meta.managed), STATUS),
        {STATUS: dict(new.status)},
        PLANE,
        time=format_time(now),
    )
    others = (entry for entry in new.meta.managed if entry.get("subresource") != STATUS)
    return _with_entries(new, (*others, *managed_fields.to_wire(owners, API_VERSION, STATUS)))


def apply(
    old: Resource | None, body: Mapping[str, Any], by: str, now: datetime, *, force: bool
) -> tuple[dict[str, Any], tuple[Manager, ...]]:
    """Returns the whole document after `body` is applied, and its managers. Raises Conflict."""
    live = {} if old is None else ownable_fields(old)
    owners = () if old is None else managed_fields.from_wire(list(old.meta.managed))
    try:
        document, left = managed_fields.apply(live, owners, _ownable_part(body), by, time=format_time(now), force=force)
    except FieldConflicts as error:
        raise _conflict(error.clashes) from error
    metadata = {**(body.get("metadata") or {}), **document.get("metadata", {})}
    for field in ("labels", "annotations", "finalizers"):
        if field not in document.get("metadata", {}):
            metadata.pop(field, None)
    if by == KUBECTL and LAST_APPLIED in (metadata.get("annotations") or {}):
        metadata["annotations"] = {**metadata["annotations"], LAST_APPLIED: _last_applied(body)}
    if old is not None:
        metadata.setdefault("finalizers", [])
    return {**body, "metadata": metadata, "spec": document.get("spec", {})}, left


def with_managers(resource: Resource, owners: tuple[Manager, ...]) -> Resource:
    """Keeps the managers of subresources."""
    others = (entry for entry in resource.meta.managed if entry.get("subresource"))
    return _with_entries(resource, (*managed_fields.to_wire(owners, API_VERSION), *others))


def ownable_fields(resource: Resource) -> dict[str, Any]:
    """Returns the fields that a manager can own: not the identity, the status, or fields that the server maintains."""
    annotations = {name: value for name, value in resource.meta.annotations.items() if name not in UNOWNED}
    metadata = {
        "labels": dict(resource.meta.labels),
        "annotations": annotations,
        "finalizers": [name for name in resource.meta.finalizers if not name.startswith(OWN_PREFIX)],
    }
    held = {name: value for name, value in metadata.items() if value}
    return {**({"metadata": held} if held else {}), "spec": dict(resource.spec)}


def _last_applied(body: Mapping[str, Any]) -> str:
    """Returns the annotation as kubectl writes it: sorted keys, no spaces, one line, without itself."""
    metadata = body.get("metadata") or {}
    annotations = {key: text for key, text in (metadata.get("annotations") or {}).items() if key != LAST_APPLIED}
    applied = {**body, "metadata": {**metadata, "annotations": annotations}}
    return json.dumps(applied, sort_keys=True, separators=(",", ":"), ensure_ascii=False) + "\n"


def _with_entries(resource: Resource, entries: tuple[Mapping[str, Any], ...]) -> Resource:
    return replace(resource, meta=replace(resource.meta, managed=entries))


def _ownable_part(body: Mapping[str, Any]) -> dict[str, Any]:
    """As `ownable_fields`, of a body that is not yet validated."""
    metadata = body.get("metadata")
    fields = metadata if isinstance(metadata, Mapping) else {}
    held = {name: fields[name] for name in ("labels", "annotations", "finalizers") if fields.get(name)}
    if isinstance(held.get("annotations"), Mapping):
        held["annotations"] = {key: text for key, text in held["annotations"].items() if key not in UNOWNED}
    part: dict[str, Any] = {"metadata": held} if held else {}
    return {**part, "spec": body["spec"]} if body.get("spec") is not None else part


def _conflict(clashes: tuple[FieldConflict, ...]) -> Conflict:
    faults = tuple(
        Fault(_format_path(clash.path), f'conflict with "{clash.owner.name}"', "FieldManagerConflict")
        for clash in clashes
    )
    conflicts = "; ".join(f"{fault.message}: {fault.path}" for fault in faults[:10])
    count = f"{len(faults)} conflict{'s' if len(faults) > 1 else ''}"
    return Conflict(
        f"Apply failed with {count}: {conflicts}",
        hint="leave these fields to their owner, take them with force, or agree on a value",
        faults=faults,
    )


def _format_path(path: tuple[str, ...]) -> str:
    return "".join(f".{name}" for name in path)
