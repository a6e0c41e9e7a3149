"""Parts with a type and properties: components, traits, policies, steps. Tables list their types."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import Field, ValidationError

from mizzen.errors import Fault
from mizzen.kinds.schema import lenient_decode
from mizzen.kinds.schema.examine import examine
from mizzen.kinds.schema.findings import Context, Finding, suggestion
from mizzen.kinds.schema.resource import Part, Present
from mizzen.kinds.schema.size_limits import MaxItems


@dataclass(frozen=True, slots=True)
class ModuleType:
    """One documented module: its name and its properties."""

    name: str
    properties: type[Part]
    description: str
    aliases: tuple[str, ...] = ()


T = TypeVar("T", bound=ModuleType)


def find(types: Iterable[T], word: str) -> T | None:
    """A type by its name or an alias."""
    return next((type_ for type_ in types if word == type_.name or word in type_.aliases), None)


class NoProperties(Part):
    """Properties of a type that has none."""


class TypedPart(Part):
    """Base of parts that are written as `type` and `properties`. The table of types defines the properties."""

    noun: ClassVar[str] = "type"
    types: ClassVar[tuple[ModuleType, ...]] = ()

    type: str = Field(description="The module; it defines the `properties`.")
    properties: Annotated[dict[str, Any], Present, MaxItems(30_000)] = Field(
        default_factory=dict, description="The parameters of the module, as defined by `type`."
    )

    @property
    def typed(self) -> Part | None:
        """The properties as a typed Part, with defaults. None if the type is unknown, or the properties have faults."""
        known = find(self.types, self.type)
        if known is None:
            return None
        try:
            return known.properties.model_validate(self.properties)
        except ValidationError:
            return None

    @property
    def readable_properties(self) -> Part | None:
        """As `typed`, but faulty fields are left out, or blank if they are required, so that checks see the rest."""
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
