"""docs/reference/kinds.md, from the catalog of kinds: every field of every spec and status."""

from __future__ import annotations

import inspect
import json
import re
import types
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from mizzen.kinds.catalog import KINDS, Kind
from mizzen.kinds.meta import API_VERSION, Status
from tools.reference import markdown

INTRO = f"""\
Objects have `apiVersion: {API_VERSION}`, `kind`, `metadata`, `spec` and `status`. People write `spec`; `status` is
what controllers report. Unknown fields in what is sent are refused."""

HEADER = ("Field", "Type", "Default", "Meaning")
HIDDEN = frozenset(Status.model_fields)
"""Fields of every status are described once."""


def page() -> str:
    blocks = [INTRO, "## Every status", _table(Status)]
    shown: set[type[BaseModel]] = set()
    for kind in KINDS:
        blocks += _kind(kind)
        shown |= set(_parts(kind.spec)) | set(_parts(kind.status))
    shown -= {kind.spec for kind in KINDS} | {kind.status for kind in KINDS}
    blocks.append("## Parts")
    for part in sorted(shown, key=lambda part: part.__name__):
        blocks += [f"### {part.__name__}", _docstring(part), _table(part)]
    return markdown.page("Kinds", *blocks)


def _kind(kind: Kind) -> list[str]:
    facts = [f"Also called {markdown.code(kind.plural)} and {markdown.code(kind.short)}."]
    if kind.internal:
        facts.append("Internal: written by controllers only; people may read it.")
    if kind.fixed:
        facts.append("Fixed at creation: " + ", ".join(markdown.code(field) for field in sorted(kind.fixed)) + ".")
    return [
        f"## {kind.name}", " ".join(facts),
        "### " + f"{kind.name} spec", _docstring(kind.spec), _table(kind.spec) or "No fields.",
        "### " + f"{kind.name} status", _docstring(kind.status),
        _table(kind.status, HIDDEN) or "Nothing beyond what every status has.",
    ]  # fmt: skip


def _table(model: type[BaseModel], hidden: frozenset[str] = frozenset()) -> str:
    rows = [
        (markdown.code(field.alias or name), type_text(field.annotation), _default(field), _meaning(field))
        for name, field in model.model_fields.items()
        if name not in hidden
    ]
    return markdown.table(HEADER, rows)


def type_text(annotation: Any) -> str:
    """As a person would say it: `list of Artifact`, `"cloud" or "edge"`."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return type_text(arguments[0])
    if origin is Literal:
        return " or ".join(markdown.code(json.dumps(value)) for value in arguments)
    if origin in (Union, types.UnionType):
        return " or ".join(type_text(part) for part in arguments if part is not type(None))
    if origin in (tuple, list):
        return f"list of {type_text(arguments[0])}"
    if origin is dict:
        return f"map of {type_text(arguments[0])} to {type_text(arguments[1])}"
    names = {str: "string", int: "integer", float: "number", bool: "boolean"}
    return names.get(annotation) or str(annotation.__name__)


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True, validated_data={})
    return "" if value is None else markdown.code(json.dumps(value))


def _meaning(field: FieldInfo) -> str:
    """The description, and the limits that are written as metadata of the field."""
    words = {
        "ge": "at least {}",
        "gt": "above {}",
        "le": "at most {}",
        "lt": "below {}",
        "min_length": "at least {} long",
    }
    limits = [
        word.format(getattr(limit, name))
        for limit in field.metadata
        for name, word in words.items()
        if getattr(limit, name, None) is not None
    ]
    described = field.description or ""
    return " ".join(filter(None, [described, f"({', '.join(limits)})" if limits else ""]))


def _docstring(model: type[BaseModel]) -> str:
    """The class's own; a drawing in it becomes a block of code."""
    text = inspect.cleandoc(model.__doc__) if "__doc__" in vars(model) and model.__doc__ else ""
    paragraphs = re.split(r"\n\s*\n", text)
    return "\n\n".join(
        f"```\n{block}\n```" if re.search(r"\S {3,}|^ {2,}", block, re.M) else block for block in paragraphs
    )


def _parts(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """`model` and every model its fields are made of."""
    yield model
    for field in model.model_fields.values():
        for part in _classes(field.annotation):
            if issubclass(part, BaseModel):
                yield from _parts(part)


def _classes(annotation: Any) -> Iterator[type]:
    if isinstance(annotation, type) and not get_args(annotation):
        yield annotation
    for argument in get_args(annotation):
        yield from _classes(argument)
