"""Issues certificates: of a self-signed CA, and of a server that it signs. Pure, except for random numbers.

Both satisfy strict verifiers: Go's, which kubectl uses, and OpenSSL with Python's newest defaults.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CA_LIFE: Final = timedelta(days=3650)
SERVER_LIFE: Final = timedelta(days=365)
SKEW: Final = timedelta(hours=1)
"""How far a client's clock may be behind ours when it verifies a new certificate."""


@dataclass(frozen=True, slots=True)
class KeyPair:
    certificate: x509.Certificate
    key: EllipticCurvePrivateKey


def new_key() -> EllipticCurvePrivateKey:
    return generate_private_key(SECP256R1())


def issue_authority(key: EllipticCurvePrivateKey, now: datetime) -> x509.Certificate:
    """Always with the same name: clients that trust one certificate of this key also accept what a later one signs."""
    name = _common_name("Mizzen CA")
    return (
        _builder(name, name, key, now, now + CA_LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )


def issue_server(names: Sequence[x509.GeneralName], ca: KeyPair, now: datetime) -> KeyPair:
    """A server certificate with its own key. It expires no later than the CA."""
    key = new_key()
    end = min(now + SERVER_LIFE, ca.certificate.not_valid_after_utc)
    certificate = (
        _builder(_common_name("Mizzen"), ca.certificate.subject, key, now, end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca.key.public_key()), critical=False)
        .sign(ca.key, hashes.SHA256())
    )
    return KeyPair(certificate, key)


def general_names(names: Iterable[str]) -> tuple[x509.GeneralName, ...]:
    """Each name once, as in certificates, without unusable ones: unspecified addresses and non-ASCII names."""
    found: dict[x509.GeneralName, None] = {}
    for name in names:
        try:
            address = ipaddress.ip_address(name.partition("%")[0])
        except ValueError:
            if name and name.isascii():
                found[x509.DNSName(name.lower())] = None
        else:
            if not address.is_unspecified:
                found[x509.IPAddress(address)] = None
    return tuple(found)


def certificate_text(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def key_text(key: EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _builder(
    subject: x509.Name, issuer: x509.Name, key: EllipticCurvePrivateKey, begin: datetime, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin - SKEW)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
