"""The facts from which the controller decides how to serve a graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from mizzen.controllers.graphs.callees import CalledObjects
from mizzen.kinds.schema.resource import Ref, Resource
from mizzen.kinds.text.addresses import Address
from mizzen.kinds.workload import WireProtocol
from mizzen.reconcile.workloads import find_child


@dataclass(frozen=True, slots=True)
class ProbeRequest:
    """An external service to probe: whether it is available, and which protocol it speaks."""

    address: Address
    model: str
    """The probable name of its model."""
    protocol: WireProtocol | None = None
    """The protocol in the spec; if set, only that one is probed."""


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The result of a probe."""

    protocol: WireProtocol | None = None
    """None: the service did not respond."""
    why: str = ""
    """Why it did not, as text for users."""


class Prober(Protocol):
    """The prober of external services (`service_probes.ServiceProber`)."""

    def probe(
        self, graph: Resource, questions: Mapping[str, ProbeRequest], known: Mapping[str, WireProtocol]
    ) -> Mapping[str, ProbeResult]:
        """The current result for each service. From now on these services, and no others, are probed for this graph.
        `known`: services that responded before for this spec; they are not probed again."""

    def forget(self, ref: Ref) -> None:
        """Stop probing for this graph."""


class NoProber:
    """Treats every service as available."""

    def probe(
        self, graph: Resource, questions: Mapping[str, ProbeRequest], known: Mapping[str, WireProtocol]
    ) -> Mapping[str, ProbeResult]:
        return {text: ProbeResult(known.get(text, one.protocol or "v2")) for text, one in questions.items()}

    def forget(self, ref: Ref) -> None: ...


@dataclass(frozen=True, slots=True)
class GraphFacts:
    resource: Resource
    children: tuple[Resource, ...] = ()
    called_objects: CalledObjects = CalledObjects()  # noqa: RUF009 - frozen
    probes: Mapping[str, ProbeResult] = field(default_factory=dict)
    """Services of the latest spec, by address as written."""
    left: frozenset[str] = frozenset()
    """Names of children that no gateway routes to any more."""
    reached: bool = True
    """Every gateway uses the serving spec and routes to all its Workloads."""

    def child(self, name: str | None) -> Resource | None:
        return find_child(self.children, name)
