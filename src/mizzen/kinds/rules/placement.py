"""Placement: whether a server or a job may run on this machine, or needs other Nodes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from mizzen.kinds.schema.resource import Resource

HOSTNAME = "kubernetes.io/hostname"
"""A label that every Node has implicitly."""


class PlacementSpec(Protocol):
    """A spec with fields for placement."""

    @property
    def node_name(self) -> str: ...
    @property
    def node_selector(self) -> Mapping[str, str]: ...
    @property
    def deploy_to_layer(self) -> str: ...


@dataclass(frozen=True, slots=True)
class PlacementObstacle:
    """Why a spec cannot run in the requested place."""

    reason: str
    message: str


def asks_for_node(spec: PlacementSpec) -> bool:
    """Whether the spec requests a Node; if not, it runs on this machine."""
    return bool(spec.node_name or spec.node_selector) or spec.deploy_to_layer == "edge"


def find_obstacle(spec: PlacementSpec, nodes: Iterable[Resource], here: str = "") -> PlacementObstacle | None:
    """Why the spec cannot run here; None if it can. `here` is the name of this machine's Node."""
    if not asks_for_node(spec):
        return None
    living = [node for node in nodes if not node.deleting]
    if spec.node_name:
        living = [node for node in living if node.meta.name == spec.node_name]
        if not living:
            return PlacementObstacle("NodeNotFound", f"there is no node '{spec.node_name}'")
    fitting = [node for node in living if not unmet(spec, node)]
    if any(node.meta.name == here for node in fitting):
        return None
    if fitting:
        return PlacementObstacle(
            "NodeNotReady", f"node '{fitting[0].meta.name}' does not accept work from this plane yet"
        )
    if spec.node_name:
        wrong = "; ".join(unmet(spec, living[0]))
        return PlacementObstacle("PlacementConflict", f"node '{spec.node_name}' does not match the spec: {wrong}")
    labels = ", ".join(f"{key}={value}" for key, value in sorted(spec.node_selector.items()))
    wanted = " ".join(filter(None, (f"in layer {spec.deploy_to_layer}", labels and f"with {labels}")))
    return PlacementObstacle("NodeNotFound", f"there is no node {wanted}")


def unmet(spec: PlacementSpec, node: Resource) -> list[str]:
    """The requirements of the spec that the node does not meet."""
    has = labels_of(node)
    lacking = [
        f"its label {key} is {has[key]!r}, not {value!r}" if key in has else f"it has no label {key}"
        for key, value in sorted(spec.node_selector.items())
        if has.get(key) != value
    ]
    layer = node.spec.get("layer", "cloud")
    return lacking if layer == spec.deploy_to_layer else [*lacking, f"its layer is {layer}, not {spec.deploy_to_layer}"]


def labels_of(node: Resource) -> Mapping[str, str]:
    own = node.spec.get("labels")
    return {HOSTNAME: node.meta.name, **(own if isinstance(own, Mapping) else {}), **node.meta.labels}
