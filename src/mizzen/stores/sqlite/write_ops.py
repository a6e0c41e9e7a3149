"""Write operations of a SQLite store: object, event, revision and index rows change together.

They run inside a transaction that the caller begins and ends. If one raises, the caller rolls back.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

import msgspec

from mizzen.errors import Conflict, Forbidden
from mizzen.kinds.schema.resource import Meta, Ref, Resource
from mizzen.stores import name_errors
from mizzen.stores.sqlite import codec, indexes, revisions
from mizzen.stores.sqlite.read_ops import SqlitePresent
from mizzen.stores.store import Event, Guard


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The result for the caller and the event for watchers; no event if nothing changed."""

    resource: Resource | None
    event: Event | None = None
    recorded: bool = False
    """Whether history has an entry for it."""


class WriteOperations:
    def __init__(
        self, connection: sqlite3.Connection, *, clock: Callable[[], datetime], new_id: Callable[[], str]
    ) -> None:
        self._connection = connection
        self._clock = clock
        self._new_id = new_id

    def create(self, new: Resource, by: str, guard: Guard | None) -> WriteResult:
        _check_kind(new.kind)
        there = codec.find(self._connection, new.ref)
        if there is not None:
            raise name_errors.name_taken(there)
        self._ask(guard)
        now = self._clock()
        meta = replace(new.meta, uid=self._new_id(), generation=1, created=now, deleted=None)
        event = self._write("ADDED", None, replace(new, meta=meta))
        created = event.resource
        recorded = revisions.record(self._connection, created, "created", by, now, before=None, after=created.spec)
        return WriteResult(created, event, recorded=recorded)

    def update(self, new: Resource, by: str, guard: Guard | None = None) -> WriteResult:
        old = self._current(new)
        respecified = not codec.same(old.spec, dict(new.spec), new)
        if not respecified and codec.same(_writable(old.meta), _writable(new.meta), new):
            return WriteResult(old)
        if old.deleting and not set(new.meta.finalizers) <= set(old.meta.finalizers):
            raise Conflict(f"{old.ref} is being deleted: finalizers can only be removed")
        self._ask(guard)
        written = {name: getattr(new.meta, name) for name in _WRITABLE}
        meta = replace(old.meta, generation=old.meta.generation + respecified, **written)
        released = old.deleting and not meta.finalizers
        event = self._write("DELETED" if released else "MODIFIED", old, replace(old, meta=meta, spec=new.spec))
        now = event.resource
        recorded = respecified and revisions.record(
            self._connection, now, "updated", by, self._clock(), before=old.spec, after=now.spec
        )
        return WriteResult(now, event, recorded=recorded)

    def update_status(self, new: Resource, by: str, decision: str | None, guard: Guard | None) -> WriteResult:
        old = self._current(new)
        if codec.same(old.status, dict(new.status), new):
            return WriteResult(old)
        self._ask(guard)
        meta = replace(old.meta, managed=new.meta.managed)
        event = self._write("MODIFIED", old, replace(old, meta=meta, status=new.status))
        now = event.resource
        recorded = decision is not None and revisions.record(
            self._connection, now, decision, by, self._clock(), before=old.status, after=now.status
        )
        return WriteResult(now, event, recorded=recorded)

    def delete(self, ref: Ref, by: str, uid: str | None, guard: Guard | None) -> WriteResult:
        old = self._found(ref)
        if uid is not None and uid != old.meta.uid:
            raise Conflict(f"{ref} has the uid {old.meta.uid}, not {uid}")
        if old.deleting:
            return WriteResult(old)
        self._ask(guard)
        now = self._clock()
        if old.meta.finalizers:
            event = self._write("MODIFIED", old, replace(old, meta=replace(old.meta, deleted=now)))
        else:
            event = self._write("DELETED", old, old)
        recorded = revisions.record(self._connection, event.resource, "deleted", by, now, before=old.spec, after=None)
        return WriteResult(event.resource if old.meta.finalizers else None, event, recorded=recorded)

    def compact(self, keep: int) -> int:
        """Drops all but the newest `keep` events. Returns the horizon."""
        # Not simply rv - keep: reopening a store with a larger `keep` does not bring old events back.
        [(horizon,)] = self._connection.execute(
            "UPDATE state SET horizon = max(horizon, rv - ?) RETURNING horizon", (keep,)
        ).fetchall()
        self._connection.execute("DELETE FROM events WHERE rv <= ?", (horizon,))
        return int(horizon)

    def count_commit(self) -> tuple[int, int]:
        """Returns the number of commits, with this one, and the resource version."""
        [(commits, rv)] = self._connection.execute(
            "UPDATE state SET commits = commits + 1 RETURNING commits, rv"
        ).fetchall()
        return commits, rv

    def _ask(self, guard: Guard | None) -> None:
        if guard is not None:
            guard(SqlitePresent(self._connection))

    def _current(self, new: Resource) -> Resource:
        """Returns the stored object if `new` is based on its current version."""
        old = self._found(new.ref)
        if new.meta.uid not in ("", old.meta.uid):
            raise Conflict(f"{new.ref} was deleted and created again since it was read", hint="read it again")
        if new.meta.resource_version not in ("", old.meta.resource_version):
            raise Conflict(f"{new.ref} changed since it was read", hint="read it again and repeat the change")
        return old

    def _found(self, ref: Ref) -> Resource:
        _check_kind(ref.kind)
        found = codec.find(self._connection, ref)
        if found is None:
            raise name_errors.missing(ref)
        return found

    def _write(self, type_: Literal["ADDED", "MODIFIED", "DELETED"], old: Resource | None, new: Resource) -> Event:
        """Assigns the next resource version and stores (or removes) `new`, with its event and index rows."""
        [(rv,)] = self._connection.execute("UPDATE state SET rv = rv + 1 RETURNING rv").fetchall()
        new = replace(new, meta=replace(new.meta, resource_version=str(rv)))
        key = (new.kind, new.meta.namespace, new.meta.name)
        body = codec.encode(new)
        if type_ == "DELETED":
            self._connection.execute("DELETE FROM objects WHERE kind = ? AND namespace = ? AND name = ?", key)
        else:
            self._connection.execute(
                "INSERT INTO objects (kind, namespace, name, uid, rv, generation, deleting, body, model)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (kind, namespace, name) DO UPDATE SET"
                " rv = excluded.rv, generation = excluded.generation, deleting = excluded.deleting,"
                " body = excluded.body, model = excluded.model",
                (*key, new.meta.uid, rv, new.meta.generation, new.deleting, body, indexes.model_of(new)),
            )
        before, after = indexes.NOTHING if old is None else indexes.entries(old), indexes.entries(new)
        indexes.move(self._connection, key, before, indexes.NOTHING if type_ == "DELETED" else after)
        traits = None if old is None else indexes.selectors_before(before, after)
        seen = None if traits is None else msgspec.json.encode(traits)
        self._connection.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)", (rv, *key, type_, body, seen))
        # Decode again instead of passing `new` on: the caller may change its own object later.
        return Event(type_, codec.decode(body), len(body), traits)


_WRITABLE = ("labels", "annotations", "owners", "finalizers", "managed")
"""Fields of metadata that callers may change."""


def _check_kind(kind: str) -> None:
    if kind == revisions.KIND:
        raise Forbidden(
            "Revisions are read-only: the store writes one whenever another object changes",
            hint="change the object itself, or restore an earlier state with 'mizzen rollback'",
        )


def _writable(meta: Meta) -> dict[str, Any]:
    """Returns the part of metadata that callers may change."""
    wire = meta.wire()
    return {key: wire.get(key) for key in ("labels", "annotations", "ownerReferences", "finalizers", "managedFields")}
