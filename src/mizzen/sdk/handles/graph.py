"""Graph: one MLGraph of a plane, for programs without an event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mizzen.sdk.handles.plane_protocol import SynchronousPlane
    from mizzen.sdk.packaging.tensors import Prediction


class Graph:
    """One graph of a plane, by name. It need not exist yet: `Plane.apply` creates one."""

    def __init__(self, plane: SynchronousPlane, name: str) -> None:
        self.plane = plane
        self.name = name

    def __repr__(self) -> str:
        return f"<mizzen.Graph {self.name}>"

    def show(self) -> dict[str, Any]:
        """Return its nodes and edges, with the traffic between them in the last ten seconds. Raises NotFound."""
        return self.plane.run(self.plane.calls.graph(self.name))

    def state(self, user: str | None = None) -> dict[str, Any]:
        """Return what its bandits have learned, overall or for one user, and how well each version does at each
        node."""
        return self.plane.run(self.plane.calls.graph_state(self.name, user=user))

    def predict(self, inputs: Any, *, timeout_ms: int | None = None) -> Prediction:
        """Call the graph; see `Plane.predict`."""
        return self.plane.predict(self.name, inputs, timeout_ms=timeout_ms)

    def explain(self, inputs: Any, *, timeout_ms: int | None = None) -> dict[str, Any]:
        """Call the graph and return what each node did: answer, nodes, taken, routing, took_ms.

        A request that fails has `error` and `code` in place of the answer. Raises NotFound, Conflict.
        """
        return self.plane.run(self.plane.calls.explain_graph(self.name, inputs, timeout_ms=timeout_ms))
