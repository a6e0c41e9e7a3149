"""Workloads as several controllers see them: their state, the traffic to them, and the scale that the load needs.

Controllers do not import each other, so what they share is here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Protocol

from mizzen.kinds.schema.resource import DEFAULT_NAMESPACE, Condition, Ref, Resource
from mizzen.kinds.workload import WorkloadStatus


class Traffic(Protocol):
    """The addresses that gateways route to (`controllers/table_acks.py`)."""

    def reaches(self, addresses: Collection[str]) -> bool:
        """Returns whether every gateway routes to at least one of these."""

    def has_left(self, addresses: Collection[str]) -> bool:
        """Returns whether every gateway has stopped routing to these."""


@dataclass(frozen=True, slots=True)
class DesiredScale:
    """The scale that the load needs."""

    replicas: int
    in_flight: float
    quiet: float
    """Seconds without demand before the number of replicas shrinks."""


def find_child(children: Iterable[Resource], name: str | None) -> Resource | None:
    """Returns the Workload of this name. One that is being deleted does not count, even if its status is good."""
    return next((child for child in children if child.meta.name == name and not child.deleting), None)


def is_available(workload: Resource) -> bool:
    return WorkloadStatus.of(workload).is_true("Available")


def addresses_of(workload: Resource) -> list[str]:
    return [replica.address for replica in WorkloadStatus.of(workload).replicas if replica.address]


def count_ready(workload: Resource | None) -> int:
    replicas = WorkloadStatus.of(workload).replicas if workload is not None else ()
    return sum(replica.state == "ready" for replica in replicas)


def any_nodes(resource: Resource) -> tuple[Ref, ...]:
    """Returns keys for any Node of its namespace, and of the namespace of this machine's Node."""
    return tuple(
        Ref("Node", "", namespace) for namespace in dict.fromkeys((resource.meta.namespace, DEFAULT_NAMESPACE))
    )


def false_condition(type_: str, reason: str, message: str) -> Condition:
    return Condition(type=type_, status="False", reason=reason, message=message)
