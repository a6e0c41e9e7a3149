"""Secrets at rest: what is on disk tells nothing, and a wrong key spoils nothing."""

from __future__ import annotations

import asyncio
import os
import stat
import tempfile
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mizzen.errors import MizzenError, NotFound
from mizzen.stores.records.vault import Vault
from mizzen.stores.sqlite.store import SqliteStore

P = ParamSpec("P")
NOW = datetime(2026, 1, 2, tzinfo=UTC)
VALUE = "correct horse battery staple"


def in_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[tuple[SqliteStore, Vault]]:
    store = await SqliteStore.open(folder / "mizzen.db", clock=lambda: NOW, new_id=lambda: uuid.uuid4().hex)
    try:
        yield store, Vault(store.secrets, folder / "secret-key")
    finally:
        await store.close()


async def put(vault: Vault, name: str = "db", **data: str) -> None:
    await vault.put("default", name, data or {"password": VALUE}, "ann", NOW)


@in_loop
async def test_what_is_put_can_be_revealed_also_after_a_restart(tmp_path: Path) -> None:
    async with opened(tmp_path) as (_, vault):
        await put(vault, password=VALUE, user="ann")
        assert await vault.reveal("default", "db", "password") == VALUE
    async with opened(tmp_path) as (_, vault):
        assert await vault.reveal("default", "db", "user") == "ann"
        (kept,) = await vault.list("default")
        assert (kept.name, kept.keys, kept.updated, kept.updated_by) == ("db", ("password", "user"), NOW, "ann")


@in_loop
async def test_the_key_file_is_for_its_owner_only(tmp_path: Path) -> None:
    async with opened(tmp_path) as (_, vault):
        await put(vault)
    assert stat.S_IMODE((tmp_path / "secret-key").stat().st_mode) == 0o600
    os.chmod(tmp_path / "secret-key", 0o640)
    async with opened(tmp_path) as (_, vault):
        with pytest.raises(MizzenError, match="others can read") as caught:
            await vault.reveal("default", "db", "password")
        assert "chmod 600" in caught.value.hint


@in_loop
async def test_nothing_in_clear_is_on_disk_or_shown(tmp_path: Path) -> None:
    async with opened(tmp_path) as (_, vault):
        await put(vault)
        kept = await vault.get("default", "db")
        assert VALUE.encode() not in kept.sealed
        for shown in (repr(kept), repr(vault)):
            assert VALUE not in shown
            assert kept.sealed.hex() not in shown
        assert all(VALUE.encode() not in content for content in _contents(tmp_path))


@in_loop
async def test_the_same_value_is_sealed_differently_each_time(tmp_path: Path) -> None:
    async with opened(tmp_path) as (_, vault):
        seals = set()
        for _ in range(20):
            await put(vault)
            seals.add((await vault.get("default", "db")).sealed)
    assert len(seals) == 20
    assert len({sealed[1:13] for sealed in seals}) == 20  # never one nonce twice


@in_loop
async def test_rows_cannot_be_swapped(tmp_path: Path) -> None:
    async with opened(tmp_path) as (store, vault):
        await put(vault, "mine", key="mine")
        await put(vault, "theirs", key="theirs")
        theirs = await store.secrets.get("default", "theirs")
        await store.secrets.put(replace(theirs, name="mine"))
        with pytest.raises(MizzenError, match="'mine' in namespace default is damaged"):
            await vault.reveal("default", "mine", "key")
        await store.secrets.put(replace(theirs, namespace="other"))
        with pytest.raises(MizzenError, match="damaged"):
            await vault.reveal("other", "theirs", "key")
        assert await vault.reveal("default", "theirs", "key") == "theirs"


