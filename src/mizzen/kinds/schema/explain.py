"""The content of `mizzen explain`: what a kind is for, which fields it has and what each means."""

from __future__ import annotations

import inspect
import json
import types
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from mizzen import frameworks
from mizzen.errors import NotFound
from mizzen.kinds import catalog
from mizzen.kinds.schema.findings import suggestion
from mizzen.kinds.schema.metadata import Metadata
from mizzen.kinds.schema.resource import Part, description_of, is_planned


def explain(path: str) -> dict[str, Any]:
    """The explanation of a kind or a field: `name`, `description`, `about`, `type` and so on, and its `fields`.

    Raises NotFound, with the closest name as its hint.
    """
    word, *steps = path.split(".")
    kind = catalog.find(word)
    tops: dict[str, type[Part]] = {"spec": kind.spec, "status": kind.status, "metadata": Metadata}
    top = steps.pop(0) if steps and steps[0] in tops else "spec"
    shown = [kind.name, *([top] if top != "spec" else [])]
    part: type[Part] | None = tops[top]
    info: FieldInfo | None = None
    for step in steps:
        info = _field(part, step, ".".join(shown))
        part = part_within(info.annotation)
        shown.append(step)
    found = _explain(".".join(shown), info, part)
    if steps and steps[-1] in ("framework", "frameworkType"):
        found["about"] = f"Known frameworks: {', '.join(frameworks.known())}. `mizzen plugins` shows more."
    if shown != [kind.name]:
        return found
    planned = {"planned": True} if kind.planned else {}
    return {"name": kind.name, "description": kind.description, **planned, **found}


def type_text(annotation: Any) -> str:
    """A type in words: `list of object`, `'cloud' or 'edge'`."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    plain = {str: "text", int: "whole number", float: "number", bool: "true or false", Any: "anything", dict: "object"}
    text = plain.get(annotation, str(getattr(annotation, "__name__", annotation)))
    if origin is Annotated:
        text = type_text(arguments[0])
    elif origin is Literal:
        text = " or ".join(f"'{value}'" if isinstance(value, str) else json.dumps(value) for value in arguments)
    elif origin in (Union, types.UnionType):
        texts = (type_text(argument) for argument in arguments if argument is not type(None))
        text = " or ".join(dict.fromkeys(texts))
    elif origin in (tuple, list):
        text = f"list of {type_text(arguments[0])}"
    elif origin is dict:
        text = f"map of text to {type_text(arguments[1])}"
    elif isinstance(annotation, type) and issubclass(annotation, Part):
        text = "object"
    return text


def part_within(annotation: Any) -> type[Part] | None:
    """The Part in `Part`, `Part | None`, a list of Parts and so on; None if there is none."""
    if isinstance(annotation, type) and issubclass(annotation, Part):
        return annotation
    return next((found for inner in get_args(annotation) if (found := part_within(inner)) is not None), None)


def _field(part: type[Part] | None, step: str, shown: str) -> FieldInfo:
    fields = {} if part is None else part.wire_fields()
    wanted = step if part is None else part.synonyms.get(step, step)
    if wanted not in fields:
        raise NotFound(f"{shown} has no field '{step}'", hint=suggestion(step, tuple(fields), "fields"))
    return fields[wanted]


def _explain(name: str, info: FieldInfo | None, part: type[Part] | None) -> dict[str, Any]:
    found: dict[str, Any] = {"name": name}
    if info is not None:
        found |= _about(info)
    text = inspect.cleandoc(part.__doc__ or "") if part is not None and "__doc__" in part.__dict__ else ""
    if text and text != found.get("description"):
        found["about"] = text
    found["fields"] = [
        {"name": field, **_about(inner)} for field, inner in (part.wire_fields() if part is not None else {}).items()
    ]
    return found


def _about(info: FieldInfo) -> dict[str, Any]:
    about: dict[str, Any] = {"type": type_text(info.annotation), "required": info.is_required()}
    default = None if info.is_required() else info.get_default(call_default_factory=True)
    if isinstance(default, str | int | float | bool) and default != "":
        about["default"] = default
    if is_planned(info):
        about["planned"] = True
    if info.description:
        about["description"] = description_of(info)
    return about
