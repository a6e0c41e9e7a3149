"""References to a version: `name`, `name:version` or `name@alias`. The plane decides which names are valid."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from mizzen import errors

_SHAPE: Final = re.compile(r"([^:@]+)(?::([^:@]+)|@([^:@]+))?")
_NUMBER: Final = re.compile(r"v?0*([1-9][0-9]*)")


@dataclass(frozen=True, slots=True)
class VersionReference:
    """At most one of `version` and `alias` is set; with neither, it means the current version."""

    name: str
    version: str | None = None
    alias: str | None = None


def parse(text: str) -> VersionReference:
    """Raises Invalid."""
    found = _SHAPE.fullmatch(text)
    if found is None:
        raise errors.Invalid(
            f"'{text}' is not a valid reference to a version", hint="expected model:version, model@alias or model"
        )
    name, version, alias = found.groups()
    number = _NUMBER.fullmatch(version or "")
    return VersionReference(name, number[1] if number else version, alias)


def format_reference(name: str, version: str | int | None, alias: str | None) -> str:
    """Raises Invalid if both are given."""
    if version is not None and alias is not None:
        raise errors.Invalid("give a version or an alias, not both")
    if version is not None:
        return f"{name}:{version}"
    return name if alias is None else f"{name}@{alias}"
