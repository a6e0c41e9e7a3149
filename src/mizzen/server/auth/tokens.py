"""Tokens: that of the local admin, in a file, and those of users, of which only a hash is stored.

A user's token is `mzn_` and 256 random bits. They cannot be guessed, so a plain sha256 is enough, and the time that a
lookup of the hash takes reveals nothing about the token.
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
    """The local admin's token: a string whose repr does not show it in logs."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "AdminToken(…)"

    def matches(self, candidate: str) -> bool:
        return compare_digest(self.encode(), candidate.encode())

    @classmethod
    def load_or_create(cls, path: Path) -> Self:
        """Returns the token in `path`; if there is none, creates a random one. Only the file's owner can read it."""
        with suppress(FileExistsError):
            private_files.create(path, secrets.token_urlsafe(32))
        token = private_files.read(path, "token")
        if len(token) < SHORTEST or not token.isascii():
            raise MizzenError(
                f"{path} does not contain a token", hint=f"remove {path}; the next start creates a new one"
            )
        return cls(token)


def new_token() -> str:
    """Returns a user's token in clear text: it is shown once and never stored."""
    return PREFIX + secrets.token_urlsafe(32)


def new_token_id() -> str:
    return secrets.token_hex(6)


def name_fault(name: object) -> str | None:
    """Returns the fault of a user name; None if it is valid. Names with ':' are other identities, such as `oidc:`."""
    if name in (None, ""):
        return "required"
    if not isinstance(name, str):
        return "must be a text"
    if name in RESERVED:
        return f"'{name}' is reserved"
    if len(name) > LONGEST_NAME or not PRINCIPAL.fullmatch(name):
        expected = "lowercase letters, digits, '-' and '.', e.g. 'ann' or 'ann@lab'"
        return f"'{name[:100]}' is not a valid user name; expected {expected}"
    return None
