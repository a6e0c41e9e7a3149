"""Initializer: components and steps that prepare infrastructure."""

from __future__ import annotations

from mizzen.kinds.meta import Spec, Status


class InitializerSpec(Spec):
    """To be filled in."""


class InitializerStatus(Status):
    """Condition `Accepted`."""
