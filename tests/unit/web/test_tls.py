"""Certificates in files that others make and replace."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from mizzen.server.admin import tls_issuance
from mizzen.web import tls


def test_old_versions_and_renegotiation_are_not_offered(tmp_path: Path) -> None:
    context = tls.build_context(*made(tmp_path))
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert context.options & ssl.OP_NO_RENEGOTIATION
    weak = [
        each["name"] for each in context.get_ciphers() if "ECDHE" not in each["name"] and "TLS_" not in each["name"]
    ]
    assert [name for name in weak if not name.startswith("DHE")] == [], "all have forward secrecy"


def test_a_key_with_a_password_is_refused_and_nobody_is_asked_for_it(tmp_path: Path) -> None:
    certificate, key = made(tmp_path)
    locked = serialization.load_pem_private_key(key.read_bytes(), None).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"secret")
    )
    key.write_bytes(locked)
    with pytest.raises(ValueError, match="the key is encrypted"):
        tls.build_context(certificate, key)


def test_files_that_come_later_are_waited_for(tmp_path: Path) -> None:
    async def wait() -> None:
        files = tls.CertificateFiles(tmp_path / "server.pem", tmp_path / "server-key.pem")
        waiting = asyncio.create_task(files.wait_for_context(every=0.001))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        made(tmp_path)
        await waiting

    asyncio.run(asyncio.wait_for(wait(), 60))


def test_new_ones_are_taken_and_bad_ones_are_not(tmp_path: Path) -> None:
    async def renew() -> None:
        certificate, key = made(tmp_path)
        files = tls.CertificateFiles(certificate, key)
        await files.wait_for_context()
        taken: list[ssl.SSLContext] = []
        keeping = asyncio.create_task(files.watch(taken.append, every=0.001))
        await asyncio.sleep(0.02)
        assert taken == [], "nothing is new"
        other = made(tmp_path / "other")
        certificate.write_bytes(other[0].read_bytes())  # and its key is still to come
        await asyncio.sleep(0.02)
        assert taken == []
        key.write_bytes(other[1].read_bytes())
        while not taken:  # noqa: ASYNC110 - taken by and by
            await asyncio.sleep(0.001)
        key.unlink()
        await asyncio.sleep(0.02)
        assert len(taken) == 1
        assert not keeping.done()
        keeping.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await keeping

    asyncio.run(asyncio.wait_for(renew(), 60))


@pytest.mark.parametrize(("days", "word"), [(-400, "expired"), (5, "not yet valid")])
def test_one_out_of_date_takes_the_place_of_none(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, days: int, word: str
) -> None:
    when = datetime.now(UTC) + timedelta(days=days)
    with pytest.raises(ValueError, match=word):
        tls.check_certificate(tls.build_context(*made(tmp_path / "other", when)))

    async def renew() -> None:
        certificate, key = made(tmp_path / "own")
        files = tls.CertificateFiles(certificate, key)
        await files.wait_for_context()
        taken: list[ssl.SSLContext] = []
        keeping = asyncio.create_task(files.watch(taken.append, every=0.001))
        for here, there in zip((key, certificate), made(tmp_path / "other", when)[::-1], strict=True):
            here.write_bytes(there.read_bytes())
        while word not in caplog.text:  # noqa: ASYNC110 - told by and by
            await asyncio.sleep(0.001)
        assert taken == []
        for here, there in zip((key, certificate), made(tmp_path / "third")[::-1], strict=True):
            here.write_bytes(there.read_bytes())
        while not taken:  # noqa: ASYNC110 - taken by and by
            await asyncio.sleep(0.001)
        keeping.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await keeping

    asyncio.run(asyncio.wait_for(renew(), 60))


def test_one_out_of_date_is_shown_when_there_is_no_other(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A gateway that is started again must not leave those without an answer who do not look at dates."""
    files = tls.CertificateFiles(*made(tmp_path, datetime.now(UTC) - timedelta(days=400)))
    asyncio.run(asyncio.wait_for(files.wait_for_context(), 60))
    assert f"will reject {files.certificate}: certificate has expired" in caplog.text


def test_who_signed_it_is_nothing_to_us(tmp_path: Path) -> None:
    certificate, key = made(tmp_path)
    other, _ = made(tmp_path / "other", datetime.now(UTC) - timedelta(days=400))
    certificate.write_bytes(certificate.read_bytes() + other.read_bytes())
    tls.check_certificate(tls.build_context(certificate, key))


def made(folder: Path, now: datetime | None = None) -> tuple[Path, Path]:
    """A certificate of a CA of its own, and its key."""
    folder.mkdir(exist_ok=True)
    now = now or datetime.now(UTC)
    root = tls_issuance.new_key()
    pair = tls_issuance.issue_server(
        tls_issuance.general_names(("models.example",)),
        tls_issuance.KeyPair(tls_issuance.issue_authority(root, now), root),
        now,
    )
    certificate, key = folder / "server.pem", folder / "server-key.pem"
    key.write_bytes(tls_issuance.key_text(pair.key))
    certificate.write_bytes(tls_issuance.certificate_text(pair.certificate))
    return certificate, key
