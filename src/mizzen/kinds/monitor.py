"""Monitor: one monitoring tool over a model."""

from __future__ import annotations

from mizzen.kinds.meta import Spec, Status


class MonitorSpec(Spec):
    """To be filled in."""


class MonitorStatus(Status):
    """Condition `Accepted`."""
