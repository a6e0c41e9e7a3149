"""TLS trust for a plane's https address: the authorities of the system, or of `SSL_CERT_FILE`.

A plane has its own CA, which systems do not know: a remote caller must say where its certificate is. A caller that
finds the plane by its data dir reads the certificate there.
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
"""In the folder `tls` of a data dir: the certificate that an admin provided for the inference API."""
_VARIABLES: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR")
_HINT: Final = "a plane has its own CA: set SSL_CERT_FILE to tls/ca.pem in its data dir, or to a copy of it"
_OTHER_NAME: Final = (62, 64)
"""OpenSSL's error codes for a certificate of another host name or another IP address."""


def for_url(url: str, data_dir: Path | None = None) -> ssl.SSLContext | bool:
    """Return the TLS context for a URL; False where none is needed, since loading it takes longer than most calls.
    `data_dir`: that of a plane on this machine, whose own certificate is trusted. Raises BadRequest."""
    if not url.startswith("https:"):
        return False
    if data_dir is not None:
        return _trust_own(data_dir / "tls")
    try:
        return httpx2.create_ssl_context()
    except OSError as error:
        named = next((name for name in _VARIABLES if os.environ.get(name)), "the system's certificates")
        raise errors.BadRequest(f"{named} cannot be read: {error}", hint=_HINT) from error


def _trust_own(folder: Path) -> ssl.SSLContext:
    """Trust only the certificate of the plane in this folder. Raises Unavailable."""
    try:
        if not (given := folder / GIVEN).exists():
            return ssl.create_default_context(cafile=str(folder / "ca.pem"))
        # Pin this exact certificate under any name: it need not name this machine's own address.
        trusted = ssl.create_default_context(cadata=_first_certificate(given.read_text()))
    except (OSError, ValueError) as error:
        raise errors.Unavailable(
            f"the certificates in {folder} cannot be read: {error}",
            hint="'mizzen down' and 'mizzen up' create them again",
        ) from error
    trusted.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    trusted.check_hostname = False
    return trusted


def _first_certificate(certificates: str) -> str:
    """Return the server's own certificate; its issuer may have signed others."""
    end = "-----END CERTIFICATE-----"
    return certificates[: certificates.index(end) + len(end)]


def is_untrusted(error: Exception) -> bool:
    """Return whether a connection failed because of the peer's certificate."""
    return any(True for _ in _find_faults(error))


def explain(url: str, error: Exception) -> errors.MizzenError:
    fault = next(_find_faults(error))
    other = fault.verify_code in _OTHER_NAME
    hint = "use an address that the certificate names; 'mizzen status' shows one" if other else _HINT
    return errors.Unavailable(f"the certificate of {url} is not trusted: {fault.verify_message}", hint=hint)


def _find_faults(error: BaseException | None) -> Iterator[ssl.SSLCertVerificationError]:
    """Find certificate errors, which the HTTP library wraps in its own."""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            yield error
        error = error.__cause__ or error.__context__
