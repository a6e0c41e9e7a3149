"""Pydantic's validation errors as faults, in words and with paths as people write them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from mizzen.errors import Fault
from mizzen.kinds.schema.findings import MOST, suggestion

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

REQUIRED = "required"

_MESSAGES = {
    "missing": REQUIRED,
    "string_type": "must be a text; quote it: '{input}'",
    "int_type": "must be a whole number, not {shown}",
    "int_from_float": "must be a whole number, not {shown}",
    "float_type": "must be a number, not {shown}",
    "finite_number": "must be a number, not {shown}",
    "bool_type": "must be true or false, not {shown}",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "greater_than_equal": "must be at least {ge}, not {shown}",
    "greater_than": "must be above {gt}, not {shown}",
    "less_than_equal": "must be at most {le}, not {shown}",
    "less_than": "must be below {lt}, not {shown}",
    "too_short": "must have at least {min_length} entry",
    "string_too_short": "must not be empty",
}


def faults_of(error: ValidationError, root: str) -> tuple[Fault, ...]:
    """Pydantic's errors as faults, with paths as people write them: spec.artifacts[0].digest.

    The first `MOST`, and one more fault with their number if there are more.
    """
    return to_faults(errors_of(error), root)


def to_faults(items: Sequence[ErrorDetails], root: str) -> tuple[Fault, ...]:
    found = dict.fromkeys(Fault(path_of(root, item["loc"]), _message(item)) for item in items[:MOST])
    if len(items) > MOST:
        found[Fault(root, f"{len(items):,} faults; these are the first")] = None
    return tuple(found)


def errors_of(error: ValidationError) -> list[ErrorDetails]:
    """All errors but those that follow from others: without its faulty items, pydantic calls a list too short."""
    items = error.errors(include_url=False)
    faulty = {item["loc"][:-depth] for item in items for depth in range(1, len(item["loc"]))}
    return [item for item in items if item["type"] != "too_short" or item["loc"] not in faulty]


def path_of(root: str, loc: tuple[int | str, ...]) -> str:
    return root + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc)


def _message(item: ErrorDetails) -> str:
    given, context = item["input"], item.get("ctx", {})
    if item["type"] == "literal_error":
        valid = re.findall(r"'([^']*)'", context["expected"])
        return f"{_render(given)} is not a valid value; {suggestion(str(given), valid, 'values')}"
    text = _MESSAGES.get(item["type"])
    if text is None or (item["type"] == "string_type" and isinstance(given, dict | list)):
        return "must be a text" if item["type"] == "string_type" else item["msg"].removeprefix("Value error, ")
    limits = {name: f"{value:g}" if isinstance(value, float) else value for name, value in context.items()}
    return text.format(input=given, shown=_render(given), **limits)


def _render(value: Any) -> str:
    match value:
        case str():
            return f"'{value[:100]}'"
        case dict():
            return "an object"
        case list():
            return "a list"
    return json.dumps(value)[:100]
