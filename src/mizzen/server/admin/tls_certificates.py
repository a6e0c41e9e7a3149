"""The plane's own certificate authority, and the certificate of its TLS listeners: creates and renews their files.

kubectl sends no token without TLS, and no public CA issues certificates for a laptop. So a plane has a CA of its own,
which each kubeconfig contains. Clients trust that CA, so it is never replaced unasked: unusable CA files are an error.
The server certificate is ours alone; it is renewed if it is damaged, about to expire, or lacks a name.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from mizzen.errors import MizzenError
from mizzen.sdk.connection.tls_trust import GIVEN
from mizzen.server.admin import tls_issuance
from mizzen.stores.records import private_files
from mizzen.web import tls

MIN_LIFETIME_LEFT: Final = timedelta(days=60)
"""A certificate with less time left is renewed."""

LOCAL_NAMES: Final = ("localhost", "127.0.0.1", "::1")

_EXPIRED: Final = timedelta()
_DAY: Final = 86400.0
_UNUSABLE: Final = (ValueError, TypeError, UnsupportedAlgorithm, InvalidSignature, x509.ExtensionNotFound)
"""Exceptions from parsing a file with unexpected content."""

log = logging.getLogger(__name__)


class Certificates:
    """The certificates in `folder`, for a listener with these `names` and the local names of this machine.

    For one process at a time: two would create two authorities.
    """

    def __init__(self, folder: Path, names: Iterable[str], now: Callable[[], datetime]) -> None:
        self._folder = folder
        self._names = tls_issuance.general_names((*LOCAL_NAMES, *names))
        self._now = now
        self._ca, self._ca_key = folder / "ca.pem", folder / "ca-key.pem"
        self._server, self._server_key = folder / "server.pem", folder / "server-key.pem"

    def context(self) -> ssl.SSLContext:
        """The TLS context of the listener. Raises MizzenError if files are unusable and must not be replaced."""
        self.refresh()
        return tls.build_context(self._server, self._server_key)

    def link_inference_certificate(self, certificate: Path | None) -> None:
        """Record which certificate the inference API presents if it is not ours. Programs on this machine, which find
        the plane by its folder, trust that one."""
        link = self._folder / GIVEN
        link.unlink(missing_ok=True)
        if certificate is not None:
            link.symlink_to(certificate)

    async def keep_current(self, context: ssl.SSLContext, every: float = _DAY) -> None:
        """Renews the certificate of a long-running plane, for new connections. Runs until cancelled."""
        while True:
            await asyncio.sleep(every)
            try:
                if await asyncio.to_thread(self.refresh):
                    context.load_cert_chain(self._server, self._server_key)
            except (MizzenError, OSError) as error:
                log.error("cannot renew the TLS certificate: %s", error)  # noqa: TRY400 - the message says all

    def refresh(self) -> bool:
        """Creates missing and unusable files. Returns whether there is a new certificate. Raises MizzenError."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        authority, key = self._authority()
        left = self._server_lifetime_left(authority)
        if left >= MIN_LIFETIME_LEFT:
            return False
        if key is None:
            if left == _EXPIRED:
                raise self._unusable_error(self._ca_key, "is missing, and signing a new certificate needs it")
            log.warning("%s is missing: the TLS certificate expires in %s and cannot be renewed", self._ca_key, left)
            return False
        server = tls_issuance.issue_server(self._names, tls_issuance.KeyPair(authority, key), self._now())
        # A crash between the two writes leaves a mismatched pair, which the next start replaces.
        private_files.replace(self._server_key, tls_issuance.key_text(server.key))
        private_files.replace(self._server, tls_issuance.certificate_text(server.certificate))
        log.info("new TLS certificate, valid until %s", server.certificate.not_valid_after_utc)
        return True

    def _authority(self) -> tuple[x509.Certificate, EllipticCurvePrivateKey | None]:
        """The CA, the same at every start, with its key unless the file was removed. Raises MizzenError."""
        try:
            key = _read_key(self._ca_key)
        except _UNUSABLE as error:
            raise self._unusable_error(self._ca_key, "does not contain a valid key") from error
        try:
            found = _read_certificate(self._ca)
        except _UNUSABLE as error:
            if key is None:
                raise self._unusable_error(self._ca, "does not contain a valid certificate") from error
            found = None  # only the key matters: a new certificate for it is just as good
        if key is None:
            if found is not None:
                return found, None
            key = tls_issuance.new_key()
            private_files.replace(self._ca_key, tls_issuance.key_text(key))
        if found is not None and found.public_key() != key.public_key():
            raise self._unusable_error(self._ca, f"does not match the key in {self._ca_key.name}")
        if found is None or not _is_authority(found) or self._lifetime_left(found) < MIN_LIFETIME_LEFT:
            found = tls_issuance.issue_authority(key, self._now())
            private_files.replace(self._ca, tls_issuance.certificate_text(found))
            log.info("new certificate of the plane's CA, valid until %s", found.not_valid_after_utc)
        return found, key

    def _server_lifetime_left(self, authority: x509.Certificate) -> timedelta:
        """How long the server certificate stays usable; zero if it is not usable now."""
        try:
            certificate, key = _read_certificate(self._server), _read_key(self._server_key)
            if certificate is None or key is None or certificate.public_key() != key.public_key():
                return _EXPIRED
            certificate.verify_directly_issued_by(authority)
            names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except _UNUSABLE:
            return _EXPIRED
        return self._lifetime_left(certificate) if set(self._names) <= set(names) else _EXPIRED

    def _lifetime_left(self, certificate: x509.Certificate) -> timedelta:
        now = self._now()
        if now < certificate.not_valid_before_utc:  # issued while the clock was wrong
            return _EXPIRED
        return max(certificate.not_valid_after_utc - now, _EXPIRED)

    def _unusable_error(self, path: Path, what: str) -> MizzenError:
        return MizzenError(
            f"{path} {what}",
            hint=f"restore the right file, or remove {self._folder}: the next start creates a new CA,"
            " and every user needs a new 'mizzen kubeconfig'",
        )


def _read_certificate(path: Path) -> x509.Certificate | None:
    """None if there is no file. Raises one of `_UNUSABLE` if its content is not a certificate."""
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except FileNotFoundError:
        return None


def _read_key(path: Path) -> EllipticCurvePrivateKey | None:
    """None if there is no file. Raises one of `_UNUSABLE` for other content, MizzenError if others can read it."""
    try:
        text = private_files.read(path, "TLS key")
    except FileNotFoundError:
        return None
    key = load_pem_private_key(text.encode(), password=None)
    if not isinstance(key, EllipticCurvePrivateKey):
        raise TypeError(f"{path} contains a key of another type")
    return key


def _is_authority(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except _UNUSABLE:
        return False
