"""TLS as all our listeners speak it, and certificates that are taken anew while a process runs.

Files are only read here: who makes them, this plane or somebody else, replaces them when they want to. A process that
cannot use new ones goes on with what it has, and says so once.
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
LOOK_SECONDS = 1.0
"""Between two looks at whether the files are others."""
PATIENCE = 10.0
"""Until somebody is told that the first files have not come yet."""

log = logging.getLogger(__name__)


def context(certificate: Path, key: Path, protocols: Sequence[str] = HTTP1) -> ssl.SSLContext:
    """For a listener: TLS 1.2 or later, ciphers with forward secrecy only, no renegotiation.

    `protocols` are offered by ALPN. OSError (SSLError is one) or ValueError when the files are no use.
    """
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    made.options |= ssl.OP_NO_RENEGOTIATION
    made.set_alpn_protocols(list(protocols))
    made.load_cert_chain(certificate, key, password=_no_password)
    return made


def check_shown(context: ssl.SSLContext) -> None:
    """ValueError or SSLError when no client takes its certificate, whomever they trust: it is out of date, say."""
    anybody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
    certificate = _shown(context, anybody)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # who signed it is not asked
    client.load_verify_locations(cadata=certificate)
    try:
        _shown(context, client)
    except ssl.SSLCertVerificationError as error:
        raise ValueError(error.verify_message) from error


def _shown(context: ssl.SSLContext, client: ssl.SSLContext) -> bytes:
    """The certificate that a client sees, in memory. SSLError when it leaves."""
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
    assert seen is not None, "a server shows one"
    return seen


@dataclass(slots=True)
class Files:
    """Certificates and key for a listener, in files that others replace."""

    certificate: Path
    key: Path
    protocols: Sequence[str] = HTTP1
    _seen: object = field(default=None, init=False)

    def offering(self, *protocols: str) -> Files:
        """The same for a listener that speaks these."""
        return Files(self.certificate, self.key, protocols)

    async def first(self, every: float = 0.05) -> ssl.SSLContext:
        """As soon as there are any that will do: who makes them may start at the same moment as we do."""
        waited = 0.0
        while True:
            marks = self._marks()
            try:
                found = context(self.certificate, self.key, self.protocols)
            except (OSError, ValueError) as error:
                if waited <= PATIENCE < waited + every:
                    log.warning("nobody can be answered with TLS yet: %s: %s", self.certificate, error)
                waited += every
                await asyncio.sleep(every)
            else:
                self._seen = marks
                # It may be all there is. Who looks at dates is told by their own client; who does not is answered.
                try:
                    check_shown(found)
                except (OSError, ValueError) as error:
                    log.warning("%s is refused by those who check it: %s", self.certificate, error)
                return found

    async def keep_current(self, take: Callable[[ssl.SSLContext], None], every: float = LOOK_SECONDS) -> NoReturn:
        """`take` gets a new context whenever the files are others. Made whole: a live one that is told of a
        certificate before its key comes would have neither."""
        complained: object = None
        while True:
            await asyncio.sleep(every)
            marks = self._marks()
            if marks == self._seen:
                continue
            try:
                new = context(self.certificate, self.key, self.protocols)
                check_shown(new)
            except (OSError, ValueError) as error:
                if marks != complained:
                    complained = marks
                    log.warning("%s cannot be used, the last certificate stays: %s", self.certificate, error)
                continue
            # What was replaced while it was read is found to be another at the next look.
            self._seen = marks
            take(new)
            log.info("new TLS certificate from %s", self.certificate)

    def _marks(self) -> object:
        try:
            found = [os.stat(path) for path in (self.certificate, self.key)]
        except OSError as error:
            return error.errno
        return [(each.st_ino, each.st_mtime_ns, each.st_size) for each in found]


def _no_password() -> NoReturn:
    """OpenSSL would ask whoever sits at the terminal."""
    raise ValueError("the key needs a password, and nobody is there to give it; write it without one")
