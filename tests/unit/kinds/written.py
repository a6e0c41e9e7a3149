"""What people might write for a Part, drawn from its types: long forms, short ones, nulls, things left out."""

from __future__ import annotations

import json
import types
from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from mizzen.kinds.schema.resource import Part

POOL: tuple[Any, ...] = (
    None, True, False, 0, 1, 2, -1, 100, 4096, 60_000, 0.5, 1.0, 1.5, 99.9, -0.25,
    "", "a", "b", "iris", "mymodel-v2", "mymodel:2", "mymodel@stable", "7", "v7", "007", "1.0.2", "auto", "current",
    "sklearn", "cloud", "edge", "24h", "10m", "500m", "512Mi", "user", "header:x-user", "X-Name", "A_VARIABLE",
    "http://example.com/a.zip", "https://example.com/a", "s3://bucket/key", "example.com:8080/path", "bucket-1",
    "model/weights.bin", "numpy>=1.26", "sha256:" + "ab" * 32, "ab" * 32, "ab" * 20, "main", "always", "dev", "100ms",
    "Threshold", "group:team", "*", "read",
    [], ["a"], ["a", "b"], [1, 2], [{"key": "threshold", "value": "0.5"}], [[1, 2], [3, 4]], [{"name": "a"}],
    {}, {"a": 1}, {"a": "b"}, {"name": "a"}, {"a": {"b": None}}, {"modelName": "iris", "version": "2"},
)  # fmt: skip
"""Words, numbers and shapes of which each field takes those that it accepts."""

KEYS = st.sampled_from(("a", "b", "Worker", "Chief", "cpu", "A_VARIABLE"))
SOME = 4
"""Most optional fields that are given at once: enough for all pairs, and small enough to be drawn."""


@cache
def of_part(part: type[Part]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects each of whose fields is accepted by itself; whether the whole is, `decodes` says."""
    infos = {info.alias or name: info for name, info in part.model_fields.items()}
    fields = {name: values(_annotation(info)) for name, info in infos.items()}
    required = [name for name, info in infos.items() if info.is_required()]
    optional = [name for name in fields if name not in required]
    other_words = {name: other for other, name in part.synonyms.items()}

    @st.composite
    def written(draw: st.DrawFn) -> dict[str, Any]:
        more = draw(st.lists(st.sampled_from(optional), unique=True, max_size=SOME)) if optional else []
        respelt = bool(other_words) and draw(st.booleans())
        return {other_words.get(name, name) if respelt else name: draw(fields[name]) for name in (*required, *more)}

    return written()


def values(annotation: Any) -> st.SearchStrategy[Any]:
    """Values that the annotation takes, its validators included."""
    adapter: TypeAdapter[Any] = TypeAdapter(annotation)
    taken = [value for value in POOL if _takes(adapter.validate_json, value)]
    built = _built(annotation)
    if built is None:
        return st.sampled_from(taken)
    return st.one_of(built, st.sampled_from(taken)) if taken else built


def decodes(part: type[Part], data: Any) -> bool:
    return _takes(part.model_validate_json, data)


def _takes(reads: Callable[..., Any], value: Any) -> bool:
    try:
        reads(json.dumps(value), strict=True)
    except ValidationError:
        return False
    return True


def _annotation(info: FieldInfo) -> Any:
    return Annotated[(info.annotation, *info.metadata)] if info.metadata else info.annotation


def _built(annotation: Any) -> st.SearchStrategy[Any] | None:
    """From what the annotation is made of; None when it is not made of anything."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _built(arguments[0])
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin in (Union, types.UnionType):
        built = [one for argument in arguments if (one := _built(argument)) is not None]
        return st.one_of(built) if built else None
    if origin in (tuple, list) and arguments[0] is not Any:
        return st.lists(values(arguments[0]), max_size=2)
    if origin is dict and arguments[1] is not Any:
        return st.dictionaries(KEYS, values(arguments[1]), max_size=2)
    if isinstance(annotation, type) and issubclass(annotation, Part):
        return st.deferred(lambda: of_part(annotation))
    return None
