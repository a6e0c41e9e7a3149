from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given

from mizzen.patches.merge_patch import merge
from tests.unit.patches.documents import OBJECTS, VALUES

EXAMPLES_OF_THE_RFC: list[tuple[Any, Any, Any]] = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    (["a", "b"], ["c", "d"], ["c", "d"]),
    ({"a": "b"}, ["c"], ["c"]),
    ({"a": "foo"}, None, None),
    ({"a": "foo"}, "bar", "bar"),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]


@pytest.mark.parametrize(("document", "patch", "result"), EXAMPLES_OF_THE_RFC)
def test_the_examples_of_the_rfc(document: Any, patch: Any, result: Any) -> None:
    assert merge(document, patch) == result


def reference(document: Any, patch: Any) -> Any:
    """By paths rather than by recursion into both: each member of a patch that is no object is one assignment."""
    if not isinstance(patch, dict):
        return patch
    result = copy.deepcopy(document) if isinstance(document, dict) else {}
    todo: list[tuple[tuple[str, ...], Any]] = [((name,), value) for name, value in patch.items()]
    while todo:
        path, value = todo.pop()
        parent = result
        for name in path[:-1]:
            parent = parent[name]
        if value is None:
            parent.pop(path[-1], None)
        elif isinstance(value, dict):
            if not isinstance(parent.get(path[-1]), dict):
                parent[path[-1]] = {}
            todo += [((*path, name), inner) for name, inner in value.items()]
        else:
            parent[path[-1]] = value
    return result


@given(VALUES, VALUES)
def test_agrees_with_the_reference_and_changes_no_argument(document: Any, patch: Any) -> None:
    before = copy.deepcopy((document, patch))
    assert merge(document, patch) == reference(document, patch)
    assert (document, patch) == before


@given(OBJECTS, OBJECTS)
def test_twice_is_once(document: Any, patch: Any) -> None:
    once = merge(document, patch)
    assert merge(once, patch) == once
