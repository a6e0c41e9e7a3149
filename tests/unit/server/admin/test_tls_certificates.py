from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from mizzen.errors import MizzenError
from mizzen.server.admin.tls_certificates import MIN_LIFETIME_LEFT, Certificates
from mizzen.server.admin.tls_issuance import SKEW, general_names
from tests.support import planes

NOW = datetime.now(UTC).replace(microsecond=0)
"""The real time: OpenSSL looks at the real clock when it verifies."""
DAY = timedelta(days=1)
FILES = ("ca.pem", "ca-key.pem", "server.pem", "server-key.pem")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of a plane that has been started once."""
    certificates(tmp_path / "tls").context()
    return tmp_path / "tls"


def certificates(folder: Path, *names: str, at: datetime = NOW) -> Certificates:
    return Certificates(folder, names or ("box",), lambda: at)


def kept(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def shown(folder: Path, name: str = "server.pem") -> x509.Certificate:
    return x509.load_pem_x509_certificate((folder / name).read_bytes())


def handshake(server: ssl.SSLContext, authority: str | None, name: str) -> tuple[bytes, str | None, str | None]:
    """Certificate, TLS version and protocol, as a client sees them that trusts this CA and asks for this name."""
    client = ssl.create_default_context(cadata=authority)
    client.verify_flags |= ssl.VERIFY_X509_STRICT  # Python's default from 3.13 on
    client.set_alpn_protocols(["h2", "http/1.1"])  # as kubectl does
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(down, up, server_hostname=name)
    theirs = server.wrap_bio(up, down, server_side=True)
    for _ in range(4):
        for side in (ours, theirs):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    seen = ours.getpeercert(binary_form=True)
    assert seen is not None
    return seen, ours.version(), ours.selected_alpn_protocol()


def test_a_first_start_makes_a_ca_and_what_it_signs(folder: Path) -> None:
    assert set(kept(folder)) == set(FILES)
    ca, server = shown(folder, "ca.pem"), shown(folder)
    assert ca.not_valid_after_utc == NOW + 3650 * DAY
    assert server.not_valid_after_utc == NOW + 365 * DAY
    assert ca.not_valid_before_utc == server.not_valid_before_utc == NOW - SKEW
    for certificate in (ca, server):
        key = certificate.public_key()
        assert isinstance(key, ec.EllipticCurvePublicKey)
        assert key.curve.name == "secp256r1"
        certificate.verify_directly_issued_by(ca)
    constraints = [each.extensions.get_extension_for_class(x509.BasicConstraints) for each in (ca, server)]
    assert [(each.critical, each.value.ca, each.value.path_length) for each in constraints] == [
        (True, True, 0),
        (True, False, None),
    ]
    assert ca.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign
    assert not server.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign
    assert ca.serial_number != server.serial_number


def test_keys_are_for_their_owner_only(folder: Path) -> None:
    assert folder.stat().st_mode & 0o777 == 0o700
    for name in ("ca-key.pem", "server-key.pem"):
        assert (folder / name).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "::1", "box", "plane.example", "10.1.2.3"])
def test_who_trusts_the_ca_is_served_by_each_name(folder: Path, name: str) -> None:
    context = certificates(folder, "box", "Plane.Example", "10.1.2.3", "0.0.0.0", "").context()
    _, version, protocol = handshake(context, (folder / "ca.pem").read_text(), name)
    assert (version, protocol) == ("TLSv1.3", "http/1.1")
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2


def test_nobody_is_served_by_another_name_or_without_the_ca(folder: Path, tmp_path: Path) -> None:
    context = certificates(folder).context()
    certificates(tmp_path / "other").context()
    with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
        handshake(context, (folder / "ca.pem").read_text(), "elsewhere")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(context, (tmp_path / "other" / "ca.pem").read_text(), "localhost")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(context, None, "localhost")


def test_names_that_nobody_can_call_are_left_out() -> None:
    names = ("localhost", "::1", "LOCALHOST", "0:0:0:0:0:0:0:1", "0.0.0.0", "::", "", "müller", "fe80::1%eth0")
    assert [str(name.value) for name in general_names(names)] == ["localhost", "::1", "fe80::1"]


def test_the_next_start_changes_nothing(folder: Path) -> None:
    before = kept(folder)
    assert not certificates(folder, at=NOW + 365 * DAY - MIN_LIFETIME_LEFT).refresh()
    assert not certificates(folder, "localhost").refresh(), "fewer names are covered, too"
    assert kept(folder) == before


@pytest.mark.parametrize("days", [-2, 365 - 59, 365, 1000], ids=lambda days: f"after {days} days")
def test_what_is_not_good_for_long_is_renewed_under_the_same_ca(folder: Path, days: int) -> None:
    before, at = kept(folder), NOW + days * DAY
    assert certificates(folder, at=at).refresh()
    assert shown(folder).not_valid_after_utc == at + 365 * DAY
    shown(folder).verify_directly_issued_by(x509.load_pem_x509_certificate(before["ca.pem"]))
    assert kept(folder)["ca-key.pem"] == before["ca-key.pem"]
    assert not certificates(folder, at=at).refresh()


def test_a_name_it_lacks_renews_it(folder: Path) -> None:
    before = kept(folder)
    assert certificates(folder, "box", "10.0.0.7").refresh()
    assert kept(folder)["ca.pem"] == before["ca.pem"]
    handshake(certificates(folder, "box", "10.0.0.7").context(), before["ca.pem"].decode(), "10.0.0.7")


@pytest.mark.parametrize("name", ["server.pem", "server-key.pem"])
@pytest.mark.parametrize("damage", ["missing", "empty", "garbage", "cut", "binary", "foreign"])
def test_what_was_signed_is_made_anew_when_it_is_damaged(folder: Path, tmp_path: Path, name: str, damage: str) -> None:
    before = kept(folder)
    spoil(folder / name, damage, tmp_path)
    context = certificates(folder).context()
    handshake(context, before["ca.pem"].decode(), "localhost")
    after = kept(folder)
    assert (after["ca.pem"], after["ca-key.pem"]) == (before["ca.pem"], before["ca-key.pem"])
    assert set(after) == set(FILES)
    assert (folder / "server-key.pem").stat().st_mode & 0o777 == 0o600


def test_a_pair_of_another_ca_is_replaced(folder: Path, tmp_path: Path) -> None:
    certificates(tmp_path / "other").context()
    for name in ("server.pem", "server-key.pem"):
        (folder / name).write_bytes((tmp_path / "other" / name).read_bytes())
    handshake(certificates(folder).context(), (folder / "ca.pem").read_text(), "localhost")


@pytest.mark.parametrize("damage", ["missing", "empty", "garbage", "cut", "binary"])
def test_a_lost_ca_certificate_is_made_anew_from_its_key(folder: Path, tmp_path: Path, damage: str) -> None:
    before = kept(folder)
    spoil(folder / "ca.pem", damage, tmp_path)
    context = certificates(folder).context()
    assert shown(folder, "ca.pem").public_key() == x509.load_pem_x509_certificate(before["ca.pem"]).public_key()
    for authority in (before["ca.pem"].decode(), (folder / "ca.pem").read_text()):
        handshake(context, authority, "localhost")


@pytest.mark.parametrize("days", [3650 - 59, 3650, 5000])
def test_a_ca_at_its_end_goes_on_with_its_key(folder: Path, days: int) -> None:
    before, at = kept(folder), NOW + days * DAY
    assert certificates(folder, at=at).refresh()
    assert kept(folder)["ca-key.pem"] == before["ca-key.pem"]
    assert shown(folder, "ca.pem").not_valid_after_utc == at + 3650 * DAY
    assert shown(folder).not_valid_after_utc == at + 365 * DAY


def test_what_is_signed_ends_with_the_ca(folder: Path) -> None:
    at = NOW + (3650 - 100) * DAY
    assert certificates(folder, at=at).refresh()
    assert shown(folder).not_valid_after_utc == shown(folder, "ca.pem").not_valid_after_utc == NOW + 3650 * DAY


def rsa_key(folder: Path) -> None:
    key = rsa.generate_private_key(65537, 2048)
    (folder / "ca-key.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


def locked_key(folder: Path) -> None:
    key = load_pem_private_key((folder / "ca-key.pem").read_bytes(), None)
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"password"))
    (folder / "ca-key.pem").write_bytes(text)


def other_key(folder: Path) -> None:
    (folder / "ca-key.pem").write_bytes((folder / "server-key.pem").read_bytes())


def other_certificate(folder: Path) -> None:
    (folder / "ca.pem").write_bytes((folder / "server.pem").read_bytes())


def broken_key(folder: Path) -> None:
    (folder / "ca-key.pem").write_text("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")


def no_key_and_broken_certificate(folder: Path) -> None:
    (folder / "ca-key.pem").unlink()
    (folder / "ca.pem").write_text("nothing\n")


def no_key_and_no_server(folder: Path) -> None:
    (folder / "ca-key.pem").unlink()
    (folder / "server.pem").unlink()


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        (rsa_key, "ca-key.pem does not contain a valid key"),
        (locked_key, "ca-key.pem does not contain a valid key"),
        (broken_key, "ca-key.pem does not contain a valid key"),
        (other_key, "ca.pem does not match the key in ca-key.pem"),
        (other_certificate, "ca.pem does not match the key in ca-key.pem"),
        (no_key_and_broken_certificate, "ca.pem does not contain a valid certificate"),
        (no_key_and_no_server, "ca-key.pem is missing"),
    ],
)
def test_a_ca_that_does_not_fit_is_explained_and_left_alone(
    folder: Path, harm: Callable[[Path], None], says: str
) -> None:
    harm(folder)
    before = kept(folder)
    with pytest.raises(MizzenError, match=says) as caught:
        certificates(folder).context()
    assert f"remove {folder}" in caught.value.hint
    assert kept(folder) == before


@pytest.mark.parametrize("name", ["ca-key.pem", "server-key.pem"])
def test_a_key_that_others_can_read_is_not_used(folder: Path, name: str) -> None:
    (folder / name).chmod(0o640)
    with pytest.raises(MizzenError, match="others can read the TLS key") as caught:
        certificates(folder).context()
    assert caught.value.hint == f"chmod 600 {folder / name}"


def test_a_key_that_was_taken_away_is_needed_only_to_sign(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    (folder / "ca-key.pem").unlink()
    certificates(folder).context()
    assert not caplog.records
    assert not certificates(folder, at=NOW + 360 * DAY).refresh()
    assert "cannot be renewed" in caplog.text
    with pytest.raises(MizzenError, match=r"ca-key\.pem is missing"):
        certificates(folder, at=NOW + 365 * DAY).refresh()
    assert not (folder / "ca-key.pem").exists()


def test_new_connections_see_what_was_renewed_while_it_runs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder, clock = tmp_path / "tls", [NOW - 350 * DAY]
    running = Certificates(folder, ("box",), lambda: clock[0])
    context = running.context()
    authority = (folder / "ca.pem").read_text()
    first, _, _ = handshake(context, authority, "box")

    async def renewed() -> bytes:
        keeping = asyncio.create_task(running.keep_current(context, every=0.01))
        try:
            (folder / "ca-key.pem").chmod(0o644)
            await until(lambda: "others can read" in caplog.text, "what goes wrong is told")
            (folder / "ca-key.pem").chmod(0o600)
            clock[0] = NOW
            await until(lambda: handshake(context, authority, "box")[0] != first, "it was tried again")
        finally:
            keeping.cancel()
        return handshake(context, authority, "box")[0]

    assert asyncio.run(renewed()) == shown(folder).public_bytes(Encoding.DER)


async def until(condition: Callable[[], bool], what: str) -> None:
    await asyncio.to_thread(planes.wait_until, condition, what)


def spoil(path: Path, damage: str, tmp_path: Path) -> None:
    whole = path.read_bytes()
    if damage == "missing":
        path.unlink()
    elif damage == "foreign":
        certificates(tmp_path / "other").context()
        path.write_bytes((tmp_path / "other" / path.name).read_bytes())
    else:
        cut = whole[: len(whole) // 2]
        path.write_bytes({"empty": b"", "garbage": b"no PEM\n", "cut": cut, "binary": bytes(range(256))}[damage])
