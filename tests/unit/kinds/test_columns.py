"""Columns with the types and words of the fields they show."""

from __future__ import annotations

from typing import Any

import pytest

from mizzen.kinds.catalog import BY_NAME, KINDS, Kind
from mizzen.kinds.schema import column_values


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_column_has_words(kind: Kind) -> None:
    found = column_values.columns_of(kind)
    assert [one.column for one in found] == list(kind.columns)
    assert all(one.about for one in found)
    assert found[0].title == kind.columns[0].title.capitalize()


def test_types_and_words_are_those_of_the_field() -> None:
    by_title = {one.column.title: one for one in column_values.columns_of(BY_NAME["InferenceModel"])}
    assert (by_title["REPLICAS"].type, by_title["REPLICAS"].about) == ("integer", "The number of ready replicas.")
    assert by_title["URL"].type == "string"
    assert (by_title["READY"].type, by_title["READY"].about) == ("string", "The condition Ready.")


@pytest.mark.parametrize(
    ("item", "path", "shown"),
    [
        ({"spec": {"a": {"b": "x"}}}, "spec.a.b", "x"),
        ({"spec": {"a": 3}}, "spec.a", 3),
        ({"spec": {"a": 0.5}}, "spec.a", "0.5"),
        ({"spec": {"a": ["x", 1]}}, "spec.a", "x,1"),
        ({"spec": {"a": "x"}}, "spec.a.b", None),
        ({}, "spec.a", None),
        ({"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "R"}]}}, "condition:Ready", "True"),
        ({"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "R"}]}}, "condition:Ready", "R"),
        ({"status": {"conditions": [{"type": "Other", "status": "True"}]}}, "condition:Ready", None),
        ({"status": {"conditions": None}}, "condition:Ready", None),
        ({}, "condition:Ready", None),
    ],
)
def test_a_cell_holds_what_is_at_its_path(item: dict[str, Any], path: str, shown: object) -> None:
    assert column_values.cell(item, path) == shown
