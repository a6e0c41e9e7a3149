"""A store on a disk that is nearly full: nothing is added, what goes may go, and it goes on by itself."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mizzen.errors import NoRoom
from mizzen.kinds.schema.resource import Meta, Resource
from mizzen.stores.records.protocol import AuditEntry, Principal, SealedSecret, Token
from mizzen.stores.sqlite.store import SqliteStore

NOW = datetime(2026, 11, 16, tzinfo=UTC)


def test_nothing_is_added(tmp_path: Path) -> None:
    full = False

    def room() -> None:
        if full:
            raise NoRoom("full")

    async def body() -> None:
        nonlocal full
        store = await SqliteStore.open(
            tmp_path / "mizzen.db", clock=lambda: NOW, new_id=lambda: uuid.uuid4().hex, room=room
        )
        model = await store.create(Resource("Model", Meta("m")), "ann")
        held = await store.create(Resource("Model", Meta("held", finalizers=("ours",))), "ann")
        node = await store.create(Resource("Node", Meta("n"), {"layer": "cloud"}), "ann")
        await store.identities.add_principal(Principal("bob", NOW, "ann"))
        token = Token("t", "bob", "digest", NOW, "ann")
        await store.identities.add_token(token)
        full = True
        for refused in (
            store.create(Resource("Model", Meta("other")), "ann"),
            store.update(replace(model, spec={"description": "x"}), "ann"),
            store.update_status(replace(model, status={"current": {}}), "ann"),
            store.identities.add_principal(Principal("eve", NOW, "ann")),
            store.identities.add_token(replace(token, id="u", digest="other")),
            store.secrets.put(SealedSecret("default", "s", ("k",), b"", NOW, "ann")),
        ):
            with pytest.raises(NoRoom):
                await refused
        # What is deleted is deleted to the end, what happened is on record, and the machine tells how it is.
        going = await store.delete(held.ref, "ann")
        assert going is not None
        await store.update(replace(going, meta=replace(going.meta, finalizers=())), "ann")
        await store.delete(model.ref, "ann")
        await store.identities.revoke_token("t", NOW)
        await store.update_status(replace(node, status={"conditions": []}), "ann")
        entry = AuditEntry(NOW, "ann", "write", "Model", "default", "m", True, "", "DELETE", "/", 200, "plane")
        await store.audit.record(entry)
        assert (await store.list("Model")).items == ()
        full = False
        await store.create(Resource("Model", Meta("other")), "ann")
        await store.close()

    asyncio.run(body())
