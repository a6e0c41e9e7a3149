"""Limits on what people may send: entries of a list or a map, and bytes of a spec. Pure.

Every list, watch and compilation pays for every entry of every object, so a spec must not hold a million of them. The
limits are checked on writes only. Stored objects are always read, and no type enforces a limit.
"""

from __future__ import annotations

import json
import types
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Union, get_args, get_origin

from mizzen.errors import Fault
from mizzen.kinds.schema.resource import Part

MAX_TOTAL_ENTRIES = 300_000
"""Entries of one spec, at every depth: nested lists add up quickly. Elements of tensors count, too."""
MAX_BYTES = 1 << 20
"""Of one spec as JSON. Kubernetes, the other place where objects are stored, accepts little more per object."""
MAX_PASSED_ON = 1000
"""Entries, at every depth, of the unknown fields of an open Part."""


@dataclass(frozen=True, slots=True)
class MaxItems:
    """For `Annotated[tuple[str, ...], MaxItems(256)]`: the maximum of entries; in untyped values, at every depth."""

    entries: int

    def fault(self, path: str, there: int) -> Fault:
        return Fault(path, f"has {there:,} entries; at most {self.entries:,} are allowed")


def drop_excess(model: type[Part], data: Any, path: str) -> tuple[Any, tuple[Fault, ...]]:
    """The data without the values that have too many entries, and a fault for each of them.

    If the data is too large as a whole, nothing of it is left.
    """
    found: list[Fault] = []
    kept = _part(model, data, path, found)
    if (there := _count(kept)) > MAX_TOTAL_ENTRIES:
        return {}, (Fault(path, f"has {there:,} entries in all; at most {MAX_TOTAL_ENTRIES:,} are allowed"), *found)
    if (size := _size(kept)) > MAX_BYTES:
        return {}, (Fault(path, f"has {size:,} bytes as JSON; at most {MAX_BYTES:,} are allowed"), *found)
    return kept, tuple(found)


def _part(model: type[Part], data: Any, path: str, found: list[Fault]) -> Any:
    if not isinstance(data, Mapping):
        return data
    fields = model.wire_fields()
    kept: dict[str, Any] = {}
    strange: dict[str, Any] = {}
    for name, value in data.items():
        known = model.synonyms.get(name, name)
        info = fields.get(known)
        if info is None:
            strange[name] = value
        else:
            kept[name] = _value(info.annotation, info.metadata, value, f"{path}.{known}", found)
    if model.open and (there := _count(strange)) > MAX_PASSED_ON:
        found.append(Fault(path, f"passes on {there:,} entries; at most {MAX_PASSED_ON:,} are allowed"))
        return kept
    return kept | strange


def _value(annotation: Any, rules: Iterable[Any], value: Any, path: str, found: list[Fault]) -> Any:
    """`rules` is the metadata of the annotation in `Annotated`."""
    if not isinstance(value, list | Mapping):
        return value
    for rule in rules:
        if isinstance(rule, MaxItems):
            value = _limit_entries(rule, annotation, value, path, found)
    return _within(annotation, value, path, found)


def _within(annotation: Any, value: Any, path: str, found: list[Fault]) -> Any:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _value(arguments[0], arguments[1:], value, path, found)
    if origin in (Union, types.UnionType):
        for argument in arguments:
            value = _value(argument, (), value, path, found)
    elif origin in (tuple, list) and isinstance(value, list):
        return [_value(arguments[0], (), item, f"{path}[{index}]", found) for index, item in enumerate(value)]
    elif origin in (tuple, list):  # one object in place of a list of one
        return _value(arguments[0], (), value, path, found)
    elif origin is dict and isinstance(value, Mapping):
        return {key: _value(arguments[1], (), item, f"{path}.{key}", found) for key, item in value.items()}
    elif isinstance(annotation, type) and issubclass(annotation, Part):
        return _part(annotation, value, path, found)
    return value


def _limit_entries(most: MaxItems, annotation: Any, value: Any, path: str, found: list[Fault]) -> Any:
    union = get_origin(annotation) in (Union, types.UnionType)
    forms = get_args(annotation) if union else (annotation,)
    if isinstance(value, Mapping) and any(get_origin(form) in (tuple, list) for form in forms):
        return value  # one object in place of a list of one
    there = _count(value) if _is_untyped(annotation) else len(value)
    if there <= most.entries:
        return value
    found.append(most.fault(path, there))
    return [] if isinstance(value, list) else {}


def _is_untyped(annotation: Any) -> bool:
    """`dict[str, Any]`, `list[Any]`, lists of them, and any of these or nothing."""
    return annotation is Any or any(map(_is_untyped, get_args(annotation)))


def _size(value: Any) -> int:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return len(text.encode(errors="surrogatepass"))  # lone surrogates are reported elsewhere


def _count(value: Any) -> int:
    """Entries at every depth."""
    total, waiting = 0, [value]
    while waiting:
        inner = waiting.pop()
        if isinstance(inner, list | Mapping):
            total += len(inner)
            waiting += inner.values() if isinstance(inner, Mapping) else inner
    return total
