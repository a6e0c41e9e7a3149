"""References to models: `name`, `name:version` or `name@alias`. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from mizzen.kinds.schema.resource import NAME
from mizzen.kinds.text.patterns import accepted_by
from mizzen.kinds.text.versions import check_alias, normal_version


@dataclass(frozen=True, slots=True)
class ModelReference:
    """At most one of `version` and `alias` is set. With neither, it means the current version."""

    name: str
    version: str = ""
    alias: str = ""

    def __str__(self) -> str:
        if self.version:
            return f"{self.name}:{self.version}"
        return f"{self.name}@{self.alias}" if self.alias else self.name


def parse(text: str) -> ModelReference:
    """Raises ValueError with a message for the author of `text`."""
    name, mark, rest = re.fullmatch(r"([^:@]*)([:@]?)(.*)", text, re.DOTALL).groups()  # type: ignore[union-attr]
    if not NAME.fullmatch(name):
        raise ValueError(f"{text[:100]!r} is not a valid reference; expected name, name:version or name@alias")
    if mark == ":":
        return ModelReference(name, version=normal_version(rest))
    return ModelReference(name, alias=check_alias(rest)) if mark else ModelReference(name)


def parse_unaliased(text: str) -> ModelReference:
    """`name` or `name:version`; an alias is not allowed, since it would form a chain. Raises ValueError."""
    reference = parse(text)
    if reference.alias:
        raise ValueError(f"'{text}' refers to an alias; expected name or name:version")
    return reference


def split_version_suffix(name: str) -> tuple[str, str] | None:
    """`mymodel-v2` -> (`mymodel`, `2`); None for other names. A model may really have such a name."""
    found = re.fullmatch(r"(.+)-(v[0-9]+)", name, re.DOTALL)
    if found is None or not NAME.fullmatch(found[1]):
        return None
    try:
        return found[1], normal_version(found[2])
    except ValueError:
        return None


ReferenceText = Annotated[str, accepted_by(parse)]
"""A field with a reference, stored as written."""

UnaliasedText = Annotated[str, accepted_by(parse_unaliased)]
"""A field with a reference without an alias, stored as written."""
