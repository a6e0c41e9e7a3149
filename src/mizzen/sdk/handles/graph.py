"""Graph: one MLGraph of a plane, for programs without an event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mizzen.sdk.packaging.tensors import Prediction
    from mizzen.sdk.sync import Plane


class Graph:
    """One graph of a plane, by name. It need not exist yet: `Plane.apply` makes one."""

    def __init__(self, plane: Plane, name: str) -> None:
        self.plane = plane
        self.name = name

    def __repr__(self) -> str:
        return f"<mizzen.Graph {self.name}>"

    def show(self) -> dict[str, Any]:
        """Its nodes and edges, with what passed between them in the last ten seconds. NotFound."""
        return self.plane.run(self.plane.calls.graph(self.name))

    def state(self, user: str | None = None) -> dict[str, Any]:
        """What its bandits have learnt, of all or of one user, and how well each version does at each node."""
        return self.plane.run(self.plane.calls.graph_state(self.name, user=user))

    def predict(self, inputs: Any, *, timeout_ms: int | None = None) -> Prediction:
        """Ask it; see `Plane.predict`."""
        return self.plane.predict(self.name, inputs, timeout_ms=timeout_ms)

    def explain(self, inputs: Any, *, timeout_ms: int | None = None) -> dict[str, Any]:
        """Ask it, and be told what each of its nodes did: answer, nodes, taken, routing, took_ms. NotFound, Conflict.

        Of a request that fails there are `error` and `code` in place of the answer.
        """
        return self.plane.run(self.plane.calls.explain_graph(self.name, inputs, timeout_ms=timeout_ms))
