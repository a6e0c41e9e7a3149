"""Kinds that nothing works on yet: whether their specs can be worked with, said in `Accepted`.

Specs are examined here once more because a store may hold what never passed our admission. Everything else in the
status belongs to somebody else and stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from pydantic import ConfigDict

from mizzen.kinds import catalog
from mizzen.kinds.findings import Context
from mizzen.kinds.meta import Ref, Resource, Status
from mizzen.reconcile.controller import Decision, find
from mizzen.stores.store import Store

KINDS = ("TrainingJob", "MLGraph", "Rollout", "Monitor", "Application", "Initializer", "Node", "RoleBinding")
"""Those without a controller of their own."""


@dataclass(frozen=True, slots=True)
class AcceptanceFacts:
    resource: Resource

    @property
    def children(self) -> tuple[Resource, ...]:
        return ()


class Acceptance:
    watches: tuple[str, ...] = ()

    def __init__(self, kind: str, context: Context) -> None:
        """`context` tells what the engine of this home can do."""
        self.kind = kind
        self._context = context

    def keys(self, resource: Resource) -> Iterable[Ref]:
        return ()

    async def load(self, store: Store, ref: Ref) -> AcceptanceFacts | None:
        resource = await find(store, ref)
        return None if resource is None else AcceptanceFacts(resource)

    def decide(self, facts: AcceptanceFacts, now: datetime) -> Decision:
        resource = facts.resource
        if resource.deleting:
            return Decision()
        accepted, _ = catalog.accepted(resource, self._context)
        others = (condition for condition in Status.of(resource).conditions if condition.type != accepted.type)
        written = {"conditions": (accepted, *others), "observedGeneration": resource.meta.generation}
        return Decision(status=_WholeStatus.model_validate({**resource.status, **written}))


class _WholeStatus(Status):
    """Any status, with all its fields."""

    model_config = ConfigDict(extra="allow")
