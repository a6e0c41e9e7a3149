"""Revision: one entry of an object's history. The store writes it together with the change; it is immutable."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from mizzen.kinds.schema.resource import Spec, Status


def revision_name(kind: str, name: str, number: int) -> str:
    """`model.iris.3`. Kinds and numbers have no dot, so the first and the last dot separate the parts again."""
    return f"{kind.lower()}.{name}.{number}"


class RevisionSpec(Spec):
    kind: str = Field(description="The kind of the object that changed.")
    name: str = Field(description="The name of the object. Its namespace is that of the Revision.")
    uid: str = Field(description="The uid of the object, since another object may reuse the name.")
    model: str = Field("", description="The model that the object belongs to, if any.")
    number: int = Field(description="The number of the revision, counted from 1 for each kind and name.")
    action: str = Field(description="`created`, `updated`, `deleted`, or a decision, such as `promoted`.")
    actor: str = Field(description="The actor who did it.")
    time: str = Field(description="When, in UTC.")
    before: dict[str, Any] | None = Field(None, description="The spec before the change; for a decision, the status.")
    after: dict[str, Any] | None = Field(None, description="The spec after the change; for a decision, the status.")
    hash: str = Field("", description="The sha256 of `after` as JSON with sorted keys. Equal specs have equal hashes.")


class RevisionStatus(Status):
    """No fields: a Revision never changes."""
