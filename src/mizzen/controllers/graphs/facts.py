"""What is known when it is decided how a graph is answered."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from mizzen.controllers.graphs.callees import Neighbours
from mizzen.kinds.schema.resource import Ref, Resource
from mizzen.kinds.text.addresses import Address
from mizzen.kinds.workload import Spoken, WorkloadStatus


@dataclass(frozen=True, slots=True)
class Question:
    """What a service of others is asked: whether it is there, and what it speaks."""

    address: Address
    model: str
    """What a model of its is probably called."""
    protocol: Spoken | None = None
    """What it is said to speak; then only that is asked."""


@dataclass(frozen=True, slots=True)
class Probed:
    """What came of it."""

    protocol: Spoken | None = None
    """None: nobody answered."""
    why: str = ""
    """Why nobody did, in a person's words."""


class Probing(Protocol):
    """Who asks (`probing.Probes`)."""

    def look(
        self, graph: Resource, questions: Mapping[str, Question], known: Mapping[str, Spoken]
    ) -> Mapping[str, Probed]:
        """What is known of each service by now; from now on it is asked, and no other for this graph. `known`: what
        answered before, for this spec, and is not asked again."""

    def forget(self, ref: Ref) -> None:
        """Ask nothing for this graph any more."""


class Traffic(Protocol):
    """What gateways know (`controllers/table_acks.py`)."""

    def reaches(self, addresses: Collection[str]) -> bool:
        """Does every gateway send to one of these?"""

    def has_left(self, addresses: Collection[str]) -> bool:
        """Does no gateway send to these any more?"""


class NoProbing:
    """Takes every service as there."""

    def look(
        self, graph: Resource, questions: Mapping[str, Question], known: Mapping[str, Spoken]
    ) -> Mapping[str, Probed]:
        return {text: Probed(known.get(text, one.protocol or "v2")) for text, one in questions.items()}

    def forget(self, ref: Ref) -> None: ...


@dataclass(frozen=True, slots=True)
class GraphFacts:
    resource: Resource
    children: tuple[Resource, ...] = ()
    neighbours: Neighbours = Neighbours()  # noqa: RUF009 - frozen
    probed: Mapping[str, Probed] = field(default_factory=dict)
    """Services of the spec that is asked for, by address as written."""
    left: frozenset[str] = frozenset()
    """Names of children that no gateway sends to any more."""
    reached: bool = True
    """Every gateway knows what answers, and sends to all that runs for it."""

    def child(self, name: str | None) -> Resource | None:
        """The Workload of this name. One that is being deleted does not count, whatever its status still says."""
        return next((child for child in self.children if child.meta.name == name and not child.deleting), None)


def is_available(workload: Resource) -> bool:
    return WorkloadStatus.of(workload).is_true("Available")


def addresses(workload: Resource) -> list[str]:
    return [replica.address for replica in WorkloadStatus.of(workload).replicas if replica.address]
