"""Things that have a type and properties: components, traits, policies, steps. Their types stand in tables."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import Field, ValidationError

from mizzen.errors import Fault
from mizzen.kinds.schema import lenient_decode
from mizzen.kinds.schema.findings import Context, Finding, examine, suggestion
from mizzen.kinds.schema.resource import Part, Present
from mizzen.kinds.schema.size_limits import Most


@dataclass(frozen=True, slots=True)
class Type:
    """One documented module: its name, and what its properties may hold."""

    name: str
    properties: type[Part]
    description: str
    aliases: tuple[str, ...] = ()


T = TypeVar("T", bound=Type)


def find(types: Iterable[T], word: str) -> T | None:
    """A type by its name or an alias."""
    return next((type_ for type_ in types if word == type_.name or word in type_.aliases), None)


class Nothing(Part):
    """Properties of a type that has none."""


class Typed(Part):
    """Base of what is written as `type` and `properties`. The table says what the properties may be."""

    noun: ClassVar[str] = "type"
    types: ClassVar[tuple[Type, ...]] = ()

    type: str = Field(description="Which module it is; it decides what `properties` may hold.")
    properties: Annotated[dict[str, Any], Present, Most(30_000)] = Field(
        default_factory=dict, description="Parameters of the module, typed by `type`."
    )

    @property
    def typed(self) -> Part | None:
        """The properties as their type has them, with defaults. None: the type is unknown, or they have faults."""
        known = find(self.types, self.type)
        if known is None:
            return None
        try:
            return known.properties.model_validate(self.properties)
        except ValidationError:
            return None

    @property
    def readable_properties(self) -> Part | None:
        """As `typed`, without what has faults, and with blanks where it had to be. For checks, which see the rest."""
        known = find(self.types, self.type)
        return lenient_decode.read(known.properties, json.dumps(self.properties)) if known else None

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        known = find(self.types, self.type)
        if known is None:
            names = [name for type_ in self.types for name in (type_.name, *type_.aliases)]
            hint = suggestion(self.type, names, f"{self.noun} types")
            yield Fault(f"{at}.type", f"no {self.noun} type '{self.type}'; {hint}")
            return
        yield from examine(known.properties, self.properties, f"{at}.properties", context, strict=context.strict)


def repeated(names: Iterable[tuple[str, str | None]], noun: str) -> Iterator[Fault]:
    """A fault for each name that was there before; `names` are pairs of path and name."""
    seen: set[str] = set()
    for path, name in names:
        if name in seen:
            yield Fault(path, f"a second {noun} '{name}'")
        if name:
            seen.add(name)
