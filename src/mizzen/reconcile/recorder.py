"""Who is told what happened to objects, for people to read: conditions that turned, children made and deleted, and what
a controller noted beside them. Told after the write, so that nothing is told that did not happen.

This is news, not state: nobody decides by it, and it may be lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from mizzen.kinds.schema.resource import Condition, Resource, Status


@dataclass(frozen=True, slots=True)
class Note:
    """Something that happened which no condition tells."""

    reason: str
    """In one word, such as `Promoted`."""
    message: str
    """In a person's words."""
    warning: bool = False


class Recorder(Protocol):
    """Returns at once and never raises: it must not be in the way of what it is told of."""

    def turned(self, resource: Resource, condition: Condition) -> None:
        """A condition of the resource has another status or another reason than before."""
        ...

    def made(self, owner: Resource, child: Resource) -> None: ...

    def deleted(self, owner: Resource, child: Resource) -> None:
        """Not wanted any more; it may take a while to go."""
        ...

    def noted(self, resource: Resource, note: Note) -> None: ...


class Nobody:
    """Listens to nothing."""

    def turned(self, resource: Resource, condition: Condition) -> None: ...

    def made(self, owner: Resource, child: Resource) -> None: ...

    def deleted(self, owner: Resource, child: Resource) -> None: ...

    def noted(self, resource: Resource, note: Note) -> None: ...


NOBODY = Nobody()


def turns(before: Resource, after: Resource) -> Iterator[Condition]:
    """Conditions that turned between two states of an object.

    Not those that tell nothing new: that a spec is fine, which is so of almost every one; and of a new condition that
    nothing is known yet.
    """
    was = {condition.type: condition for condition in Status.of(before).conditions}
    for condition in Status.of(after).conditions:
        old = was.get(condition.type)
        if old is not None and (old.status, old.reason) == (condition.status, condition.reason):
            continue
        if condition.type == "Accepted" and condition.true:
            continue
        if old is None and condition.status == "Unknown":
            continue
        yield condition
