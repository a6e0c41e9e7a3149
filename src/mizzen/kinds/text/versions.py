"""Valid names of versions and of aliases. Pure."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

from mizzen.kinds.schema.resource import NAME, VERSION

RESERVED_VERSIONS = frozenset({"auto", "latest", "current", "unversioned"})
MOST_DIGITS = 18
MOST_NEW_DIGITS = 15
"""Of a number that a caller chooses: counting up from it never exceeds MOST_DIGITS."""

_NUMBER = re.compile(r"v?([0-9]+)")


def normal_version(version: str | int) -> str:
    """`7`, `v7` and `007` are version 7; anything else is a lower-case name. Raises ValueError."""
    text = str(version)
    number = _NUMBER.fullmatch(text)
    if number:
        return _normal_number(number[1])
    if text in RESERVED_VERSIONS:
        raise ValueError(f"'{text}' is reserved and cannot name a version")
    if not VERSION.fullmatch(text):
        raise ValueError(
            f"{text[:100]!r} is not a valid version; expected a number, or lower-case letters, digits, '-' and '.'"
        )
    return text


def check_new_version(version: str | int) -> str:
    """As `normal_version`, for a new version whose name a caller chooses. Raises ValueError."""
    text = normal_version(version)
    if text.isdecimal() and len(text) > MOST_NEW_DIGITS:
        raise ValueError(
            f"a version number may have at most {MOST_NEW_DIGITS} digits, so that later versions can count up from "
            "it; omit it for the next number, or use a name"
        )
    return text


def _normal_number(digits: str) -> str:
    digits = digits.lstrip("0")
    if not digits:
        raise ValueError("version numbers start at 1")
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"a version number may have at most {MOST_DIGITS} digits")
    return digits


def check_alias(text: str) -> str:
    """An alias can be used in place of a version, so it must not look like a number. Raises ValueError."""
    if _NUMBER.fullmatch(text):
        raise ValueError(f"'{text[:100]}' is a version, not an alias")
    if text in RESERVED_VERSIONS:
        raise ValueError(f"'{text}' is reserved and cannot name an alias")
    if not NAME.fullmatch(text):
        raise ValueError(
            f"{text[:100]!r} is not a valid alias; expected lower-case letters, digits and '-', at most 63"
        )
    return text


def _version_or_nothing(text: str | None) -> str | None:
    return normal_version(text) if text else None


Version = Annotated[str, AfterValidator(normal_version)]

VersionOrNothing = Annotated[str | None, AfterValidator(_version_or_nothing)]
"""Empty means not set, as in the source manifests' own types."""
