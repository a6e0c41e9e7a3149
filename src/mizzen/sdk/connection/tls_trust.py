"""Who vouches for a plane that is asked over https: the authorities of the system, or of `SSL_CERT_FILE`.

A plane has a CA of its own, which no system knows: whoever asks there says where its certificate is. Who finds a plane
by its data dir has it from there.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import httpx2

from mizzen import errors

GIVEN: Final = "given.pem"
"""In the folder `tls` of a data dir: the certificate that somebody else made for the inference API."""
_VARIABLES: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR")
_HINT: Final = "a plane has a CA of its own: set SSL_CERT_FILE to the tls/ca.pem of its data dir, or to a copy of it"
_OTHER_NAME: Final = (62, 64)
"""OpenSSL's numbers for a certificate of another host name or another IP address."""


def for_url(url: str, data_dir: Path | None = None) -> ssl.SSLContext | bool:
    """False where none is needed: reading them takes longer than most calls. BadRequest. `data_dir`: of a plane on this
    machine, which vouches for itself."""
    if not url.startswith("https:"):
        return False
    if data_dir is not None:
        return _own(data_dir / "tls")
    try:
        return httpx2.create_ssl_context()
    except OSError as error:
        named = next((name for name in _VARIABLES if os.environ.get(name)), "the system's certificates")
        raise errors.BadRequest(f"{named} cannot be read: {error}", hint=_HINT) from error


def _own(folder: Path) -> ssl.SSLContext:
    """What the plane of this folder shows, and nothing else. Unavailable."""
    try:
        if not (given := folder / GIVEN).exists():
            return ssl.create_default_context(cafile=str(folder / "ca.pem"))
        # The very certificate, by whatever name it is reached here: it need not name this machine's own address.
        trusted = ssl.create_default_context(cadata=_first(given.read_text()))
    except (OSError, ValueError) as error:
        raise errors.Unavailable(
            f"the certificates in {folder} cannot be read: {error}", hint="'mizzen down' and 'mizzen up' make them anew"
        ) from error
    trusted.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    trusted.check_hostname = False
    return trusted


def _first(certificates: str) -> str:
    """That of the server; who signed it may have signed others."""
    end = "-----END CERTIFICATE-----"
    return certificates[: certificates.index(end) + len(end)]


def untrusted(error: Exception) -> bool:
    """Was a connection given up because of the other side's certificate?"""
    return any(True for _ in _faults(error))


def explained(url: str, error: Exception) -> errors.MizzenError:
    fault = next(_faults(error))
    other = fault.verify_code in _OTHER_NAME
    hint = "use an address that the certificate names; 'mizzen status' tells one" if other else _HINT
    return errors.Unavailable(f"the certificate of {url} is not trusted: {fault.verify_message}", hint=hint)


def _faults(error: BaseException | None) -> Iterator[ssl.SSLCertVerificationError]:
    """The HTTP library hides it behind errors of its own."""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            yield error
        error = error.__cause__ or error.__context__
