"""The protocol of event recorders: changed conditions, created and deleted children, and notes of controllers, for
users to read. Events are recorded after the write, so that nothing is reported that did not happen.

Events are not state: no decision depends on them, and they may be lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from mizzen.kinds.schema.resource import Condition, Resource, Status


@dataclass(frozen=True, slots=True)
class EventNote:
    """An event that no condition reports."""

    reason: str
    """One word, such as `Promoted`."""
    message: str
    """Text for users."""
    warning: bool = False


class EventSink(Protocol):
    """Records events. Returns at once and never raises: it must not interfere with the work that it records."""

    def record_condition(self, resource: Resource, condition: Condition) -> None:
        """The status or the reason of a condition has changed."""

    def record_created(self, owner: Resource, child: Resource) -> None: ...

    def record_deleted(self, owner: Resource, child: Resource) -> None:
        """The child is being deleted, which may take a while."""

    def record_note(self, resource: Resource, note: EventNote) -> None: ...


class NullRecorder:
    """Records nothing."""

    def record_condition(self, resource: Resource, condition: Condition) -> None: ...

    def record_created(self, owner: Resource, child: Resource) -> None: ...

    def record_deleted(self, owner: Resource, child: Resource) -> None: ...

    def record_note(self, resource: Resource, note: EventNote) -> None: ...


NULL_RECORDER = NullRecorder()


def find_condition_changes(before: Resource, after: Resource) -> Iterator[Condition]:
    """Conditions that changed between two states of an object.

    Uninformative changes are skipped: an accepted spec, as almost every spec is, and a new condition that is Unknown.
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
