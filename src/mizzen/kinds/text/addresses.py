"""Addresses of services: `host[:port][/path]`, with or without http:// or https://. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Literal

from mizzen.kinds.text.patterns import accepted_by

_LABEL = r"[A-Za-z0-9](?:[-A-Za-z0-9]{0,61}[A-Za-z0-9])?"
_ADDRESS = re.compile(
    rf"(?:(?P<scheme>https?)://)?(?P<host>{_LABEL}(?:\.{_LABEL})*\.?)(?::(?P<port>[0-9]{{1,5}}))?"
    r"(?P<path>/[-A-Za-z0-9._~!$&'()*+,;=:@%/]*)?"
)
_LONGEST_HOST = 253
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int = 80
    path: str = ""
    """Empty if the protocol decides it."""
    scheme: Literal["http", "https"] = "http"


def parse(text: str) -> Address:
    """Raises ValueError with a message for the author of `text`. A user, a query or a fragment is not allowed."""
    found = _ADDRESS.fullmatch(text)
    if found is None or len(found["host"]) > _LONGEST_HOST:
        raise ValueError(
            f"{text[:100]!r} is not a valid address; expected host, host:port or host:port/path, such as 'scorer:8080'"
        )
    scheme: Literal["http", "https"] = "https" if found["scheme"] == "https" else "http"
    port = int(found["port"]) if found["port"] else _PORTS[scheme]
    if not 1 <= port <= 65535:
        raise ValueError(f"{text[:100]!r}: the port must be between 1 and 65535, not {port}")
    return Address(found["host"].removesuffix(".").lower(), port, found["path"] or "", scheme)


AddressText = Annotated[str, accepted_by(parse)]
"""A field with an address, stored as written."""
