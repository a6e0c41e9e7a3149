"""Tokens: the local admin's, in a file, and those of users, of which only a hash is kept.

A user's token is `mzn_` and 256 random bits. That many cannot be guessed, so a plain sha256 is enough to keep, and
looking a hash up tells nothing about the token by the time it takes.
"""

from __future__ import annotations

import re
import secrets
from contextlib import suppress
from hmac import compare_digest
from pathlib import Path
from typing import Self

from mizzen.errors import MizzenError
from mizzen.stores.records import private_files

PREFIX = "mzn_"
SHORTEST = 16
RESERVED = frozenset({"admin", "anonymous", "system"})
LONGEST_NAME = 253

_LABEL = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
PRINCIPAL = re.compile(rf"{_LABEL}(\.{_LABEL})*(@{_LABEL}(\.{_LABEL})*)?")


class AdminToken(str):
    """The local admin's token. A text like any other, except that it never shows itself in a log."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "AdminToken(…)"

    def matches(self, candidate: str) -> bool:
        return compare_digest(self.encode(), candidate.encode())

    @classmethod
    def load_or_create(cls, path: Path) -> Self:
        """The token in `path`; at first a random one, in a file that only its owner can read."""
        with suppress(FileExistsError):
            private_files.create(path, secrets.token_urlsafe(32))
        token = private_files.read(path, "token")
        if len(token) < SHORTEST or not token.isascii():
            raise MizzenError(f"{path} holds no token", hint=f"remove {path}; a new one is made at the next start")
        return cls(token)


def new_token() -> str:
    """A user's token, in clear: shown once, and kept by nobody but them."""
    return PREFIX + secrets.token_urlsafe(32)


def new_token_id() -> str:
    return secrets.token_hex(6)


def name_fault(name: object) -> str | None:
    """What is wrong with the name of a user. Names with ':' are left to other sources of identity, such as `oidc:`."""
    if name in (None, ""):
        return "required"
    if not isinstance(name, str):
        return "must be a text"
    if name in RESERVED:
        return f"'{name}' is reserved"
    if len(name) > LONGEST_NAME or not PRINCIPAL.fullmatch(name):
        return f"'{name[:100]}' is no name for a user: lower-case letters, digits, '-' and '.', e.g. 'ann' or 'ann@lab'"
    return None
