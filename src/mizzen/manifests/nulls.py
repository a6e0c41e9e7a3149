"""Replaces nulls that count as present: `split:` with nothing after it is sent as `split: {}`. Pure.

Otherwise clients that drop nulls would drop the key; see `Present`.
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Union, get_args, get_origin

from mizzen.kinds.schema.resource import Part, Present


def fill_present(model: type[Part], data: Any) -> Any:
    """`data`, read as `model`, with `{}` in place of null for every `Present` field, at every depth."""
    if not isinstance(data, Mapping):
        return data
    fields = model.wire_fields()
    result = {}
    for name, value in data.items():
        info = fields.get(model.synonyms.get(name, name))
        result[name] = value if info is None else _fill(info.annotation, info.metadata, value)
    return result


def _fill(annotation: Any, metadata: Iterable[Any], value: Any) -> Any:
    if value is None:
        return {} if _present(annotation, metadata) else None
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (tuple, list) and isinstance(value, list):
        value = [_fill(arguments[0], (), item) for item in value]
    elif origin in (Annotated, tuple, list):  # one object in place of a list of one
        value = _fill(arguments[0], (), value)
    elif origin in (Union, types.UnionType):
        for argument in arguments:
            value = _fill(argument, (), value)
    elif origin is dict and isinstance(value, Mapping):
        value = {key: _fill(arguments[1], (), item) for key, item in value.items()}
    elif isinstance(annotation, type) and issubclass(annotation, Part):
        value = fill_present(annotation, value)
    return value


def _present(annotation: Any, metadata: Iterable[Any]) -> bool:
    """Whether the field itself is marked `Present`, or a member of its `… | None`."""
    if any(mark is Present for mark in metadata):
        return True
    if get_origin(annotation) is Annotated:
        inner, *marks = get_args(annotation)
        return _present(inner, marks)
    return get_origin(annotation) in (Union, types.UnionType) and any(
        _present(argument, ()) for argument in get_args(annotation)
    )
