"""Conversion of names of other platforms to DNS labels. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection

from mizzen.kinds.schema.resource import NAME

LONGEST = 63
_HASH_LENGTH = 8


def label(text: str, otherwise: str = "node") -> str:
    """`Cat_Dog` -> `cat-dog`. A long name is cut, with a hash in place of the rest."""
    if NAME.fullmatch(text):
        return text
    plain = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or otherwise
    return plain if len(plain) <= LONGEST else _cut(plain, text)


def join(*parts: str) -> str:
    """`a`, `b` -> `a-b`."""
    return label("-".join(parts))


def free(wanted: str, taken: Collection[str]) -> str:
    """`wanted`, or `wanted` with the first number that makes it unique."""
    name, number = wanted, 2
    while name in taken:
        name, number = join(wanted, str(number)), number + 1
    return name


def _cut(plain: str, text: str) -> str:
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:_HASH_LENGTH]
    return f"{plain[: LONGEST - _HASH_LENGTH - 1].rstrip('-')}-{digest}"
