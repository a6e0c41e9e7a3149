"""Rollout: a staged change of what serves a name."""

from __future__ import annotations

from mizzen.kinds.meta import Spec, Status


class RolloutSpec(Spec):
    """To be filled in."""


class RolloutStatus(Status):
    """Condition `Accepted`."""
