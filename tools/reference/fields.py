"""The fields of Parts as Markdown: one table for each Part, with links between them."""

from __future__ import annotations

import inspect
import json
import re
import types
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from mizzen.kinds.schema.resource import Part, description_of
from tools.reference import markdown

HEADER = ("Field", "Type", "Default", "Meaning")

_LIMITS = {
    "ge": "at least {}", "gt": "above {}", "le": "at most {}", "lt": "below {}",
    "min_length": "at least {} long", "max_length": "at most {} long", "entries": "at most {} entries",
}  # fmt: skip
_SCALARS: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean", Any: "anything"}


def section(part: type[BaseModel], level: int, title: str = "") -> list[str]:
    """A Part under its own heading."""
    return [f"{'#' * level} {title or part.__name__}", docstring(part), table(part) or "No fields."]


def table(part: type[BaseModel]) -> str:
    """Empty if the Part has no fields."""
    other_words: dict[str, str] = dict(getattr(part, "synonyms", {}))
    rows = [
        (_names(name, info, other_words), type_text(info.annotation), _default(info), _meaning(info))
        for name, info in part.model_fields.items()
    ]
    return markdown.table(HEADER, rows)


def parts(*models: type[BaseModel]) -> list[type[BaseModel]]:
    """The models and all Parts within their fields, each once, outer ones first."""
    found: dict[type[BaseModel], None] = dict.fromkeys(models)
    waiting = list(models)
    while waiting:
        for info in waiting.pop(0).model_fields.values():
            new = [part for part in _classes(info.annotation) if issubclass(part, BaseModel) and part not in found]
            found |= dict.fromkeys(new)
            waiting += new
    return list(found)


def type_text(annotation: Any) -> str:
    """A readable type: `list of Artifact`, `"cloud" or "edge"`. Parts are links within the same page."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    text = _SCALARS.get(annotation, "")
    if origin is Annotated:
        text = type_text(arguments[0])
    elif origin is Literal:
        text = " or ".join(markdown.code(json.dumps(value)) for value in arguments)
    elif origin in (Union, types.UnionType):
        text = " or ".join(type_text(part) for part in arguments if part is not type(None))
    elif origin in (tuple, list):
        text = f"list of {type_text(arguments[0])}"
    elif origin is dict:
        text = f"map of {type_text(arguments[0])} to {type_text(arguments[1])}"
    elif isinstance(annotation, type) and issubclass(annotation, Part):
        text = f"[{annotation.__name__}](#{annotation.__name__.lower()})"
    if not text:
        raise TypeError(f"no words for {annotation!r}")
    return text


def docstring(model: type[BaseModel]) -> str:
    """The class's own docstring; a diagram in it becomes a code block."""
    text = inspect.cleandoc(model.__doc__) if "__doc__" in vars(model) and model.__doc__ else ""
    paragraphs = re.split(r"\n\s*\n", text)
    return "\n\n".join(
        f"```\n{block}\n```" if re.search(r"\S {3,}|^ {2,}", block, re.M) else block for block in paragraphs
    )


def _names(name: str, info: FieldInfo, other_words: dict[str, str]) -> str:
    written = info.alias or name
    others = [word for word, meant in other_words.items() if meant == written]
    return markdown.code(written) + "".join(f" or {markdown.code(word)}" for word in others)


def _default(info: FieldInfo) -> str:
    if info.is_required():
        return "required"
    value = info.get_default(call_default_factory=True, validated_data={})
    if isinstance(value, Part):
        value = value.wire()
    return "" if value is None else markdown.code(json.dumps(value))


def _meaning(info: FieldInfo) -> str:
    """The description, and the limits in the metadata of the field."""
    limits = [
        word.format(_number(getattr(limit, name)))
        for limit in info.metadata
        for name, word in _LIMITS.items()
        if getattr(limit, name, None) is not None
    ]
    return " ".join(filter(None, [description_of(info), f"({', '.join(limits)})" if limits else ""]))


def _number(value: float) -> str:
    return f"{value:,}".replace(",", " ") if isinstance(value, int) else f"{value:g}"


def _classes(annotation: Any) -> Iterator[type]:
    if isinstance(annotation, type) and not get_args(annotation):
        yield annotation
    for argument in get_args(annotation):
        yield from _classes(argument)
