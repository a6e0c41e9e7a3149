"""Kinds that nothing works on yet: whether their specs can be worked with, said in `Accepted`.

Specs are examined here once more because a store may hold what never passed our admission, and because what they name
may have come, or gone, since. Everything else in the status belongs to somebody else and stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from pydantic import ConfigDict

from mizzen.kinds import catalog
from mizzen.kinds.rules import references
from mizzen.kinds.rules.references import Named, Surroundings
from mizzen.kinds.schema.findings import Context, Findings
from mizzen.kinds.schema.resource import Ref, Resource, Status
from mizzen.reconcile.controller import Decision, Presence, find
from mizzen.reconcile.reverse_index import Mentions
from mizzen.stores.lookup import Lookup
from mizzen.stores.records.protocol import Identities, Secrets
from mizzen.stores.store import Store

KINDS = ("Rollout", "Application", "Initializer", "Node", "RoleBinding")
"""Those without a controller of their own."""

NAMED: dict[str, tuple[str, ...]] = {
    "Application": ("ModelVersion",),
    "RoleBinding": references.CALLABLE,
}
"""Kinds that a spec of a kind may name, and wait for."""

AGAIN = 60.0
"""Seconds after which a user or a secret that was missing is looked for again: nobody tells when one is made."""


@dataclass(frozen=True, slots=True)
class AcceptanceFacts:
    resource: Resource
    named: Named = Named()  # noqa: RUF009 - frozen
    there: Surroundings = Surroundings()  # noqa: RUF009 - frozen
    """What there is of what it names."""

    @property
    def children(self) -> tuple[Resource, ...]:
        return ()


class Acceptance:
    def __init__(self, kind: str, context: Context, identities: Identities, secrets: Secrets) -> None:
        """`context` tells what the engine of this home can do."""
        self.kind = kind
        self.watches = tuple(map(Presence, NAMED.get(kind, ())))
        self._context = context
        self._lookup = Lookup(identities, secrets)
        self._named = Mentions()

    def keys(self, resource: Resource) -> Iterable[Ref]:
        return self._named.naming(resource.ref)

    async def load(self, store: Store, ref: Ref) -> AcceptanceFacts | None:
        resource = await find(store, ref)
        if resource is None or self.kind not in NAMED or self._findings(resource).faults:
            self._named.forget(ref)
            return None if resource is None else AcceptanceFacts(resource)
        named = references.named(resource)
        self._named.note(ref, named.objects)
        return AcceptanceFacts(resource, named, await self._lookup.around(store, named, ref.namespace))

    def decide(self, facts: AcceptanceFacts, now: datetime) -> Decision:
        resource = facts.resource
        if resource.deleting:
            return Decision()
        accepted, findings = catalog.accepted(resource, self._context)
        odd = () if findings.faults else Findings.of(references.findings(resource, facts.there)).warnings
        accepted = catalog.warned(accepted, odd)
        others = (condition for condition in Status.of(resource).conditions if condition.type != accepted.type)
        written = {"conditions": (accepted, *others), "observedGeneration": resource.meta.generation}
        status = _WholeStatus.model_validate({**resource.status, **written})
        untold = facts.named.users or facts.named.secrets
        return Decision(status=status, again=AGAIN if odd and untold else None)

    def _findings(self, resource: Resource) -> Findings:
        return catalog.accepted(resource, self._context)[1]


class _WholeStatus(Status):
    """Any status, with all its fields."""

    model_config = ConfigDict(extra="allow")
