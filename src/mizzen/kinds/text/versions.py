"""What may name a version of a model, and what an alias of one. Pure."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

from mizzen.kinds.schema.resource import NAME, VERSION

RESERVED_VERSIONS = frozenset({"auto", "latest", "current", "unversioned"})
MOST_DIGITS = 18
MOST_GIVEN_DIGITS = 15
"""Of a number that a caller names: whoever counts on from it never comes to the end of the numbers."""

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
        raise ValueError(f"{text[:100]!r} is no version: a number, or lower-case letters, digits, '-' and '.'")
    return text


def given_version(version: str | int) -> str:
    """As `normal_version`, for a new version that a caller names. Raises ValueError."""
    text = normal_version(version)
    if text.isdecimal() and len(text) > MOST_GIVEN_DIGITS:
        raise ValueError(
            f"a number that is given has at most {MOST_GIVEN_DIGITS} digits, so that the next ones can be counted from "
            "it; leave it out for the next number, or use a name"
        )
    return text


def _normal_number(digits: str) -> str:
    digits = digits.lstrip("0")
    if not digits:
        raise ValueError("versions count from 1")
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"the number of a version has at most {MOST_DIGITS} digits")
    return digits


def checked_alias(text: str) -> str:
    """An alias stands where a version may stand, so it must not be mistaken for a number. Raises ValueError."""
    if _NUMBER.fullmatch(text):
        raise ValueError(f"'{text[:100]}' is a version, not an alias")
    if text in RESERVED_VERSIONS:
        raise ValueError(f"'{text}' is reserved and cannot name an alias")
    if not NAME.fullmatch(text):
        raise ValueError(f"{text[:100]!r} is no alias: lower-case letters, digits and '-', at most 63")
    return text


def _version_or_nothing(text: str | None) -> str | None:
    return normal_version(text) if text else None


Version = Annotated[str, AfterValidator(normal_version)]

VersionOrNothing = Annotated[str | None, AfterValidator(_version_or_nothing)]
"""Empty means not given, as the seeds' own types have it."""
