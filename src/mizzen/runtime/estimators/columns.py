"""The types of the columns that an estimator was fitted on, derived from its fitted parts: estimators do not state
them.

Encoders know the categories of each column, imputers their fill values, and vectorizers imply text. A ColumnTransformer
knows which of its parts got which columns. Parts are inspected by attribute names, so that nothing has to be imported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

_DEEPEST = 20
_INNER = ("best_estimator_", "estimator_", "regressor_", "classifier_", "final_estimator_", "_preprocessor")
"""Attributes where meta-estimators keep estimators fitted on the same columns."""


@dataclass(frozen=True, slots=True)
class FittedColumn:
    name: str
    datatype: str = "FP64"
    example: Any = 0.0
    """An example value that the model knows."""


@dataclass(frozen=True, slots=True)
class FittedColumns:
    """The known facts about the input of an estimator."""

    examples: Mapping[int, Any]
    """By column index; nothing is known about columns that are missing here."""
    by_name: bool
    """Columns are selected by name, which needs a DataFrame."""
    text: bool = False
    """The estimator takes one text per row, not columns."""


def columns_of(estimator: Any) -> FittedColumns:
    names = names_of(estimator)
    width = width_of(estimator)
    if width is None:
        return FittedColumns({}, by_name=False, text=_takes_text(estimator))
    places = list(range(width))
    examples: dict[int, Any] = {}
    for place, value in _walk(estimator, places, names, 0):
        examples.setdefault(place, value)
    return FittedColumns(examples, by_name=bool(names) and _picks_by_name(estimator, 0))


def names_of(estimator: Any) -> list[str]:
    """Return the columns' names; none if the estimator was fitted on arrays."""
    names = _get_attribute(estimator, "feature_names_in_")
    return [str(name) for name in names] if names is not None else []


def width_of(estimator: Any) -> int | None:
    width = _get_attribute(estimator, "n_features_in_")
    return int(width) if width is not None else None


def _walk(part: Any, places: list[int], names: list[str], depth: int) -> Iterator[tuple[int, Any]]:
    """Yield column indexes and example values that this part, fitted on these columns, knows."""
    if depth > _DEEPEST or part is None or isinstance(part, str):
        return
    yield from _find_own_examples(part, places)
    if _get_attribute(part, "transformers_") is not None:
        yield from _walk_column_transformer(part, places, names, depth)
        return
    for _, step in _get_attribute(part, "steps") or ():
        if step is None or isinstance(step, str):
            continue
        if width_of(step) not in (None, len(places)):
            break  # an earlier step produced other columns
        yield from _walk(step, places, names, depth + 1)
    for _, member in _get_attribute(part, "transformer_list") or ():
        yield from _walk(member, places, names, depth + 1)
    for name in _INNER:
        inner = _get_attribute(part, name)
        if inner is not None and width_of(inner) in (None, len(places)):
            yield from _walk(inner, places, names, depth + 1)
    members = _get_attribute(part, "estimators_")
    if isinstance(members, list) and members and width_of(members[0]) == len(places):
        yield from _walk(members[0], places, names, depth + 1)


def _find_own_examples(part: Any, places: list[int]) -> Iterator[tuple[int, Any]]:
    categories = _get_attribute(part, "categories_")
    if isinstance(categories, list | tuple) and len(categories) == len(places):
        for place, known in zip(places, categories, strict=True):
            yield from ((place, value) for value in _find_example(known))
    filled = _get_attribute(part, "statistics_")
    if isinstance(filled, np.ndarray) and filled.dtype == object and len(filled) == len(places):
        yield from ((place, value) for place, value in zip(places, filled, strict=True) if isinstance(value, str))
    if _takes_text(part) and len(places) == 1:
        yield places[0], "text"


def _walk_column_transformer(part: Any, places: list[int], names: list[str], depth: int) -> Iterator[tuple[int, Any]]:
    own = names_of(part) or names
    for _, transformer, columns in part.transformers_:
        inner = _pick(columns, places, own)
        if inner is not None:
            yield from _walk(transformer, inner, [own[at] for at in inner] if own else [], depth + 1)


def _pick(columns: Any, places: list[int], names: list[str]) -> list[int] | None:
    """Return the indexes that a scikit-learn column specification selects; None if that cannot be determined."""
    if isinstance(columns, str):
        columns = [columns]
    elif isinstance(columns, int | np.integer):
        columns = [int(columns)]
    elif isinstance(columns, slice):
        if isinstance(columns.start, str) or isinstance(columns.stop, str):
            return None
        return places[columns]
    try:
        listed = list(columns)
    except TypeError:
        return None
    if listed and all(isinstance(one, bool | np.bool_) for one in listed):
        return [place for place, chosen in zip(places, listed, strict=False) if chosen]
    if all(isinstance(one, str) for one in listed):
        return [places[names.index(one)] for one in listed] if set(listed) <= set(names) else None
    return [places[int(one)] for one in listed]


def _find_example(known: Any) -> Iterator[Any]:
    """Yield one category that is a value, not a marker for a missing one."""
    for value in np.asarray(known).ravel()[:5].tolist():
        if value is not None and value == value:  # noqa: PLR0124 - NaN is not itself
            yield value
            return


def _takes_text(part: Any) -> bool:
    """Return whether this is a vectorizer, or a pipeline that begins with one."""
    steps = _get_attribute(part, "steps")
    if steps:
        return _takes_text(steps[0][1])
    best = _get_attribute(part, "best_estimator_")
    if best is not None:
        return _takes_text(best)
    return callable(_get_attribute(part, "build_analyzer")) and callable(_get_attribute(part, "build_tokenizer"))


def _picks_by_name(part: Any, depth: int) -> bool:
    if depth > _DEEPEST or part is None or isinstance(part, str):
        return False
    for _, _, columns in _get_attribute(part, "transformers_") or ():
        listed = [columns] if isinstance(columns, str) else columns
        if isinstance(listed, list | tuple | np.ndarray) and any(isinstance(one, str) for one in listed):
            return True
        if isinstance(columns, slice) and isinstance(columns.start or columns.stop, str):
            return True
    parts = [step for _, step in _get_attribute(part, "steps") or ()]
    parts += [member for _, member in _get_attribute(part, "transformer_list") or ()]
    parts += [_get_attribute(part, name) for name in _INNER]
    members = _get_attribute(part, "estimators_")
    parts += members if isinstance(members, list) else []
    return any(_picks_by_name(inner, depth + 1) for inner in parts)


def _get_attribute(part: Any, name: str) -> Any:
    """Return the attribute, or None if absent; some attributes are properties that raise if a part lacks something."""
    try:
        return getattr(part, name, None)
    except Exception:  # noqa: BLE001 - an error of a foreign property tells us nothing
        return None
