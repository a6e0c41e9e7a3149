"""Field managers of objects: who, by which hand, owns which of their fields. `patches/managed_fields.py` has the
rules."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from starlette.requests import Request

from mizzen.errors import BadRequest, Conflict, Fault
from mizzen.kinds.schema.resource import ACTOR_ANNOTATION, API_VERSION, Resource, format_time
from mizzen.kinds.training import IDEMPOTENCY_ANNOTATION, TRUSTED_ANNOTATION
from mizzen.manifests.canonical import LAST_APPLIED
from mizzen.patches import managed_fields
from mizzen.patches.managed_fields import Clash, Clashes, Manager
from mizzen.server.admission.decode import OURS

LONGEST_NAME = 128
PLANE = "mizzen"
"""The manager of what people write without writing objects: through /model, or by deleting a user."""
STATUS = "status"
UNOWNED = frozenset({ACTOR_ANNOTATION, TRUSTED_ANNOTATION, IDEMPOTENCY_ANNOTATION})
"""Annotations that the plane alone says."""
KUBECTL = "kubectl"
"""When it applies through the server. It leaves its own note of what was applied last to the server then, if there is
one already from the time it applied by itself, and goes by that note when it does so again."""


def name_of(request: Request, said: str) -> str:
    """As `fieldManager` says, else by the client's program. BadRequest."""
    if len(said) > LONGEST_NAME or not said.isprintable():
        raise BadRequest(f"fieldManager: at most {LONGEST_NAME} visible characters")
    agent = request.headers.get("user-agent", "").partition("/")[0].strip()
    return said or "".join(filter(str.isprintable, agent))[:LONGEST_NAME] or "unknown"


def after_update(old: Resource | None, new: Resource, by: str, now: datetime) -> Resource:
    """`new` with its managers, after it was written by any other way than apply."""
    before = {} if old is None else ownable(old)
    owners = managed_fields.updated(
        before, managed_fields.from_wire(list(new.meta.managed)), ownable(new), by, time=format_time(now)
    )
    return with_managers(new, owners)


def by_plane(old: Resource | None, new: Resource, now: datetime) -> Resource:
    """`new` with its managers, after it was written for somebody who did not write it out."""
    return after_update(old, new, PLANE, now)


def decided(old: Resource, new: Resource, now: datetime) -> Resource:
    """The same, when what they decided is kept in the status. What controllers report there is owned by nobody:
    nothing can be in conflict with it, and they write often."""
    owners = managed_fields.updated(
        {STATUS: dict(old.status)},
        managed_fields.from_wire(list(new.meta.managed), STATUS),
        {STATUS: dict(new.status)},
        PLANE,
        time=format_time(now),
    )
    others = (entry for entry in new.meta.managed if entry.get("subresource") != STATUS)
    return _with_entries(new, (*others, *managed_fields.to_wire(owners, API_VERSION, STATUS)))


def applied(
    old: Resource | None, body: Mapping[str, Any], by: str, now: datetime, *, force: bool
) -> tuple[dict[str, Any], tuple[Manager, ...]]:
    """The whole document that is wanted once `body` is applied, and who owns what then. Conflict."""
    live = {} if old is None else ownable(old)
    owners = () if old is None else managed_fields.from_wire(list(old.meta.managed))
    try:
        document, left = managed_fields.applied(live, owners, _part(body), by, time=format_time(now), force=force)
    except Clashes as error:
        raise _conflict(error.clashes) from error
    metadata = {**(body.get("metadata") or {}), **document.get("metadata", {})}
    for field in ("labels", "annotations", "finalizers"):
        if field not in document.get("metadata", {}):
            metadata.pop(field, None)
    if by == KUBECTL and LAST_APPLIED in (metadata.get("annotations") or {}):
        metadata["annotations"] = {**metadata["annotations"], LAST_APPLIED: _last(body)}
    if old is not None:
        metadata.setdefault("finalizers", [])
    return {**body, "metadata": metadata, "spec": document.get("spec", {})}, left


def with_managers(resource: Resource, owners: tuple[Manager, ...]) -> Resource:
    """Who wrote through a subresource stays as it is."""
    others = (entry for entry in resource.meta.managed if entry.get("subresource"))
    return _with_entries(resource, (*managed_fields.to_wire(owners, API_VERSION), *others))


def ownable(resource: Resource) -> dict[str, Any]:
    """What of an object somebody can own: not its identity, its status, or what the server keeps."""
    annotations = {name: value for name, value in resource.meta.annotations.items() if name not in UNOWNED}
    metadata = {
        "labels": dict(resource.meta.labels),
        "annotations": annotations,
        "finalizers": [name for name in resource.meta.finalizers if not name.startswith(OURS)],
    }
    held = {name: value for name, value in metadata.items() if value}
    return {**({"metadata": held} if held else {}), "spec": dict(resource.spec)}


def _last(body: Mapping[str, Any]) -> str:
    """As kubectl writes it: keys in order, no spaces, one line, without an earlier note within the note."""
    metadata = body.get("metadata") or {}
    kept = {key: text for key, text in (metadata.get("annotations") or {}).items() if key != LAST_APPLIED}
    said = {**body, "metadata": {**metadata, "annotations": kept}}
    return json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=False) + "\n"


def _with_entries(resource: Resource, entries: tuple[Mapping[str, Any], ...]) -> Resource:
    return replace(resource, meta=replace(resource.meta, managed=entries))


def _part(body: Mapping[str, Any]) -> dict[str, Any]:
    """As `ownable`, of what somebody sent; whether it makes sense is asked later."""
    metadata = body.get("metadata")
    said = metadata if isinstance(metadata, Mapping) else {}
    held = {name: said[name] for name in ("labels", "annotations", "finalizers") if said.get(name)}
    if isinstance(held.get("annotations"), Mapping):
        held["annotations"] = {key: text for key, text in held["annotations"].items() if key not in UNOWNED}
    part: dict[str, Any] = {"metadata": held} if held else {}
    return {**part, "spec": body["spec"]} if body.get("spec") is not None else part


def _conflict(clashes: tuple[Clash, ...]) -> Conflict:
    faults = tuple(
        Fault(_written(clash.path), f'conflict with "{clash.owner.name}"', "FieldManagerConflict") for clash in clashes
    )
    told = "; ".join(f"{fault.message}: {fault.path}" for fault in faults[:10])
    count = f"{len(faults)} conflict{'s' if len(faults) > 1 else ''}"
    return Conflict(
        f"Apply failed with {count}: {told}",
        hint="leave these fields to their owner, take them with force, or agree on a value",
        faults=faults,
    )


def _written(path: tuple[str, ...]) -> str:
    return "".join(f".{name}" for name in path)
