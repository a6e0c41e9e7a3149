"""What Kubernetes asks of a schema in a CRD, and what such a schema says of data; both by its rules, not by ours."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

KNOWN = frozenset(
    {
        "type", "format", "description", "properties", "required", "items", "additionalProperties", "enum", "nullable",
        "minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "minLength", "maxLength", "minItems", "maxItems",
        "maxProperties", "pattern", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-int-or-string",
    }
)  # fmt: skip
"""No $ref, default, title, uniqueItems, const, anyOf…: what we write must do without."""

TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "array": list,
    "object": dict,
}
OPEN = "x-kubernetes-preserve-unknown-fields"
INT_OR_STRING = "x-kubernetes-int-or-string"


def faults(schema: dict[str, Any], at: str = "") -> Iterator[str]:
    """Why an API server would refuse the schema, or we would not want it."""
    strange = sorted(set(schema) - KNOWN)
    if strange:
        yield f"{at}: {strange}"
    kind = schema.get("type")
    if kind is None and not (schema.get(OPEN) or schema.get(INT_OR_STRING)):
        yield f"{at}: no type"
    if kind is not None and (kind not in TYPES or schema.get(INT_OR_STRING)):
        yield f"{at}: type {kind}"
    if "properties" in schema and "additionalProperties" in schema:
        yield f"{at}: properties and additionalProperties"
    if schema.get("nullable") and (kind is None or "enum" in schema):
        yield f"{at}: nullable without a type, or with an enum, in which Kubernetes finds no null"
    if kind != "object" and {"properties", "required", "additionalProperties"} & set(schema):
        yield f"{at}: fields of no object"
    if (kind == "array") != ("items" in schema):
        yield f"{at}: items belong to arrays"
    yield from (f"{at}.{name}: required, but not there" for name in _required(schema) - set(_properties(schema)))
    for name, inner in _properties(schema).items():
        yield from faults(inner, f"{at}.{name}")
    for key in ("items", "additionalProperties"):
        if key in schema:
            yield from faults(schema[key], f"{at}.{key}")


def problems(schema: dict[str, Any], value: Any, at: str = "") -> Iterator[str]:
    """Why an API server would refuse the value."""
    if value is None:
        typed = "type" in schema or schema.get(INT_OR_STRING)
        if "enum" in schema or (typed and not schema.get("nullable")):
            yield f"{at}: null"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{at}: {value!r} is none of {schema['enum']}"
    if schema.get(INT_OR_STRING) and not _is("integer", value) and not _is("string", value):
        yield f"{at}: {value!r} is neither a number nor a text"
    if "type" in schema and not _is(schema["type"], value):
        yield f"{at}: {value!r} is no {schema['type']}"
        return
    yield from (f"{at}: {value!r} breaks {rule}" for rule in _broken(schema, value))
    if isinstance(value, list) and "items" in schema:
        for index, item in enumerate(value):
            yield from problems(schema["items"], item, f"{at}[{index}]")
    if isinstance(value, dict):
        yield from (f"{at}.{name}: required" for name in sorted(_required(schema) - set(value)))
        for name, item in value.items():
            inner = _properties(schema).get(name, schema.get("additionalProperties"))
            if inner is not None:
                yield from problems(inner, item, f"{at}.{name}")


def pruned(schema: dict[str, Any], value: Any, at: str = "") -> Iterator[str]:
    """What an API server would drop from the value without a word."""
    if isinstance(value, list) and "items" in schema:
        for index, item in enumerate(value):
            yield from pruned(schema["items"], item, f"{at}[{index}]")
    if isinstance(value, dict) and "type" in schema:
        for name, item in value.items():
            inner = _properties(schema).get(name, schema.get("additionalProperties"))
            if inner is not None:
                yield from pruned(inner, item, f"{at}.{name}")
            elif not schema.get(OPEN):
                yield f"{at}.{name}"


def _broken(schema: dict[str, Any], value: Any) -> Iterator[str]:
    if _is("number", value):
        low, high = schema.get("minimum"), schema.get("maximum")
        if low is not None and (value < low or (schema.get("exclusiveMinimum") and value == low)):
            yield "minimum"
        if high is not None and (value > high or (schema.get("exclusiveMaximum") and value == high)):
            yield "maximum"
    for kind, least, most in (
        (str, "minLength", "maxLength"), (list, "minItems", "maxItems"), (dict, "minProperties", "maxProperties"),
    ):  # fmt: skip
        if isinstance(value, kind) and not schema.get(least, 0) <= len(value) <= schema.get(most, len(value)):
            yield f"{least} or {most}"
    if isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
        yield "pattern"


def _is(kind: str, value: Any) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, TYPES[kind])


def _properties(schema: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = schema.get("properties", {})
    return found


def _required(schema: dict[str, Any]) -> set[str]:
    return set(schema.get("required", ()))