@pytest.mark.parametrize("change", ["lost", "another", "empty", "broken", "short"])
@in_loop
async def test_a_lost_or_changed_key_is_named_and_spoils_nothing(tmp_path: Path, change: str) -> None:
    file = tmp_path / "secret-key"
    async with opened(tmp_path) as (_, vault):
        await put(vault)
    right = file.read_bytes()
    _change(file, change)
    broken = file.read_bytes() if file.exists() else None
    async with opened(tmp_path) as (store, vault):
        sealed = (await store.secrets.get("default", "db")).sealed
        for attempt in (vault.reveal("default", "db", "password"), put(vault), put(vault, "new")):
            with pytest.raises(MizzenError) as caught:
                await attempt
            assert str(file) in caught.value.message
            assert caught.value.hint
        assert (file.read_bytes() if file.exists() else None) == broken
        assert (await store.secrets.get("default", "db")).sealed == sealed
        assert [secret.name for secret in await vault.list("default")] == ["db"]
    file.write_bytes(right)
    file.chmod(0o600)
    async with opened(tmp_path) as (_, vault):
        assert await vault.reveal("default", "db", "password") == VALUE


@in_loop
async def test_a_key_that_was_put_back_is_taken_without_a_restart(tmp_path: Path) -> None:
    file = tmp_path / "secret-key"
    async with opened(tmp_path) as (_, vault):
        await put(vault)
    file.rename(tmp_path / "elsewhere")
    async with opened(tmp_path) as (_, vault):
        with pytest.raises(MizzenError, match="does not exist"):
            await vault.reveal("default", "db", "password")
        (tmp_path / "elsewhere").rename(file)
        assert await vault.reveal("default", "db", "password") == VALUE


@in_loop
async def test_what_is_missing_is_named(tmp_path: Path) -> None:
    async with opened(tmp_path) as (_, vault):
        await put(vault)
        with pytest.raises(NotFound, match="has no key 'pasword'") as caught:
            await vault.reveal("default", "db", "pasword")
        assert caught.value.hint == "did you mean 'password'?"
        for attempt in (vault.reveal("default", "no", "x"), vault.get("other", "db"), vault.delete("default", "no")):
            with pytest.raises(NotFound):
                await attempt


@in_loop
async def test_many_at_once_agree_on_one_key(tmp_path: Path) -> None:
    async with opened(tmp_path) as (store, vault):
        other = Vault(store.secrets, tmp_path / "secret-key")
        await asyncio.gather(*(put(one, f"s-{number}") for number in range(10) for one in (vault, other)))
        assert {await other.reveal("default", f"s-{number}", "password") for number in range(10)} == {VALUE}


@settings(max_examples=20, deadline=None)
@given(st.dictionaries(st.text("abcXYZ_.-", min_size=1), st.text(), min_size=1, max_size=5))
def test_any_text_comes_back_as_it_was(data: dict[str, str]) -> None:
    async def round_trip(folder: Path) -> dict[str, str]:
        async with opened(folder) as (_, vault):
            await put(vault, **data)
            return {key: await vault.reveal("default", "db", key) for key in data}

    with tempfile.TemporaryDirectory() as folder:
        assert asyncio.run(round_trip(Path(folder))) == data


def _contents(folder: Path) -> list[bytes]:
    return [file.read_bytes() for file in folder.iterdir()]


def _change(file: Path, how: str) -> None:
    right = file.read_bytes()
    if how == "lost":
        file.unlink()
    elif how == "another":
        file.write_bytes(right[:5] + (b"A" if right[5:6] != b"A" else b"B") + right[6:])
    else:
        file.write_bytes({"empty": b"", "broken": b"\xff not base64 \xff", "short": right[:20]}[how])


@in_loop
async def test_what_is_merged_loses_nothing_that_is_merged_meanwhile(tmp_path: Path) -> None:
    async with opened(tmp_path) as (_, vault):
        await put(vault, password=VALUE)
        added = (vault.merge("default", "db", {f"k{number}": str(number)}, "bob", NOW) for number in range(20))
        await asyncio.gather(*added)
        kept = await vault.get("default", "db")
        assert (len(kept.keys), kept.updated_by) == (21, "bob")
        assert await vault.reveal("default", "db", "password") == VALUE
        assert await vault.reveal("default", "db", "k7") == "7"
        await vault.merge("default", "new", {"a": "b"}, "bob", NOW)
        assert await vault.reveal("default", "new", "a") == "b"
