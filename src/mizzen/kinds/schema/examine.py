"""The examination of a spec: unknown fields, types, sizes and the check of each Part, all reported at once."""

from __future__ import annotations

import json
import re
import types
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import replace
from itertools import islice
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import ValidationError

from mizzen.errors import Fault
from mizzen.kinds.schema import lenient_decode, size_limits, validation_errors
from mizzen.kinds.schema.findings import MOST, Context, Finding, Findings, limit_unknown, unknown_fields
from mizzen.kinds.schema.resource import Part

_SURROGATE = re.compile(r"[\ud800-\udfff]")
_STEP = re.compile(r"[.\[]")


def examine(model: type[Part], data: Any, path: str, context: Context, *, strict: bool = True) -> Findings:
    """All faults and warnings of `data` read as `model`. Pure.

    `strict` is for what people send: no unknown fields, and no more entries than `size_limits` allows. A field that was
    probably meant by an unknown one is not also reported as missing.
    """
    data, long = size_limits.drop_excess(model, data, path) if strict else (data, ())
    if broken := tuple(islice(_unicode_faults(data, path), MOST)):
        return Findings((*long, *broken))  # any other message about it could not be encoded either
    strange = tuple(limit_unknown(unknown_in(model, data, path), path)) if strict else ()
    owed = tuple(_missing_fields(model, data, path)) if strict and isinstance(data, Mapping) else ()
    typed, wrong, faulty = _decode(model, data, path)
    reported = frozenset(f"{fault.path}.{meant}" for fault, meant in strange if meant)
    reported = reported.union(fault.path for fault in long)
    unread = reported.union(faulty)
    incomplete = frozenset(top for place in unread for top in _parents(place))
    known = replace(context, strict=strict, unread=unread, incomplete=incomplete)
    checked = checks(typed, path, known) if typed is not None else ()
    # Where a fault was already found, drop the findings of checks: they saw the data without it.
    checked = (item for item in checked if not _is_under(item.path, unread))
    kept = (item for item in (*owed, *wrong, *checked) if not _is_under(item.path, reported))
    return Findings.of((*long, *(fault for fault, _ in strange), *kept))


def checks(part: Part, path: str, context: Context) -> Iterator[Finding]:
    """The findings of the part's own check, and of every part within it."""
    yield from _limit_faults(part.check(path, context))
    for name, info in type(part).model_fields.items():
        for place, inner in _within(getattr(part, name), f"{path}.{info.alias or name}"):
            if isinstance(inner, Part):
                yield from checks(inner, place, context)


def unknown_in(model: type[Part], data: Any, path: str) -> Iterator[tuple[Fault, str | None]]:
    """Fields of `data`, read as `model`, that are unknown or given by two names, at every depth.

    Each comes with the field that was probably meant, if that would otherwise count as absent or as read. Faults of
    type are left to the model itself.
    """
    if not isinstance(data, Mapping):
        return
    fields = {name: info.annotation for name, info in model.wire_fields().items()}
    given: dict[str, str] = {}
    for name in data:
        known = model.synonyms.get(name, name)
        first = given.setdefault(known, name)
        if first != name:
            yield Fault(path, f"both '{first}' and '{name}' are given; they are the same field"), known
    if not model.open:
        strange = {name: 0 for name in data if name not in model.synonyms}
        for fault, meant in unknown_fields(strange, tuple(fields), path):
            yield fault, None if meant in given else meant
    for name, value in data.items():
        annotation = fields.get(model.synonyms.get(name, name))
        if annotation is not None:
            yield from _unknown_within(annotation, value, f"{path}.{name}")


def _unknown_within(annotation: Any, value: Any, path: str) -> Iterator[tuple[Fault, str | None]]:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        yield from _unknown_within(arguments[0], value, path)
    elif origin in (Union, types.UnionType):
        for argument in arguments:
            yield from _unknown_within(argument, value, path)
    elif origin in (tuple, list) and isinstance(value, list):
        for index, item in enumerate(value):
            yield from _unknown_within(arguments[0], item, f"{path}[{index}]")
    elif origin in (tuple, list) and isinstance(value, Mapping):  # one object in place of a list of one
        yield from _unknown_within(arguments[0], value, path)
    elif origin is dict and isinstance(value, Mapping):
        for key, item in value.items():
            yield from _unknown_within(arguments[1], item, f"{path}.{key}")
    elif isinstance(annotation, type) and issubclass(annotation, Part):
        yield from unknown_in(annotation, value, path)


def _limit_faults(findings: Iterable[Finding]) -> Iterator[Finding]:
    """The findings up to the `MOST`th fault."""
    faults = 0
    for finding in findings:
        yield finding
        faults += isinstance(finding, Fault)
        if faults == MOST:
            return


def _missing_fields(model: type[Part], data: Mapping[str, Any], path: str) -> Iterator[Fault]:
    """A fault for each field that people must send although stored objects may lack it."""
    given = {model.synonyms.get(name, name) for name, value in data.items() if value is not None}
    for name, info in model.model_fields.items():
        if name in model.required_of_users and (info.alias or name) not in given:
            yield Fault(f"{path}.{info.alias or name}", validation_errors.REQUIRED)


def _decode(model: type[Part], data: Any, path: str) -> tuple[Part | None, tuple[Fault, ...], frozenset[str]]:
    """The data as `model`, the faults, and the paths of everything faulty.

    With faults, the faulty fields are left out of the data, so that the rest is examined, too.
    """
    # As JSON: only there, strict mode follows the wire, where a list may stand for a tuple but "3" is not a number.
    text = json.dumps(data)
    try:
        return model.model_validate_json(text, strict=True, extra="ignore"), (), frozenset()
    except ValidationError as error:
        items = validation_errors.errors_of(error)
        places = frozenset(validation_errors.path_of(path, item["loc"]) for item in items)
        return lenient_decode.read(model, text), validation_errors.to_faults(items, path), places


def _is_under(path: str, tops: Set[str]) -> bool:
    return path in tops or any(top in tops for top in _parents(path))


def _parents(path: str) -> Iterator[str]:
    """The paths that contain this one."""
    return (path[: step.start()] for step in _STEP.finditer(path))


def _unicode_faults(data: Any, path: str) -> Iterator[Fault]:
    """Lone surrogates, which JSON can express but Unicode text cannot hold."""
    for place, value in _within(data, path):
        if _SURROGATE.search(place):
            yield Fault(place.encode("ascii", "backslashreplace").decode(), "has a name that is not valid Unicode")
        elif isinstance(value, str) and _SURROGATE.search(value):
            yield Fault(place, "is not valid Unicode")


def _within(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    match value:
        case tuple() | list():
            for index, item in enumerate(value):
                yield from _within(item, f"{path}[{index}]")
        case dict():
            for key, item in value.items():
                yield from _within(item, f"{path}.{key}")
        case _:
            yield path, value
