"""Application: components, traits, policies and a workflow."""

from __future__ import annotations

from mizzen.kinds.meta import Spec, Status


class ApplicationSpec(Spec):
    """To be filled in."""


class ApplicationStatus(Status):
    """Condition `Accepted`."""
