"""What each write of a SQLite store means: object, event and revision, changed together.

Runs inside a transaction that somebody else begins and ends; raising leaves it to them to take back what was begun.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from mizzen.errors import AlreadyExists, Conflict, NotFound
from mizzen.kinds.meta import Meta, Ref, Resource, format_time
from mizzen.stores import rows
from mizzen.stores.reads import Present
from mizzen.stores.store import Event, Guard


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the caller is told, and what watchers are; no event when nothing changed."""

    resource: Resource | None
    event: Event | None = None


class Ledger:
    def __init__(
        self, connection: sqlite3.Connection, *, clock: Callable[[], datetime], new_id: Callable[[], str]
    ) -> None:
        self._connection = connection
        self._clock = clock
        self._new_id = new_id

    def create(self, new: Resource, by: str, guard: Guard | None) -> Outcome:
        if self._find(new.ref) is not None:
            raise AlreadyExists(f"{new.ref} already exists")
        self._ask(guard)
        now = self._clock()
        meta = replace(new.meta, uid=self._new_id(), generation=1, created=now, deleted=None)
        event = self._write("ADDED", None, replace(new, meta=meta))
        self._record(event.resource, "created", by, now, before=None, after=event.resource.spec)
        return Outcome(event.resource, event)

    def update(self, new: Resource, by: str) -> Outcome:
        old = self._current(new)
        respecified = not rows.same(old.spec, dict(new.spec), new)
        if not respecified and rows.same(_writable(old.meta), _writable(new.meta), new):
            return Outcome(old)
        if old.deleting and not set(new.meta.finalizers) <= set(old.meta.finalizers):
            raise Conflict(f"{old.ref} is being deleted: finalizers can only be taken off")
        meta = replace(
            old.meta,
            generation=old.meta.generation + respecified,
            labels=new.meta.labels,
            annotations=new.meta.annotations,
            owners=new.meta.owners,
            finalizers=new.meta.finalizers,
        )
        released = old.deleting and not meta.finalizers
        event = self._write("DELETED" if released else "MODIFIED", old, replace(old, meta=meta, spec=new.spec))
        if respecified:
            self._record(event.resource, "updated", by, self._clock(), before=old.spec, after=event.resource.spec)
        return Outcome(event.resource, event)

    def update_status(self, new: Resource, by: str, decision: str | None, guard: Guard | None) -> Outcome:
        old = self._current(new)
        if rows.same(old.status, dict(new.status), new):
            return Outcome(old)
        self._ask(guard)
        event = self._write("MODIFIED", old, replace(old, status=new.status))
        if decision is not None:
            self._record(event.resource, decision, by, self._clock(), before=old.status, after=event.resource.status)
        return Outcome(event.resource, event)

    def delete(self, ref: Ref, by: str, uid: str | None, guard: Guard | None) -> Outcome:
        old = self._found(ref)
        if uid is not None and uid != old.meta.uid:
            raise Conflict(f"{ref} is another object now than the one to delete")
        if old.deleting:
            return Outcome(old)
        self._ask(guard)
        now = self._clock()
        if old.meta.finalizers:
            event = self._write("MODIFIED", old, replace(old, meta=replace(old.meta, deleted=now)))
        else:
            event = self._write("DELETED", old, old)
        self._record(event.resource, "deleted", by, now, before=old.spec, after=None)
        return Outcome(event.resource if old.meta.finalizers else None, event)

    def compact(self, keep: int) -> int:
        """Drop all but the newest `keep` events. Returns the horizon."""
        # Not simply rv - keep: a store that is opened again with a larger `keep` does not get old events back.
        [(horizon,)] = self._connection.execute(
            "UPDATE state SET horizon = max(horizon, rv - ?) RETURNING horizon", (keep,)
        ).fetchall()
        self._connection.execute("DELETE FROM events WHERE rv <= ?", (horizon,))
        return int(horizon)

    def _ask(self, guard: Guard | None) -> None:
        if guard is not None:
            guard(Present(self._connection))

    def _current(self, new: Resource) -> Resource:
        """The stored object, if `new` was made from it."""
        old = self._found(new.ref)
        if new.meta.uid not in ("", old.meta.uid):
            raise Conflict(f"{new.ref} was deleted and made anew since it was read", hint="read it again")
        if new.meta.resource_version not in ("", old.meta.resource_version):
            raise Conflict(f"{new.ref} changed since it was read", hint="read it again and repeat the change")
        return old

    def _found(self, ref: Ref) -> Resource:
        found = self._find(ref)
        if found is None:
            raise NotFound(f"{ref} does not exist")
        return found

    def _find(self, ref: Ref) -> Resource | None:
        return rows.find(self._connection, ref)

    def _write(self, type_: Literal["ADDED", "MODIFIED", "DELETED"], old: Resource | None, new: Resource) -> Event:
        """Give `new` the next resource version and keep it (or remove it), with its event and its owners."""
        [(rv,)] = self._connection.execute("UPDATE state SET rv = rv + 1 RETURNING rv").fetchall()
        new = replace(new, meta=replace(new.meta, resource_version=str(rv)))
        key = (new.kind, new.meta.namespace, new.meta.name)
        body = rows.encode(new)
        if type_ == "DELETED":
            self._connection.execute("DELETE FROM objects WHERE kind = ? AND namespace = ? AND name = ?", key)
        else:
            self._connection.execute(
                "INSERT INTO objects (kind, namespace, name, uid, rv, generation, deleting, body)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (kind, namespace, name) DO UPDATE SET"
                " rv = excluded.rv, generation = excluded.generation, deleting = excluded.deleting,"
                " body = excluded.body",
                (*key, new.meta.uid, rv, new.meta.generation, new.deleting, body),
            )
        self._connection.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)", (rv, *key, type_, body))
        self._own(
            key,
            before={owner.uid for owner in old.meta.owners} if old else set(),
            after=set() if type_ == "DELETED" else {owner.uid for owner in new.meta.owners},
        )
        # Read back rather than handed on: what the caller gave stays the caller's, to change as they like.
        return Event(type_, rows.decode(body))

    def _own(self, key: tuple[str, str, str], *, before: set[str], after: set[str]) -> None:
        for uid in before - after:
            self._connection.execute(
                "DELETE FROM owners WHERE owner = ? AND kind = ? AND namespace = ? AND name = ?", (uid, *key)
            )
        for uid in after - before:
            self._connection.execute("INSERT INTO owners VALUES (?, ?, ?, ?)", (uid, *key))

    def _record(
        self,
        resource: Resource,
        action: str,
        by: str,
        time: datetime,
        *,
        before: Mapping[str, Any] | None,
        after: Mapping[str, Any] | None,
    ) -> None:
        """Write history. Numbers go on when a name is used again: they are taken from history, not from the object."""
        meta = resource.meta
        key = (resource.kind, meta.namespace, meta.name)
        self._connection.execute(
            "INSERT INTO revisions (kind, namespace, name, number, uid, rv, action, actor, time, before, after)"
            " SELECT ?, ?, ?, coalesce(max(number), 0) + 1, ?, ?, ?, ?, ?, ?, ?"
            " FROM revisions WHERE kind = ? AND namespace = ? AND name = ?",
            (
                *key, meta.uid, int(meta.resource_version), action, by, format_time(time),
                None if before is None else rows.encode_data(before, resource),
                None if after is None else rows.encode_data(after, resource), *key,
            ),
        )  # fmt: skip


def _writable(meta: Meta) -> dict[str, Any]:
    """The part of metadata that callers may change."""
    wire = meta.wire()
    return {key: wire.get(key) for key in ("labels", "annotations", "ownerReferences", "finalizers")}
