"""Who may ask gateways what is published as soon as it changes, and before a change is acknowledged."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import stat
from collections.abc import Callable, Coroutine
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mizzen.access import access_file
from mizzen.access.access_file import AccessFile, TokenEntry
from mizzen.access.jwt import Key, TrustedIssuer
from mizzen.access.policy import Binding
from mizzen.controllers.access_publisher import AccessPublisher, IssuerWithKeys
from mizzen.errors import Unavailable
from mizzen.kinds.schema.resource import Meta, Resource
from mizzen.server.auth.role_bindings import RoleBindingCache
from mizzen.stores.records.protocol import Principal, Token
from mizzen.stores.sqlite.store import SqliteStore
from tests.unit.controllers.publishing import eventually, running

NOW = datetime(2026, 1, 2, tzinfo=UTC)
ADMIN = TokenEntry(digest="a" * 64, id="admin-token", principal="admin", admin=True)
TRUST = TrustedIssuer("https://id.example", "mizzen", admin_group="wheel")


class Clock:
    def __init__(self) -> None:
        self.time = NOW

    def __call__(self) -> datetime:
        return self.time


class FakeKeys:
    """An issuer that can be away."""

    def __init__(self, *keys: Key) -> None:
        self.keys: tuple[Key, ...] = keys
        self.away = False

    async def all(self) -> tuple[Key, ...]:
        if self.away:
            raise Unavailable("away")
        return self.keys


class Plane:
    """A store and the file that is published from it."""

    def __init__(self, store: SqliteStore, folder: Path) -> None:
        self.store = store
        self.path = folder / "access.json"
        self.clock = Clock()

    def publisher(self, vouching: IssuerWithKeys | None = None, **more: Any) -> AccessPublisher:
        given: dict[str, Any] = {"check_interval": 60.0, "anonymous": False, **more}
        return AccessPublisher(
            self.store, self.store.identities, RoleBindingCache(self.store).current, self.path,
            admin=ADMIN, trusted_issuer=vouching, now=self.clock, **given,
        )  # fmt: skip

    def read(self) -> AccessFile:
        return access_file.decode(self.path.read_bytes())

    async def user(self, name: str, expires: datetime | None = None) -> str:
        """The id of their token."""
        with contextlib.suppress(Exception):
            await self.store.identities.add_principal(Principal(name, NOW, "admin"))
        id_ = f"{name}-{len(await self.store.identities.tokens())}"
        await self.store.identities.add_token(Token(id_, name, f"digest of {id_}", NOW, "admin", expires))
        return id_

    async def permit(self, name: str, **target: str) -> Resource:
        spec = {"subjects": ["ann"], "verbs": ["predict"], "target": target or {"namespace": "default"}}
        return await self.store.create(Resource("RoleBinding", Meta(name, "default"), spec), "admin")


def over_a_store(test: Callable[[Plane], Coroutine[Any, Any, None]]) -> Callable[[Path], None]:
    def run(tmp_path: Path) -> None:
        async def main() -> None:
            ids = itertools.count()
            store = await SqliteStore.open(tmp_path / "mizzen.db", clock=lambda: NOW, new_id=lambda: f"id-{next(ids)}")
            try:
                await test(Plane(store, tmp_path))
            finally:
                await store.close()

        asyncio.run(main())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


@over_a_store
async def test_the_file_says_who_has_which_rights(plane: Plane) -> None:
    ann = await plane.user("ann", NOW + timedelta(hours=1))
    await plane.user("bob", NOW)
    gone = await plane.user("eve")
    await plane.store.identities.revoke_token(gone, NOW)
    await plane.permit("b1", model="iris", alias="prod")
    assert await plane.publisher(anonymous=True).publish()
    access = plane.read()
    assert access.anonymous
    assert [(one.id, one.principal, one.admin) for one in access.passes] == [
        ("admin-token", "admin", True),
        (ann, "ann", False),
    ]
    assert access.passes[1].expires == (NOW + timedelta(hours=1)).timestamp()
    assert access.passes[1].digest == f"digest of {ann}"
    [grant] = access.grants
    assert grant == Binding(grant.name, "default", frozenset({"ann"}), frozenset({"predict"}), "iris", "prod")
    assert stat.S_IMODE(plane.path.stat().st_mode) == 0o600


@over_a_store
async def test_it_is_settled_when_the_file_says_it(plane: Plane) -> None:
    publisher = plane.publisher()
    await publisher.publish()
    await publisher.wait_published()
    ann = await plane.user("ann")
    await publisher.wait_published()
    assert len(plane.read().passes) == 2
    await plane.store.identities.revoke_token(ann, NOW)
    await publisher.wait_published()
    assert len(plane.read().passes) == 1
    binding = await plane.permit("b1")
    await publisher.wait_published()
    assert len(plane.read().grants) == 1
    await plane.store.delete(binding.ref, "admin")
    await publisher.wait_published()
    assert plane.read().grants == ()
    await plane.user("ann")
    await plane.store.identities.remove_principal("ann", NOW)
    await asyncio.gather(*(publisher.wait_published() for _ in range(10)))
    assert len(plane.read().passes) == 1
    written = plane.path.stat().st_ino
    await plane.store.create(Resource("Model", Meta("iris", "default"), {}), "admin")
    await publisher.wait_published()
    assert plane.path.stat().st_ino == written, "what gateways need not know costs nothing"


@over_a_store
async def test_serials_grow_over_restarts_and_equal_states_are_not_written(plane: Plane) -> None:
    serials = []
    for number in range(3):
        publisher = plane.publisher()
        await publisher.publish()
        assert not await publisher.publish()
        serials.append(plane.read().serial)
        await plane.user(f"user{number}")
        await publisher.wait_published()
        serials.append(plane.read().serial)
    assert serials == [1, 2, 2, 3, 3, 4]


@over_a_store
async def test_what_changes_by_itself_is_followed(plane: Plane) -> None:
    """A binding that is refused later gives nothing; neither does one that somebody else wrote or took away."""
    publisher = plane.publisher()
    async with running(publisher):
        binding = await plane.permit("b1")
        await eventually(lambda: plane.path.exists() and len(plane.read().grants) == 1)
        refused = {
            "type": "Accepted", "status": "False", "reason": "Invalid", "message": "no",
            "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": binding.meta.generation,
        }  # fmt: skip
        await plane.store.update_status(replace(binding, status={"conditions": [refused]}), "system")
        await eventually(lambda: plane.read().grants == ())


@over_a_store
async def test_tokens_that_ended_and_files_that_changed_are_noticed_by_looking(plane: Plane) -> None:
    await plane.user("ann", NOW + timedelta(hours=1))
    async with running(plane.publisher(check_interval=0.01)):
        await eventually(lambda: plane.path.exists() and len(plane.read().passes) == 2)
        plane.clock.time = NOW + timedelta(hours=1)
        await eventually(lambda: len(plane.read().passes) == 1)
        plane.path.unlink()
        await eventually(plane.path.exists)
        plane.path.write_bytes(b"{}")
        await eventually(lambda: len(plane.read().passes) == 1)


@over_a_store
async def test_an_issuers_keys_are_published_and_kept_over_a_restart(plane: Plane) -> None:
    keys = FakeKeys({"kid": "k1", "kty": "EC"})

    def published_keys() -> list[str]:
        if not plane.path.exists():
            return []
        issuer = plane.read().issuer
        return [] if issuer is None else [str(key["kid"]) for key in issuer.keys]

    publisher = plane.publisher(IssuerWithKeys(TRUST, keys), fetch_interval=0.01, check_interval=0.01)
    async with running(publisher):
        await eventually(lambda: published_keys() == ["k1"])
        issuer = plane.read().issuer
        assert issuer is not None
        assert (issuer.issuer, issuer.audience, issuer.admin_group) == ("https://id.example", "mizzen", "wheel")
        keys.keys = ({"kid": "k2", "kty": "EC"},)
        await eventually(lambda: published_keys() == ["k2"])
    await plane.publisher(IssuerWithKeys(TRUST, keys)).publish()
    assert published_keys() == ["k2"], "before they are fetched anew"
    await plane.publisher(IssuerWithKeys(replace(TRUST, issuer="https://other.example"), keys)).publish()
    assert published_keys() == [], "of another issuer"
    keys.away = True
    async with running(plane.publisher(IssuerWithKeys(TRUST, keys), fetch_interval=0.01, check_interval=0.01)):
        await eventually(lambda: published_keys() == [])
        keys.away = False
        await eventually(lambda: published_keys() == ["k2"])


@over_a_store
async def test_what_cannot_be_written_is_not_settled(plane: Plane) -> None:
    plane.path.mkdir()
    publisher = plane.publisher()
    await plane.user("ann")
    with pytest.raises(Unavailable, match=r"access\.json cannot be written"):
        await publisher.wait_published()
    plane.path.rmdir()
    await publisher.wait_published()
    assert len(plane.read().passes) == 2


@over_a_store
async def test_a_store_that_cannot_be_read_leaves_the_file(plane: Plane) -> None:
    plane.path.write_bytes(access_file.encode(AccessFile(serial=7, passes=(ADMIN, ADMIN))))
    failing = True

    async def bindings() -> tuple[()]:
        if failing:
            raise Unavailable("no")
        return ()

    publisher = AccessPublisher(
        plane.store, plane.store.identities, bindings, plane.path,
        admin=ADMIN, anonymous=False, trusted_issuer=None, now=plane.clock, check_interval=0.01,
    )  # fmt: skip
    async with running(publisher):
        with pytest.raises(Unavailable):
            await publisher.wait_published()
        assert plane.read().serial == 7
        failing = False
        await eventually(lambda: plane.read() == AccessFile(serial=8, passes=(ADMIN,)))
