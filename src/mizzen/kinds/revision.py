"""Revision: one entry of the history of an object. The store writes it with the change itself; nobody changes it."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from mizzen.kinds.schema.resource import Spec, Status


def revision_name(kind: str, name: str, number: int) -> str:
    """`model.iris.3`. Kinds and numbers hold no dot, so this splits again at the first and the last one."""
    return f"{kind.lower()}.{name}.{number}"


class RevisionSpec(Spec):
    kind: str = Field(description="Kind of the object that changed.")
    name: str = Field(description="Its name; the namespace is the Revision's own.")
    uid: str = Field(description="Its uid: a name may be used again by another object.")
    model: str = Field("", description="The model it belongs to, if it does.")
    number: int = Field(description="Counts from 1 for each kind and name.")
    action: str = Field(description="`created`, `updated`, `deleted`, or the decision taken, such as `promoted`.")
    actor: str = Field(description="Who did it.")
    time: str = Field(description="When, in UTC.")
    before: dict[str, Any] | None = Field(None, description="The spec before; for a decision the status.")
    after: dict[str, Any] | None = Field(None, description="The spec after; for a decision the status.")
    hash: str = Field("", description="sha256 of `after` as JSON with sorted keys: equal specs have equal ones.")


class RevisionStatus(Status):
    """Nothing: a Revision never changes."""
