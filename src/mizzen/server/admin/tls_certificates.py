"""The plane's own certificate authority, and the certificate that listeners with TLS show: files, kept fit for use.

kubectl sends no token without TLS, and nobody vouches for a laptop: so a plane has a CA of its own, which each
kubeconfig carries. Others trust that CA, so it is never replaced unasked: files of it that do not fit are explained.
What it has signed is nobody's but ours, and is made anew when it is damaged, about to end, or lacks a name.
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

LEAST_LEFT: Final = timedelta(days=60)
"""What has less time left is made anew."""

LOCAL_NAMES: Final = ("localhost", "127.0.0.1", "::1")

_NO_TIME: Final = timedelta()
_DAY: Final = 86400.0
_UNUSABLE: Final = (ValueError, TypeError, UnsupportedAlgorithm, InvalidSignature, x509.ExtensionNotFound)
"""What reading a file that holds something else may raise."""

log = logging.getLogger(__name__)


class Certificates:
    """Those in `folder`, for a listener that is called by `names`, or as this machine calls itself.

    For one process at a time: two would make two authorities.
    """

    def __init__(self, folder: Path, names: Iterable[str], now: Callable[[], datetime]) -> None:
        self._folder = folder
        self._names = tls_issuance.general_names((*LOCAL_NAMES, *names))
        self._now = now
        self._ca, self._ca_key = folder / "ca.pem", folder / "ca-key.pem"
        self._server, self._server_key = folder / "server.pem", folder / "server-key.pem"

    def context(self) -> ssl.SSLContext:
        """For the listener. MizzenError when the files cannot be used, and it is not ours to replace them."""
        self.refresh()
        return tls.context(self._server, self._server_key)

    def point_to(self, given: Path | None) -> None:
        """Say which certificate the inference API shows when it is none of ours: programs on this machine, which find
        the plane by its folder, trust that one."""
        link = self._folder / GIVEN
        link.unlink(missing_ok=True)
        if given is not None:
            link.symlink_to(given)

    async def keep_current(self, context: ssl.SSLContext, every: float = _DAY) -> None:
        """For a plane that runs for a year: new connections are shown the new certificate. Runs until cancelled."""
        while True:
            await asyncio.sleep(every)
            try:
                if await asyncio.to_thread(self.refresh):
                    context.load_cert_chain(self._server, self._server_key)
            except (MizzenError, OSError) as error:
                log.error("the TLS certificate cannot be renewed: %s", error)  # noqa: TRY400 - the message says all

    def refresh(self) -> bool:
        """Make what is missing, or will not do any more. Whether there is a new certificate. MizzenError."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        authority, key = self._authority()
        left = self._server_left(authority)
        if left >= LEAST_LEFT:
            return False
        if key is None:
            if left == _NO_TIME:
                raise self._unusable(self._ca_key, "is missing, and a new certificate has to be signed with it")
            log.warning("%s is missing: the TLS certificate ends in %s and cannot be renewed", self._ca_key, left)
            return False
        server = tls_issuance.server(self._names, tls_issuance.Pair(authority, key), self._now())
        # Whoever is cut off between the two leaves a pair that does not match: the next start makes another.
        private_files.replace(self._server_key, tls_issuance.key_text(server.key))
        private_files.replace(self._server, tls_issuance.certificate_text(server.certificate))
        log.info("new TLS certificate, until %s", server.certificate.not_valid_after_utc)
        return True

    def _authority(self) -> tuple[x509.Certificate, EllipticCurvePrivateKey | None]:
        """The CA, the same at every start; with its key, unless somebody has taken that away. MizzenError."""
        try:
            key = _read_key(self._ca_key)
        except _UNUSABLE as error:
            raise self._unusable(self._ca_key, "holds no key of ours") from error
        try:
            found = _read_certificate(self._ca)
        except _UNUSABLE as error:
            if key is None:
                raise self._unusable(self._ca, "holds no certificate") from error
            found = None  # the key is what counts: another certificate of it is as good
        if key is None:
            if found is not None:
                return found, None
            key = tls_issuance.new_key()
            private_files.replace(self._ca_key, tls_issuance.key_text(key))
        if found is not None and found.public_key() != key.public_key():
            raise self._unusable(self._ca, f"is not the certificate of the key in {self._ca_key.name}")
        if found is None or not _is_authority(found) or self._left(found) < LEAST_LEFT:
            found = tls_issuance.authority(key, self._now())
            private_files.replace(self._ca, tls_issuance.certificate_text(found))
            log.info("new certificate of the own CA, until %s", found.not_valid_after_utc)
        return found, key

    def _server_left(self, authority: x509.Certificate) -> timedelta:
        """How long what the listener shows will do; no time, when it does not now."""
        try:
            certificate, key = _read_certificate(self._server), _read_key(self._server_key)
            if certificate is None or key is None or certificate.public_key() != key.public_key():
                return _NO_TIME
            certificate.verify_directly_issued_by(authority)
            shown = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except _UNUSABLE:
            return _NO_TIME
        return self._left(certificate) if set(self._names) <= set(shown) else _NO_TIME

    def _left(self, certificate: x509.Certificate) -> timedelta:
        now = self._now()
        if now < certificate.not_valid_before_utc:  # made by a clock that was wrong
            return _NO_TIME
        return max(certificate.not_valid_after_utc - now, _NO_TIME)

    def _unusable(self, path: Path, what: str) -> MizzenError:
        return MizzenError(
            f"{path} {what}",
            hint=f"put the right file back, or remove {self._folder}: the next start makes a new CA,"
            " and everybody needs a new 'mizzen kubeconfig'",
        )


def _read_certificate(path: Path) -> x509.Certificate | None:
    """None when there is no file. One of `_UNUSABLE` when it holds something else."""
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except FileNotFoundError:
        return None


def _read_key(path: Path) -> EllipticCurvePrivateKey | None:
    """None when there is no file. One of `_UNUSABLE` when it holds something else; MizzenError when others read it."""
    try:
        text = private_files.read(path, "TLS key")
    except FileNotFoundError:
        return None
    key = load_pem_private_key(text.encode(), password=None)
    if not isinstance(key, EllipticCurvePrivateKey):
        raise TypeError(f"{path} holds a key of another type")
    return key


def _is_authority(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except _UNUSABLE:
        return False
