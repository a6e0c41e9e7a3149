"""MLGraph: a directed acyclic graph of callable nodes with routes and merges."""

from __future__ import annotations

from mizzen.kinds.meta import Spec, Status


class MLGraphSpec(Spec):
    """To be filled in."""


class MLGraphStatus(Status):
    """Condition `Accepted`."""
