"""What stands in certificates: of a CA that signs itself, and of a server that it signs. Pure, but for random numbers.

Both are as strict readers want them: Go, which is kubectl's, and OpenSSL with Python's newest defaults.
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
"""How far the clock of whoever looks at a new certificate may be behind ours."""


@dataclass(frozen=True, slots=True)
class Pair:
    certificate: x509.Certificate
    key: EllipticCurvePrivateKey


def new_key() -> EllipticCurvePrivateKey:
    return generate_private_key(SECP256R1())


def authority(key: EllipticCurvePrivateKey, now: datetime) -> x509.Certificate:
    """Always of the same name: who trusts one of this key trusts what is signed under a later one, too."""
    name = _called("Mizzen CA")
    return (
        _builder(name, name, key, now, now + CA_LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )


def server(names: Sequence[x509.GeneralName], ca: Pair, now: datetime) -> Pair:
    """With a key of its own. It ends no later than the CA does."""
    key = new_key()
    end = min(now + SERVER_LIFE, ca.certificate.not_valid_after_utc)
    certificate = (
        _builder(_called("Mizzen"), ca.certificate.subject, key, now, end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca.key.public_key()), critical=False)
        .sign(ca.key, hashes.SHA256())
    )
    return Pair(certificate, key)


def general_names(names: Iterable[str]) -> tuple[x509.GeneralName, ...]:
    """Each once, as certificates write it. Without what nobody can call it by: 'all addresses', and no ASCII."""
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


def _called(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
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
