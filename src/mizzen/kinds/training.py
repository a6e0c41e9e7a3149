"""TrainingJob: one job set, all its replicas, for a version and a configuration."""

from __future__ import annotations

from mizzen.kinds.meta import Spec, Status


class TrainingJobSpec(Spec):
    """To be filled in."""


class TrainingJobStatus(Status):
    """Condition `Accepted`."""
