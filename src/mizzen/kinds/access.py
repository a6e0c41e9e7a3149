"""RoleBinding: who may read, predict, write or administer what."""

from __future__ import annotations

from mizzen.kinds.meta import Spec, Status


class RoleBindingSpec(Spec):
    """To be filled in."""


class RoleBindingStatus(Status):
    """Condition `Accepted`."""
