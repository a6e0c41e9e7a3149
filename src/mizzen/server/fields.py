"""Fields that people sent, compared with the fields there are: unknown ones are faults that say what was meant."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, get_args

from pydantic import BaseModel

from mizzen.errors import Fault

MOST_LABELS = 64
MOST_ANNOTATIONS = 256 * 1024
"""Bytes of all keys and values together: every list and every watch carries them."""

_LABEL_KEY = re.compile(r"([a-z0-9]([-.a-z0-9]*[a-z0-9])?/)?[A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?)?")


def suggestion(word: str, valid: Collection[str]) -> str:
    """`did you mean 'x'?` when something valid is close, else what is valid."""
    close = difflib.get_close_matches(word.lower(), {name.lower(): name for name in valid}, n=1, cutoff=0.75)
    if close:
        return f"did you mean '{next(name for name in valid if name.lower() == close[0])}'?"
    return f"valid are {', '.join(valid)}" if valid else "none is possible here"


def unknown(data: Mapping[str, Any], valid: Collection[str], path: str = "") -> tuple[Fault, ...]:
    return tuple(
        Fault(path, f"unknown field '{name}', {suggestion(name, valid)}") for name in data if name not in valid
    )


def unknown_in(model: type[BaseModel], data: Any, path: str) -> Iterator[Fault]:
    """Unknown fields of `data`, read as `model`, at every depth. Faults of type are left to the model itself."""
    if not isinstance(data, Mapping):
        return
    fields = {field.alias or name: field for name, field in model.model_fields.items()}
    yield from unknown(data, fields, path)
    for name, field in fields.items():
        inner = _model_within(field.annotation)
        if inner is None or name not in data:
            continue
        value = data[name]
        if isinstance(value, list):
            for index, item in enumerate(value):
                yield from unknown_in(inner, item, f"{path}.{name}[{index}]")
        else:
            yield from unknown_in(inner, value, f"{path}.{name}")


def string_map_faults(value: Any, path: str) -> tuple[Fault, ...]:
    if value is None:
        return ()
    if not isinstance(value, Mapping):
        return (Fault(path, "must be an object of texts"),)
    return tuple(
        Fault(f"{path}.{key}", f"must be a text; quote it: '{item}'")
        for key, item in value.items()
        if not isinstance(item, str)
    )


def label_faults(value: Any, path: str) -> tuple[Fault, ...]:
    """Labels are selected by, so their alphabet is small; it is the one of Kubernetes."""
    faults = string_map_faults(value, path)
    if faults or not value:
        return faults
    if len(value) > MOST_LABELS:
        return (Fault(path, f"at most {MOST_LABELS}, not {len(value)}"),)
    rule = "at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends"
    return tuple(
        Fault(f"{path}.{key}", f"the {part} must be {rule}")
        for key, item in value.items()
        for part, pattern, text in (("key", _LABEL_KEY, key), ("value", _LABEL_VALUE, item))
        if not pattern.fullmatch(text)
    )


def annotation_faults(value: Any, path: str) -> tuple[Fault, ...]:
    faults = string_map_faults(value, path)
    if faults or not value:
        return faults
    size = sum(len(text.encode(errors="surrogatepass")) for pair in value.items() for text in pair)
    return (Fault(path, f"at most 256 KiB together, not {size:,} bytes"),) if size > MOST_ANNOTATIONS else ()


def text_fault(data: Mapping[str, Any], name: str, *, required: bool = False) -> tuple[Fault, ...]:
    value = data.get(name)
    if value in (None, ""):
        return (Fault(name, "required"),) if required else ()
    return () if isinstance(value, str) else (Fault(name, "must be a text"),)


def _model_within(annotation: Any) -> type[BaseModel] | None:
    """The model inside `Model`, `Model | None`, `tuple[Model, ...]` and so on, if there is one."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _model_within(part)) is not None), None)
