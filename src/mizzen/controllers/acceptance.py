"""The `Accepted` condition of kinds that have no controller of their own.

Specs are validated here again, because a store may hold objects that never passed our admission, and because the
objects they reference may have been created or deleted since. The rest of the status belongs to other writers and is
left unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from pydantic import ConfigDict

from mizzen.kinds import catalog
from mizzen.kinds.rules import references
from mizzen.kinds.rules.references import ReferencedObjects, References
from mizzen.kinds.schema.findings import Context, Findings
from mizzen.kinds.schema.resource import Ref, Resource, Status
from mizzen.reconcile.controller import Decision, Presence, find
from mizzen.reconcile.reverse_index import ReverseIndex
from mizzen.stores.lookup import Lookup
from mizzen.stores.records.protocol import Identities, Secrets
from mizzen.stores.store import Store

KINDS = ("Rollout", "Application", "Initializer", "Node", "RoleBinding")
"""Kinds without a controller of their own."""

REFERENCED_KINDS: dict[str, tuple[str, ...]] = {
    "Application": ("ModelVersion",),
    "RoleBinding": references.CALLABLE,
}
"""For each kind, the kinds that its specs may reference and wait for."""

RECHECK_SECONDS = 60.0
"""Seconds until a missing user or secret is looked up again: their creation triggers no event."""


@dataclass(frozen=True, slots=True)
class AcceptanceFacts:
    resource: Resource
    named: References = References()  # noqa: RUF009 - frozen
    referenced: ReferencedObjects = ReferencedObjects()  # noqa: RUF009 - frozen
    """Those referenced objects that exist."""

    children: ClassVar[tuple[Resource, ...]] = ()


class Acceptance:
    def __init__(self, kind: str, context: Context, identities: Identities, secrets: Secrets) -> None:
        """`context` lists the capabilities of the engine."""
        self.kind = kind
        self.watches = tuple(map(Presence, REFERENCED_KINDS.get(kind, ())))
        self._context = context
        self._lookup = Lookup(identities, secrets)
        self._named = ReverseIndex()

    def keys(self, resource: Resource) -> Iterable[Ref]:
        return self._named.keys_for(resource.ref)

    async def load(self, store: Store, ref: Ref) -> AcceptanceFacts | None:
        resource = await find(store, ref)
        if resource is None or self.kind not in REFERENCED_KINDS or self._findings(resource).faults:
            self._named.remove(ref)
            return None if resource is None else AcceptanceFacts(resource)
        named = references.references_of(resource)
        self._named.set(ref, named.objects)
        return AcceptanceFacts(resource, named, await self._lookup.around(store, named, ref.namespace))

    def decide(self, facts: AcceptanceFacts, now: datetime) -> Decision:
        resource = facts.resource
        if resource.deleting:
            return Decision()
        accepted, findings = catalog.check_accepted(resource, self._context)
        warnings = () if findings.faults else Findings.of(references.findings(resource, facts.referenced)).warnings
        accepted = catalog.add_warnings(accepted, warnings)
        others = (condition for condition in Status.of(resource).conditions if condition.type != accepted.type)
        update = {"conditions": (accepted, *others), "observedGeneration": resource.meta.generation}
        status = _WholeStatus.model_validate({**resource.status, **update})
        unwatched = facts.named.users or facts.named.secrets
        return Decision(status=status, requeue_after=RECHECK_SECONDS if warnings and unwatched else None)

    def _findings(self, resource: Resource) -> Findings:
        return catalog.check_accepted(resource, self._context)[1]


class _WholeStatus(Status):
    """Any status, with all its fields."""

    model_config = ConfigDict(extra="allow")
