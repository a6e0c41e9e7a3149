"""Node: a machine, in the cloud or at the edge."""

from __future__ import annotations

from mizzen.kinds.meta import Spec, Status


class NodeSpec(Spec):
    """To be filled in."""


class NodeStatus(Status):
    """Condition `Accepted`."""
