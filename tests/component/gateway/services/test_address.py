"""How hosts are found and reached: names, IPv6, TLS."""

from __future__ import annotations

import asyncio
import socket
import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mizzen.gateway.services import address
from mizzen.server.admin import tls_issuance
from mizzen.web import tls
from tests.component.gateway.services.world import World, asked, played


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.skipif(not _has_ipv6(), reason="this machine has no IPv6")
@played
async def test_ipv6(world: World) -> None:
    server = await world.server(host="::1")
    assert (await world.ask(world.pool(server.address("[::1]")))).code == 200
    assert server.requests[0].headers["host"] == f"[::1]:{server.port}"


@played
async def test_a_name_is_looked_up_once_for_a_while(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    server = await world.server()
    looked = _looks(monkeypatch, ["127.0.0.1"])
    pool = world.pool(server.address("scorer.example"))
    calls = [asked() for _ in range(3)]
    for call in calls:
        pool.submit(call)
    for call in calls:
        await call.done.wait()
        assert call.code == 200
    assert looked == ["scorer.example"]
    assert server.requests[0].headers["host"] == f"scorer.example:{server.port}"
    world.now += address.LOOKUP_SECONDS + 1
    pool._endpoints.close_idle()
    later = asked()
    later.deadline = world.now + 30
    assert (await world.ask(pool, later)).code == 200
    assert looked == ["scorer.example"] * 2


@played
async def test_of_several_addresses_one_answers(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    server = await world.server()
    _looks(monkeypatch, ["127.0.0.2", "127.0.0.1"])  # nobody listens at the first
    pool = world.pool(server.address("scorer.example"))
    for _ in range(2):
        assert (await world.ask(pool)).code == 200
        pool._endpoints.close_idle()
    assert pool._endpoints._connector._resolved["scorer.example"][1] == ["127.0.0.1", "127.0.0.2"], "the good one first"


@played
async def test_a_name_that_there_is_not(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    _looks(monkeypatch, [])
    call = await world.ask(world.pool("http://scorer.example"))
    assert (call.code, call.text) == (503, "'scorer' cannot be reached: Name or service not known")


@played
async def test_a_name_that_there_cannot_be(world: World) -> None:
    call = await world.ask(world.pool(f"http://{'x' * 64}.example"))
    assert call.code == 503
    assert call.text.startswith("'scorer' cannot be reached: ")


@played
async def test_a_lookup_that_nobody_waits_for_is_ended(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    started = asyncio.Event()

    async def never(*_: Any, **__: Any) -> Any:
        started.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(address.Connector, "_look_up", never)
    pool = world.pool("http://scorer.example")
    call = asked()
    pool.submit(call)
    await started.wait()
    world.now = call.deadline
    pool.sweep(world.now)
    assert call.code == 504
    await pool.abort()
    assert not pool._endpoints._connector._lookups


@played
async def test_nobody_takes_the_connection_in_time(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(address, "CONNECT_SECONDS", 0.01)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        with socket.socket() as first, socket.socket() as second:  # and that is all it takes
            for each in (first, second):
                each.setblocking(False)
                each.connect_ex(("127.0.0.1", port))
            call = await world.ask(world.pool(f"http://127.0.0.1:{port}"))
    assert (call.code, call.text) == (503, "'scorer' cannot be reached: it did not accept a connection in time")


@pytest.fixture
def certificates(tmp_path: Path) -> tuple[ssl.SSLContext, str]:
    """Of a server called `localhost`, and whom to trust for it."""
    now = datetime.now(UTC)
    key = tls_issuance.new_key()
    authority = tls_issuance.issue_authority(key, now)
    pair = tls_issuance.issue_server(
        tls_issuance.general_names(("localhost",)), tls_issuance.KeyPair(authority, key), now
    )
    certificate, secret = tmp_path / "server.pem", tmp_path / "server-key.pem"
    certificate.write_bytes(tls_issuance.certificate_text(pair.certificate))
    secret.write_bytes(tls_issuance.key_text(pair.key))
    return tls.build_context(certificate, secret), tls_issuance.certificate_text(authority).decode()


@played
async def test_https(world: World, certificates: tuple[ssl.SSLContext, str]) -> None:
    context, authority = certificates
    server = await world.server(tls=context)
    pool = world.pool(server.address("localhost"), tls=lambda: ssl.create_default_context(cadata=authority))
    for _ in range(2):
        assert (await world.ask(pool)).code == 200
    assert server.connections == 1


@played
async def test_a_certificate_of_another_or_of_nobody_known_is_not_taken(
    world: World, certificates: tuple[ssl.SSLContext, str]
) -> None:
    context, authority = certificates
    server = await world.server(tls=context)
    unknown = await world.ask(world.pool(server.address("localhost")))
    assert unknown.code == 503
    assert unknown.text.startswith("'scorer' cannot be reached: its certificate is not trusted: ")
    pool = world.pool(server.address("127.0.0.1"), tls=lambda: ssl.create_default_context(cadata=authority))
    other = await world.ask(pool)
    assert other.code == 503
    assert "its certificate is not trusted" in other.text
    assert server.requests == []


def _looks(monkeypatch: pytest.MonkeyPatch, found: list[str]) -> list[str]:
    """What each name is said to stand for, and the names that were asked for."""
    looked: list[str] = []

    async def look_up(reach: address.Connector, name: str) -> list[str]:
        looked.append(name)
        await asyncio.sleep(0)
        if not found:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        reach._resolved[name] = reach._clock() + address.LOOKUP_SECONDS, found
        return found

    monkeypatch.setattr(address.Connector, "_look_up", look_up)
    return looked
