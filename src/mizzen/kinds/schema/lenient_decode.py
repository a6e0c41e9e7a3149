"""Lenient decoding: a field that cannot be read counts as absent, or as blank if it is required. Pure.

So the checks of a Part see all of it that is free of faults. Their findings about blanks are dropped: see `examine`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, cast

from pydantic import ValidationError
from pydantic_core import CoreConfig, CoreSchema, SchemaValidator, core_schema

from mizzen.kinds.schema.resource import Part

_CONFIG = CoreConfig(extra_fields_behavior="ignore", validate_by_name=True, validate_by_alias=True)
_BLANKS: Mapping[str, Any] = {"str": "", "literal": "", "int": 0, "float": 0.0, "bool": False, "tuple": ()}


def read(model: type[Part], text: str) -> Part | None:
    """The JSON text as `model`, as far as it is readable; None if it is not an object."""
    try:
        return cast("Part", _reader(model).validate_json(text, strict=True))
    except ValidationError:
        return None


@functools.cache
def _reader(model: type[Part]) -> SchemaValidator:
    model.model_rebuild()  # a no-op if it is built already
    return SchemaValidator(_LenientSchema().schema(model.__pydantic_core_schema__), _CONFIG)


class _LenientSchema:
    """The schema of a Part, in which every field, and every item of a list or map, falls back to its default."""

    def __init__(self) -> None:
        self._definitions: dict[str, CoreSchema] = {}

    def schema(self, schema: Any) -> Any:
        changed: dict[str, Any] = {}
        match schema["type"]:
            case "model":
                made = functools.partial(_construct, schema["cls"])
                inner = self.schema(schema["schema"])
                return core_schema.no_info_after_validator_function(made, inner, ref=schema.get("ref"))
            case "model-fields":
                fields = schema["fields"].items()
                changed["fields"] = {name: one | {"schema": self._with_fallback(one["schema"])} for name, one in fields}
            case "tuple":
                changed["items_schema"] = [self._with_fallback(one) for one in schema["items_schema"]]
            case "list" if "items_schema" in schema:
                changed["items_schema"] = self._with_fallback(schema["items_schema"])
            case "dict" if "values_schema" in schema:
                changed["values_schema"] = self._with_fallback(schema["values_schema"])
            case "definitions":
                self._definitions |= {one["ref"]: one for one in schema["definitions"]}
                changed["definitions"] = [self.schema(one) for one in schema["definitions"]]
        if "schema" in schema:
            changed["schema"] = self.schema(schema["schema"])
        return schema | changed

    def _with_fallback(self, schema: Any) -> CoreSchema:
        if schema["type"] == "default":
            return cast("CoreSchema", self.schema(schema) | {"on_error": "default"})
        blank = functools.partial(self._blank, schema)
        return core_schema.with_default_schema(self.schema(schema), default_factory=blank, on_error="default")

    def _blank(self, schema: Any) -> Any:
        match schema["type"]:
            case "model":
                return read(schema["cls"], "{}")
            case "definition-ref":
                return self._blank(self._definitions[schema["schema_ref"]])
            case "list":
                return []
            case "dict":
                return {}
            case "nullable":
                return None
        return self._blank(schema["schema"]) if "schema" in schema else _BLANKS.get(schema["type"])


def _construct(model: type[Part], fields: tuple[dict[str, Any], Any, set[str]]) -> Part:
    values, _, given = fields
    return model.model_construct(given, **values)
