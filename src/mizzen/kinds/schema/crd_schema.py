"""Parts as OpenAPI schemas, in the subset that a CRD may hold ("structural"). Pure; derived from the types alone.

A schema rejects nothing that Mizzen accepts, so an embedded plane and a cluster accept the same manifests:

- No `default`: a default written into stored objects would turn every apply into a change.
- A field with a short form (a text for an object, one object for a list) is left open here; Mizzen checks it.
- `required_of_users` is not `required`: on a cluster, controllers and direct writers use the same API, and stored
  objects may lack these fields. Our admission and the readers of manifests require them.
"""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Iterable
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen
from pydantic import BeforeValidator
from pydantic.fields import FieldInfo

from mizzen.kinds.schema.resource import Part, Present, description_of
from mizzen.kinds.schema.size_limits import MaxItems

ANYTHING = {"x-kubernetes-preserve-unknown-fields": True}
_SCALARS: dict[type, dict[str, Any]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer", "format": "int64"},
    float: {"type": "number"},
}


def schema_of(part: type[Part], *, long: bool = False) -> dict[str, Any]:
    """The schema of a Part on the wire. `long`: describe the long form of fields that have a short one, for readers."""
    return _Schemas(long).part(part, ())


def part_description(part: type[Part]) -> str:
    """The first paragraph of the class's own docstring."""
    text = inspect.cleandoc(part.__doc__) if "__doc__" in vars(part) and part.__doc__ else ""
    return " ".join(text.partition("\n\n")[0].split())


class _Schemas:
    def __init__(self, long: bool) -> None:
        self._long = long

    def part(self, part: type[Part], within: tuple[type[Part], ...]) -> dict[str, Any]:
        if part in within:  # a schema cannot be recursive
            return {"type": "object", **ANYTHING}
        result: dict[str, Any] = {"type": "object"}
        if part_description(part):
            result["description"] = part_description(part)
        fields = part.wire_fields()
        if fields:
            result["properties"] = {name: self._field(info, (*within, part)) for name, info in fields.items()}
        spelt_otherwise = set(part.synonyms.values())
        required = [name for name, info in fields.items() if info.is_required() and name not in spelt_otherwise]
        if required:
            result["required"] = required
        if part.open or part.synonyms:
            result |= ANYTHING
        return result

    def _field(self, info: FieldInfo, within: tuple[type[Part], ...]) -> dict[str, Any]:
        result = self._apply_rules(info.annotation, info.metadata, within)
        if info.description:
            result["description"] = description_of(info)
        return result

    def _apply_rules(self, inner: Any, rules: Iterable[Any], within: tuple[type[Part], ...]) -> dict[str, Any]:
        rules = tuple(rules)
        if not self._long and any(isinstance(rule, BeforeValidator) and rule is not Present for rule in rules):
            return dict(ANYTHING)
        result = self._annotation(inner, within)
        for rule in rules:
            result |= _limits(rule, result)
        return self._nullable(result) if Present in rules else result

    def _annotation(self, annotation: Any, within: tuple[type[Part], ...]) -> dict[str, Any]:  # noqa: PLR0911 - one line for each form
        origin, arguments = get_origin(annotation), get_args(annotation)
        if origin is Annotated:
            return self._apply_rules(arguments[0], arguments[1:], within)
        if origin is Literal:
            kinds = {type(value) for value in arguments}
            return (_SCALARS[kinds.pop()] if len(kinds) == 1 else {}) | {"enum": list(arguments)}
        if origin in (Union, types.UnionType):
            return self._union(arguments, within)
        if origin in (tuple, list):
            return {"type": "array", "items": self._annotation(arguments[0], within)}
        if origin is dict:
            inner = self._annotation(arguments[1], within)
            return {"type": "object", **(ANYTHING if inner == ANYTHING else {"additionalProperties": inner})}
        if isinstance(annotation, type) and issubclass(annotation, Part):
            return self.part(annotation, within)
        return dict(_SCALARS.get(annotation, ANYTHING))

    def _union(self, arguments: tuple[Any, ...], within: tuple[type[Part], ...]) -> dict[str, Any]:
        real = [argument for argument in arguments if argument is not type(None)]
        one = _one_for_all([self._annotation(argument, within) for argument in real])
        # Null means absent for most fields; kubectl and YAML often write it.
        return self._nullable(one) if len(real) < len(arguments) else one

    def _nullable(self, schema: dict[str, Any]) -> dict[str, Any]:
        if schema.get("nullable") or schema == ANYTHING:
            return schema
        result = schema | {"nullable": True}
        words = result.pop("enum", None)
        if words is None:
            return result
        if self._long:
            return result | {"enum": [*words, None]}
        # Kubernetes never finds null in an enum, even if the enum lists it; patterns it applies to strings only.
        return result | {"pattern": f"^({'|'.join(map(re.escape, words))})$"}


def _one_for_all(schemas: list[dict[str, Any]]) -> dict[str, Any]:
    """A schema that accepts everything that any of them accepts."""
    if len(schemas) == 1:
        return schemas[0]
    kinds = {schema.get("type") for schema in schemas}
    if kinds == {"string"}:
        return {"type": "string"}
    if kinds == {"integer", "string"}:
        return {"x-kubernetes-int-or-string": True}
    return {"type": "number"} if kinds == {"integer", "number"} else dict(ANYTHING)


def _limits(rule: Any, schema: dict[str, Any]) -> dict[str, Any]:  # noqa: PLR0911 - one line for each form
    kind = schema.get("type")
    number = kind in ("integer", "number")
    match rule:
        case Ge(ge=limit) if number:
            return {"minimum": limit}
        case Gt(gt=limit) if number:
            return {"minimum": limit, "exclusiveMinimum": True}
        case Le(le=limit) if number:
            return {"maximum": limit}
        case Lt(lt=limit) if number:
            return {"maximum": limit, "exclusiveMaximum": True}
        case MinLen(min_length=limit) if kind in ("string", "array"):
            return {"minLength" if kind == "string" else "minItems": limit}
        case MaxLen(max_length=limit) if kind in ("string", "array"):
            return {"maxLength" if kind == "string" else "maxItems": limit}
        case MaxItems(entries=limit) if kind in ("object", "array"):
            return {"maxProperties" if kind == "object" else "maxItems": limit}
        case FieldInfo():
            merged: dict[str, Any] = {}
            for one in rule.metadata:
                merged |= _limits(one, schema)
            return merged
    pattern = getattr(rule, "pattern", None)
    return {"pattern": pattern} if isinstance(pattern, str) else {}
