"""What every store promises about what it keeps beside resources: identities, sealed secrets, the audit."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mizzen.access.limits import Limit
from mizzen.errors import AlreadyExists, BadRequest, NotFound, Unavailable
from mizzen.stores.records.protocol import AuditEntry, AuditQuery, Principal, SealedSecret, StoredLimit, Token
from tests.contract.stores import Home, Opener, every_store, model, on_every_store, opened

NOON = datetime(2026, 5, 1, 12, 0, 0, 123456, tzinfo=UTC)
ANN = Principal("ann", NOON, "admin")


def token(id_: str, of: str = "ann", **more: object) -> Token:
    made = Token(id_, of, f"digest-{id_}", NOON, "admin")
    return replace(made, **more)  # type: ignore[arg-type]


def entry(actor: str = "ann", name: str = "iris", *, minute: int = 0, **more: object) -> AuditEntry:
    made = AuditEntry(NOON + timedelta(minutes=minute), actor, "write", "Model", "default", name, True, "because")
    return replace(made, **more)  # type: ignore[arg-type]


# -- identities


@on_every_store
async def test_principals_come_and_go(store: Home) -> None:
    people = store.identities
    bob = Principal("bob", NOON, "ann")
    await people.add_principal(bob)
    await people.add_principal(ANN)
    assert await people.principals() == (ANN, bob)
    with pytest.raises(AlreadyExists):
        await people.add_principal(replace(ANN, created_by="mallory"))
    await people.remove_principal("bob", NOON)
    with pytest.raises(NotFound):
        await people.remove_principal("bob", NOON)
    assert await people.principals() == (ANN,)


@on_every_store
async def test_limits_are_kept_and_go_with_whose_they_are(store: Home) -> None:
    people = store.identities
    await people.add_principal(ANN)
    own = StoredLimit(Limit(subject="ann", per_second=0.5, burst=3, per_day=7, per_month=9), NOON, "admin")
    team = StoredLimit(Limit(subject="group:team", per_day=1), NOON, "admin")
    for each in (team, own, own):
        before = people.generation()
        await people.set_limit(each)
        assert people.generation() != before, "gateways are told"
    assert await people.limits() == (own, team)
    await people.remove_limit("group:team")
    with pytest.raises(NotFound):
        await people.remove_limit("group:team")
    await people.remove_principal("ann", NOON)
    assert await people.limits() == ()


@on_every_store
async def test_a_token_is_found_by_its_digest_and_never_shows_it(store: Home) -> None:
    people = store.identities
    await people.add_principal(ANN)
    made = token("t1", expires=NOON + timedelta(days=1), note="for the laptop")
    await people.add_token(made)
    assert people.find_token("digest-t1") == made
    assert people.find_token("digest-t2") is None
    assert "digest" not in repr(made)
    with pytest.raises(NotFound):
        await people.add_token(token("t2", "nobody"))
    for twice in (token("t1", digest="other"), token("other", digest="digest-t1")):
        with pytest.raises(AlreadyExists) as refused:
            await people.add_token(twice)
        assert "digest" not in str(refused.value)
    assert await people.tokens() == (made,)


@on_every_store
async def test_a_revoked_token_stays_revoked(store: Home) -> None:
    people = store.identities
    await people.add_principal(ANN)
    await people.add_token(token("t1"))
    revoked = await people.revoke_token("t1", NOON)
    assert revoked.revoked == NOON
    assert people.find_token("digest-t1") == revoked
    assert not revoked.valid(NOON)
    assert await people.revoke_token("t1", NOON + timedelta(days=1)) == revoked, "once is enough"
    with pytest.raises(NotFound):
        await people.revoke_token("t2", NOON)


@on_every_store
async def test_whoever_is_removed_loses_all_tokens_for_good(store: Home) -> None:
    people = store.identities
    for name in ("ann", "bob"):
        await people.add_principal(Principal(name, NOON, "admin"))
    await people.add_token(token("a1"))
    await people.add_token(token("a2", created=NOON + timedelta(seconds=1)))
    await people.add_token(token("b1", "bob"))
    earlier = await people.revoke_token("a2", NOON)
    later = NOON + timedelta(hours=1)
    await people.remove_principal("ann", later)
    assert await people.tokens("ann") == (token("a1", revoked=later), earlier)
    assert people.find_token("digest-b1") == token("b1", "bob")
    await people.add_principal(ANN)
    found = people.find_token("digest-a1")
    assert found is not None
    assert not found.valid(NOON)


@on_every_store
async def test_the_generation_moves_with_every_change(store: Home) -> None:
    people = store.identities
    seen = {people.generation()}
    for change in (
        people.add_principal(ANN), people.add_token(token("t1")), people.revoke_token("t1", NOON),
        people.remove_principal("ann", NOON),
    ):  # fmt: skip
        await change
        seen.add(people.generation())
    assert len(seen) == 5
    before = people.generation()
    with pytest.raises(NotFound):
        await people.remove_principal("ann", NOON)
    await store.create(model("iris"), "ann")
    assert people.generation() == before


@on_every_store
async def test_changes_at_the_same_moment_follow_each_other(store: Home) -> None:
    people = store.identities
    done = await asyncio.gather(
        *(people.add_principal(Principal("ann", NOON, f"admin-{i}")) for i in range(10)),
        *(people.add_token(token(f"t{i}")) for i in range(20)),
        people.remove_principal("ann", NOON),
        people.add_token(token("late")),
        return_exceptions=True,
    )
    assert [type(one) for one in done] == [type(None), *[AlreadyExists] * 9, *[type(None)] * 21, NotFound]
    assert {one.revoked for one in await people.tokens()} == {NOON}
    assert len(await people.tokens("ann")) == 20
    assert await people.principals() == ()


# -- secrets


@on_every_store
async def test_secrets_are_put_read_replaced_and_deleted(store: Home) -> None:
    one = SealedSecret("default", "s3", ("key", "id"), b"\x00sealed\xff", NOON, "ann")
    await store.secrets.put(one)
    await store.secrets.put(replace(one, name="db", keys=()))
    await store.secrets.put(replace(one, namespace="other"))
    assert await store.secrets.get("default", "s3") == one
    again = replace(one, keys=("key",), sealed=b"", updated=NOON + timedelta(days=1), updated_by="bob")
    await store.secrets.put(again)
    assert [secret.name for secret in await store.secrets.list("default")] == ["db", "s3"]
    assert await store.secrets.get("default", "s3") == again
    assert await store.secrets.get("other", "s3") == replace(one, namespace="other")
    await store.secrets.delete("default", "s3")
    for gone in (store.secrets.get("default", "s3"), store.secrets.delete("default", "s3")):
        with pytest.raises(NotFound):
            await gone
    assert "sealed" not in repr(one).replace("SealedSecret", "")


# -- audit


@on_every_store
async def test_entries_are_numbered_and_read_newest_first(store: Home) -> None:
    full = entry(
        method="POST", path="/model", code=201, source="127.0.0.1", count=3, allowed=False, reason="no RoleBinding"
    )
    await store.audit.record(full)
    await store.audit.record_all(entry(name=f"m{i}", minute=i + 1) for i in range(3))
    await store.audit.record_all(())
    found = await store.audit.entries(AuditQuery(), limit=10)
    assert [one.number for one in found] == [4, 3, 2, 1]
    assert found[3] == replace(full, number=1)
    assert [one.name for one in await store.audit.entries(AuditQuery(), limit=2, before=3)] == ["m0", "iris"]
    assert await store.audit.entries(AuditQuery(), limit=2, before=1) == ()
    for limit, before in ((0, None), (1, 99)):
        with pytest.raises(BadRequest):
            await store.audit.entries(AuditQuery(), limit=limit, before=before)


@on_every_store
async def test_old_entries_go_and_numbers_are_never_given_again(store: Home) -> None:
    await store.audit.record_all(
        entry(name=f"{i}", minute=i, allowed=i % 2 == 0, actor=f"actor-{i}") for i in range(2000)
    )

    async def kept() -> list[int]:
        found = await store.audit.entries(AuditQuery(), limit=3000)
        return sorted(int(one.name) for one in found)

    assert await store.audit.prune(allowed_before=None, refusals=1000) == 0
    assert await store.audit.prune(allowed_before=None, refusals=3) == 997
    assert await kept() == [*range(0, 1994, 2), *range(1994, 2000)]
    assert await store.audit.prune(allowed_before=NOON + timedelta(minutes=1990), refusals=3) == 995
    assert await kept() == [1990, 1992, *range(1994, 2000)]
    assert await store.audit.prune(allowed_before=NOON + timedelta(days=9), refusals=3) == 5
    assert await store.audit.prune(allowed_before=NOON + timedelta(days=9), refusals=0) == 2
    assert await kept() == [1999]  # the last one tells the next number
    await store.audit.record(entry(name="2000"))
    [one] = await store.audit.entries(AuditQuery(name="2000"), limit=1)
    assert one.number == 2001


@on_every_store
async def test_many_refusals_of_one_moment_can_be_pruned(store: Home) -> None:
    await store.audit.record_all([entry(allowed=False)] * 1200 + [entry()] * 1200)
    assert await store.audit.prune(allowed_before=NOON + timedelta(minutes=1), refusals=10) == 1190 + 1199
    found = await store.audit.entries(AuditQuery(), limit=100)
    assert [one.allowed for one in found] == [True, *[False] * 10]


ENTRIES = [
    AuditEntry(
        NOON + timedelta(minutes=(i * 7) % 11), f"actor-{i % 3}", "write", ("Model", "Node")[i % 2], f"ns-{i % 2}",
        f"name-{i % 4}", i % 5 != 0, "because", number=i + 1,
    )
    for i in range(60)
]  # fmt: skip


def queries() -> st.SearchStrategy[AuditQuery]:
    moments = st.one_of(st.none(), st.integers(-1, 12).map(lambda minute: NOON + timedelta(minutes=minute)))
    return st.builds(
        AuditQuery,
        actor=st.sampled_from([None, "actor-1", "nobody"]),
        namespace=st.sampled_from([None, "ns-0", "ns-1"]),
        kind=st.sampled_from([None, "Model", "Node"]),
        name=st.sampled_from([None, "name-2", "nothing"]),
        allowed=st.sampled_from([None, True, False]),
        since=moments,
        until=moments,
    )


def asked_for(query: AuditQuery, one: AuditEntry) -> bool:
    """`until` is the first moment that is too late."""
    pairs = ((query.actor, one.actor), (query.namespace, one.namespace), (query.kind, one.kind),
             (query.name, one.name), (query.allowed, one.allowed))  # fmt: skip
    return (
        all(wanted in (None, found) for wanted, found in pairs)
        and (query.since is None or query.since <= one.time)
        and (query.until is None or one.time < query.until)
    )


@every_store
def test_a_query_finds_what_a_look_at_every_entry_would(opener: Opener, tmp_path: Path) -> None:
    with asyncio.Runner() as runner:
        store = runner.run(opener(tmp_path))
        runner.run(store.audit.record_all(ENTRIES))
        newest_first = sorted(ENTRIES, key=lambda one: (one.time, one.number), reverse=True)

        async def pages(query: AuditQuery, limit: int) -> list[AuditEntry]:
            found = [*await store.audit.entries(query, limit=limit)]
            while len(found) % limit == 0 and (
                more := found and await store.audit.entries(query, limit=limit, before=found[-1].number)
            ):
                found += more
            return found

        @settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
        @given(query=queries(), limit=st.sampled_from([1, 7, 100]))
        def agrees(query: AuditQuery, limit: int) -> None:
            assert runner.run(pages(query, limit)) == [one for one in newest_first if asked_for(query, one)]

        try:
            agrees()
        finally:
            runner.run(store.close())


# -- all of them


@every_store
def test_records_survive_a_restart_and_touch_no_resource(opener: Opener, tmp_path: Path) -> None:
    async def body() -> None:
        secret = SealedSecret("default", "s3", ("key",), b"sealed", NOON, "ann")
        async with opened(opener, tmp_path) as store:
            await store.identities.add_principal(ANN)
            await store.identities.add_token(token("t1"))
            await store.identities.revoke_token("t1", NOON)
            await store.identities.add_token(token("t2", expires=NOON))
            await store.secrets.put(secret)
            await store.audit.record(entry())
            await store.identities.set_limit(StoredLimit(Limit(subject="ann", per_day=1), NOON, "admin"))
            assert (await store.list("Model")).resource_version == "0"
            tokens, limits = await store.identities.tokens(), await store.identities.limits()
        async with opened(opener, tmp_path) as store:
            assert await store.identities.principals() == (ANN,)
            assert await store.identities.tokens() == tokens
            assert await store.identities.limits() == limits
            assert [store.identities.find_token(one.digest) for one in tokens] == [*tokens]
            assert await store.secrets.list("default") == (secret,)
            assert await store.audit.entries(AuditQuery(), limit=9) == (entry(number=1),)

    asyncio.run(body())


@every_store
def test_a_closed_store_takes_no_records(opener: Opener, tmp_path: Path) -> None:
    async def body() -> None:
        store = await opener(tmp_path)
        await store.close()
        for asked in (
            store.identities.add_principal(ANN), store.secrets.get("default", "s3"), store.audit.record(entry()),
            store.audit.entries(AuditQuery(), limit=1),
        ):  # fmt: skip
            with pytest.raises(Unavailable):
                await asked

    asyncio.run(body())
