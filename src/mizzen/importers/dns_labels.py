"""Names as Mizzen takes them, made of names that others allow. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection

from mizzen.kinds.schema.resource import NAME

LONGEST = 63
_HASH_LENGTH = 8


def label(text: str, otherwise: str = "node") -> str:
    """`Cat_Dog` -> `cat-dog`. What is too long is cut, with a hash in place of the rest."""
    if NAME.fullmatch(text):
        return text
    plain = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or otherwise
    return plain if len(plain) <= LONGEST else _cut(plain, text)


def joined(*parts: str) -> str:
    """`a`, `b` -> `a-b`."""
    return label("-".join(parts))


def free(wanted: str, taken: Collection[str]) -> str:
    """`wanted`, or else with the first number behind it that makes it a name nobody has."""
    name, number = wanted, 2
    while name in taken:
        name, number = joined(wanted, str(number)), number + 1
    return name


def _cut(plain: str, text: str) -> str:
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:_HASH_LENGTH]
    return f"{plain[: LONGEST - _HASH_LENGTH - 1].rstrip('-')}-{digest}"
