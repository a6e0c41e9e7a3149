"""TLS settings of all listeners, and certificates that are reloaded while a process runs.

Files are only read here; the plane or an operator may replace them at any time. A process that cannot use new files
keeps the old certificate and logs that once.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

HTTP1: tuple[str, ...] = ("http/1.1",)
POLL_SECONDS = 1.0
"""Between two checks whether the files have changed."""
WARN_AFTER_SECONDS = 10.0
"""Before a missing first certificate is logged."""

log = logging.getLogger(__name__)


def build_context(certificate: Path, key: Path, protocols: Sequence[str] = HTTP1) -> ssl.SSLContext:
    """Build the context of a listener: TLS 1.2 or later, ciphers with forward secrecy only, no renegotiation.

    `protocols` are offered by ALPN. Raises OSError (including SSLError) or ValueError if the files are unusable.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(list(protocols))
    context.load_cert_chain(certificate, key, password=_refuse_password)
    return context


def check_certificate(context: ssl.SSLContext) -> None:
    """Raises ValueError or SSLError if no client would accept the certificate, for example because it has expired."""
    anybody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
    certificate = _served_certificate(context, anybody)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # any issuer is accepted
    client.load_verify_locations(cadata=certificate)
    try:
        _served_certificate(context, client)
    except ssl.SSLCertVerificationError as error:
        raise ValueError(error.verify_message) from error


def _served_certificate(context: ssl.SSLContext, client: ssl.SSLContext) -> bytes:
    """Return the certificate that a client sees, by a handshake in memory. Raises SSLError if the client refuses."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking, answering = client.wrap_bio(back, there), context.wrap_bio(there, back, server_side=True)
    while True:
        try:
            asking.do_handshake()
            break
        except ssl.SSLWantReadError:
            with suppress(ssl.SSLWantReadError):
                answering.do_handshake()
    seen = asking.getpeercert(binary_form=True)
    assert seen is not None, "a server always sends a certificate"
    return seen


@dataclass(slots=True)
class CertificateFiles:
    """Certificate and key files of a listener; others may replace them."""

    certificate: Path
    key: Path
    protocols: Sequence[str] = HTTP1
    _seen: object = field(default=None, init=False)

    def with_protocols(self, *protocols: str) -> CertificateFiles:
        """Return the same files for a listener with these protocols."""
        return CertificateFiles(self.certificate, self.key, protocols)

    async def wait_for_context(self, every: float = 0.05) -> ssl.SSLContext:
        """Wait for the first usable files: their creator may start at the same moment as this process."""
        waited = 0.0
        while True:
            marks = self._file_stamps()
            try:
                found = build_context(self.certificate, self.key, self.protocols)
            except (OSError, ValueError) as error:
                if waited <= WARN_AFTER_SECONDS < waited + every:
                    log.warning("TLS is not available yet: %s: %s", self.certificate, error)
                waited += every
                await asyncio.sleep(every)
            else:
                self._seen = marks
                # Used even if it is expired: clients that check report it themselves, and others are served.
                try:
                    check_certificate(found)
                except (OSError, ValueError) as error:
                    log.warning("clients that verify certificates will reject %s: %s", self.certificate, error)
                return found

    async def watch(self, take: Callable[[ssl.SSLContext], None], every: float = POLL_SECONDS) -> NoReturn:
        """Call `take` with a new context whenever the files change. Always a new one: loading a certificate into a
        live context before its key arrives would leave it with neither."""
        complained: object = None
        while True:
            await asyncio.sleep(every)
            marks = self._file_stamps()
            if marks == self._seen:
                continue
            try:
                new = build_context(self.certificate, self.key, self.protocols)
                check_certificate(new)
            except (OSError, ValueError) as error:
                if marks != complained:
                    complained = marks
                    log.warning("%s cannot be used; keeping the previous certificate: %s", self.certificate, error)
                continue
            # If the files were replaced while being read, the next check finds another change.
            self._seen = marks
            take(new)
            log.info("new TLS certificate from %s", self.certificate)

    def _file_stamps(self) -> object:
        try:
            found = [os.stat(path) for path in (self.certificate, self.key)]
        except OSError as error:
            return error.errno
        return [(each.st_ino, each.st_mtime_ns, each.st_size) for each in found]


def _refuse_password() -> NoReturn:
    """Without this, OpenSSL would prompt on the terminal."""
    raise ValueError("the key is encrypted; store it without a password")
