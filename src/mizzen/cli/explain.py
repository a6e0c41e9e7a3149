"""explain: what a kind's fields mean, from the kinds themselves."""

from __future__ import annotations

import inspect
import json
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

import typer

from mizzen import errors
from mizzen.cli import output, words
from mizzen.cli.output import Format
from mizzen.cli.session import Output

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from mizzen.kinds.meta import Part


def explain(
    path: Annotated[
        str,
        typer.Argument(metavar="KIND[.FIELD…]", help="A kind, or a field of it.", autocompletion=words.offer_kinds),
    ],
    form: Output = Format.TABLE,
) -> None:
    """Say what a kind is for and which fields it has, or what one field means.

    \b
    Example:
      mizzen explain inferencemodel
      mizzen explain inferencemodel.batching.batchSize
      mizzen explain mlgraph.spec.dag.route
    """
    from mizzen.kinds import catalog

    word, *steps = path.split(".")
    kind = catalog.find(word)
    top, steps = (kind.status, steps[1:]) if steps[:1] == ["status"] else (kind.spec, steps)
    steps = steps[1:] if steps[:1] == ["spec"] else steps
    shown = [kind.name, *(["status"] if top is kind.status else [])]
    part: type[Part] | None = top
    info: FieldInfo | None = None
    for step in steps:
        info = _field(part, step, ".".join(shown))
        part = part_within(info.annotation)
        shown.append(step)
    told = _told(".".join(shown), info, part)
    if form is Format.TABLE:
        for line in _lines(told):
            output.say(line)
    else:
        output.data(told, form)


def type_text(annotation: Any) -> str:
    """A type in words: `list of object`, `'cloud' or 'edge'`."""
    from mizzen.kinds.meta import Part

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
    """The Part in `Part`, `Part | None`, a list of Parts and so on, if there is one."""
    from mizzen.kinds.meta import Part

    if isinstance(annotation, type) and issubclass(annotation, Part):
        return annotation
    return next((found for inner in get_args(annotation) if (found := part_within(inner)) is not None), None)


def _field(part: type[Part] | None, step: str, shown: str) -> FieldInfo:
    from mizzen.kinds.findings import suggestion

    fields = _fields(part)
    wanted = part.synonyms.get(step, step) if part is not None else step
    if wanted not in fields:
        raise errors.NotFound(f"{shown} has no field '{step}'", hint=suggestion(step, tuple(fields), "fields"))
    return fields[wanted]


def _fields(part: type[Part] | None) -> dict[str, FieldInfo]:
    return {info.alias or name: info for name, info in part.model_fields.items()} if part is not None else {}


def _told(name: str, info: FieldInfo | None, part: type[Part] | None) -> dict[str, Any]:
    told: dict[str, Any] = {"name": name}
    if info is not None:
        told |= _about(info)
    text = inspect.cleandoc(part.__doc__ or "") if part is not None and "__doc__" in part.__dict__ else ""
    if text and text != told.get("description"):
        told["about"] = text
    told["fields"] = [{"name": field, **_about(inner)} for field, inner in _fields(part).items()]
    return told


def _about(info: FieldInfo) -> dict[str, Any]:
    about: dict[str, Any] = {"type": type_text(info.annotation), "required": info.is_required()}
    default = None if info.is_required() else info.get_default(call_default_factory=True)
    if isinstance(default, str | int | float | bool) and default != "":
        about["default"] = default
    if info.description:
        about["description"] = info.description
    return about


def _lines(told: dict[str, Any]) -> Iterator[str]:
    yield told["name"] + (f"  <{_type(told)}>" if "type" in told else "")
    for key in ("description", "about"):
        if key in told:
            yield ""
            yield from (f"  {line}".rstrip() for line in told[key].splitlines())
    if told["fields"]:
        yield ""
        yield "FIELDS"
    for field in told["fields"]:
        yield f"  {field['name']}  <{_type(field)}>"
        if "description" in field:
            yield f"      {field['description']}"


def _type(field: dict[str, Any]) -> str:
    if field["required"]:
        return f"{field['type']}, required"
    return f"{field['type']}, default {json.dumps(field['default'])}" if "default" in field else str(field["type"])
