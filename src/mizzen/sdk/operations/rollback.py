"""Rollback of a model to an earlier version, and of any object to an earlier spec. Each adds an entry to the
history."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from mizzen import errors
from mizzen.sdk.api.session import escape
from mizzen.sdk.operations import deploy

if TYPE_CHECKING:
    from mizzen.sdk.api.models import ModelCalls
    from mizzen.sdk.api.resources import ResourceCalls

SPEC_ACTIONS: Final = frozenset({"created", "updated", "deleted"})
"""Revisions whose `before` and `after` are specs; those of decisions hold statuses."""


@dataclass(frozen=True, slots=True)
class Undone:
    """An object whose spec was restored from one of its revisions."""

    kind: str
    name: str
    number: int
    changed: bool
    """False: it already had that spec."""


async def roll_back_model(plane: ModelCalls, model: str, version: str | None, *, force: bool = False) -> str:
    described = await plane.describe_model(model)
    target = version or described.get("previous")
    if target is None and not described.get("aliasOf"):
        known = [str(item["version"]) for item in described["versions"]]
        named = f"name one of {', '.join(known)}: 'mizzen rollback {model} --to {known[-1]}'" if known else ""
        raise errors.Conflict(f"no version of Model/{model} was current before", hint=named or "it has no versions")
    if target is not None and not _is_ready(described, target):
        # Switching first and finding no server afterwards would fail requests.
        await deploy.wait_loaded(plane, await plane.serve(model, target), deploy.TIMEOUT, keep=True)
    body = {**({"version": version} if version is not None else {}), **({"force": True} if force else {})}
    moved = await plane.request("POST", f"/model/{escape(model)}/rollback", body=body, params=plane.within())
    return str(moved.get("current") or target)


async def restore(plane: ResourceCalls, kind: str, name: str, number: int | None) -> Undone:
    present = await plane.get(kind, name)
    kind = str(present["kind"])
    specs = [entry for entry in await plane.revisions(kind, name) if entry["action"] in SPEC_ACTIONS]
    chosen = _choose_spec(specs, present["spec"], f"{kind}/{name}", number)
    metadata = present["metadata"]
    kept = {
        key: metadata[key]
        for key in ("name", "namespace", "labels", "annotations", "resourceVersion")
        if key in metadata
    }
    wanted = {"apiVersion": present["apiVersion"], "kind": kind, "metadata": kept, "spec": chosen["after"]}
    await plane.replace(wanted)
    return Undone(kind, name, int(chosen["number"]), changed=not _is_same(chosen["after"], present["spec"]))


def _choose_spec(
    specs: Sequence[Mapping[str, Any]], present: Mapping[str, Any], what: str, number: int | None
) -> Mapping[str, Any]:
    with_spec: list[Mapping[str, Any]] = [entry for entry in specs if entry.get("after") is not None]
    possible = ", ".join(str(entry["number"]) for entry in with_spec) or "none"
    if number is not None:
        found = next((entry for entry in with_spec if entry["number"] == number), None)
        if found is not None:
            return found
        raise errors.NotFound(f"{what} has no revision {number} with a spec", hint=f"revisions are {possible}")
    other: Mapping[str, Any] | None = next(
        (entry for entry in reversed(with_spec) if not _is_same(entry["after"], present)), None
    )
    if other is not None:
        return other
    raise errors.Conflict(f"{what} never had another spec", hint=f"'mizzen history {what}' shows its revisions")


def _is_ready(model: Mapping[str, Any], version: str) -> bool:
    wanted = {version, version.removeprefix("v").lstrip("0")}
    return any(server.get("ready") and str(server.get("version")) in wanted for server in model.get("servers") or ())


def _is_same(one: Any, other: Any) -> bool:
    return json.dumps(one or {}, sort_keys=True) == json.dumps(other or {}, sort_keys=True)
