"""Delete options, which Kubernetes clients send in the query or in a `DeleteOptions` body."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from starlette.requests import Request

from mizzen.errors import BadRequest, Conflict, Fault, Invalid
from mizzen.kinds.schema.findings import unknown
from mizzen.kinds.schema.resource import Resource
from mizzen.server.http.query import LARGEST, Query
from mizzen.server.http.request_bodies import read_object

POLICIES = ("Background", "Foreground", "Orphan")
FIELDS = (
    "apiVersion", "kind", "propagationPolicy", "preconditions", "gracePeriodSeconds", "orphanDependents", "dryRun",
    "ignoreStoreReadErrorWithClusterBreakingPotential",
)  # fmt: skip
SMALL = 64 * 1024


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    query: Query
    dry_run: bool
    cascade: bool
    """Foreground: first delete the objects that use it. Otherwise an object in use is not deleted."""
    uid: str
    resource_version: str

    @classmethod
    async def of(cls, request: Request, *known: str) -> Self:
        """Raises BadRequest, Invalid. `known`: further parameters of the query."""
        query = Query(
            request, "dryRun", "propagationPolicy", "gracePeriodSeconds", "orphanDependents", "pretty", "timeout",
            *known,
        )  # fmt: skip
        body = await read_object(request, SMALL)
        policy = _propagation_policy(query, body)
        preconditions = body.get("preconditions")
        held = preconditions if isinstance(preconditions, Mapping) else {}
        dry_run = query.dry_run() or body.get("dryRun") == ["All"]
        request.state.dry_run = dry_run  # the audit does not record it as a change
        uid, version = str(held.get("uid") or ""), str(held.get("resourceVersion") or "")
        return cls(query, dry_run, cascade=policy == "Foreground", uid=uid, resource_version=version)

    def refuse_other(self, resource: Resource) -> None:
        if self.uid not in ("", resource.meta.uid):
            raise Conflict(f"{resource.ref} is not the object to delete: its uid differs", hint="read it again")
        if self.resource_version not in ("", resource.meta.resource_version):
            raise Conflict(f"{resource.ref} changed since it was read", hint="read it again")


def _propagation_policy(query: Query, body: Mapping[str, Any]) -> str:
    faults = [*unknown(body, FIELDS)]
    if body.get("kind") not in (None, "DeleteOptions"):
        faults.append(Fault("kind", "must be 'DeleteOptions' here"))
    if body.get("dryRun") not in (None, [], ["All"]):
        faults.append(Fault("dryRun", "must be [All]"))
    policy = query.text("propagationPolicy") or body.get("propagationPolicy") or "Background"
    if policy not in POLICIES:
        faults.append(Fault("propagationPolicy", f"must be one of {', '.join(POLICIES)}"))
    if policy == "Orphan" or body.get("orphanDependents") is True or query.flag("orphanDependents"):
        faults.append(Fault("propagationPolicy", "Orphan is not supported: objects are deleted with their owner"))
    if faults:
        raise Invalid.of("the DeleteOptions", tuple(faults))
    if query.text("gracePeriodSeconds"):
        query.number("gracePeriodSeconds", high=LARGEST)
    if not isinstance(policy, str):
        raise BadRequest("propagationPolicy must be a text")
    return policy
