from __future__ import annotations

import copy
from typing import Any

import jsonpatch
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mizzen.errors import BadRequest, Invalid, TooLarge
from mizzen.manifests import strict_yaml
from mizzen.patches.json_patch import DEPTH, MOST_OPERATIONS, apply_patch, copies
from tests.support.examples import examples
from tests.unit.patches.documents import OBJECTS, VALUES

POINTERS = st.lists(st.sampled_from(["a", "b", "c", "a~1b", "m~0n", "0", "1", "-", "01"]), max_size=3).map(
    lambda steps: "".join(f"/{step}" for step in steps)
)


@st.composite
def operations(draw: st.DrawFn) -> dict[str, Any]:
    name = draw(st.sampled_from(["add", "remove", "replace", "move", "copy", "test"]))
    operation: dict[str, Any] = {"op": name, "path": draw(POINTERS)}
    if name in ("add", "replace", "test"):
        operation["value"] = draw(VALUES)
    if name in ("move", "copy"):
        operation["from"] = draw(POINTERS)
    return operation


def outcome(apply: Any, document: Any, patch: Any, refusals: tuple[type[Exception], ...]) -> Any:
    try:
        return ("made", apply(copy.deepcopy(document), patch))
    except refusals:
        return ("refused", None)


def by_library(document: Any, patch: Any) -> Any:
    return jsonpatch.apply_patch(document, patch)


def exact(value: Any) -> Any:
    """Python takes true for 1; JSON does not."""
    if isinstance(value, dict):
        return {name: exact(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [exact(inner) for inner in value]
    return (type(value).__name__, value)


def known_difference(document: Any, patch: list[dict[str, Any]]) -> bool:
    """Where the library does not keep to the RFC: it takes true for 1 in `test`, a `-` where nothing is, removes the
    whole document differently, and lets texts be indexed."""
    return any(
        operation["op"] == "test"
        or operation["path"] == ""
        or operation.get("from") == ""
        or "-" in (operation["path"] + operation.get("from", "")).split("/")
        for operation in patch
    )


@settings(max_examples=examples(400))
@given(OBJECTS, st.lists(operations(), min_size=1, max_size=4))
def test_agrees_with_an_independent_implementation(document: Any, patch: list[dict[str, Any]]) -> None:
    ours = outcome(apply_patch, document, patch, (Invalid, BadRequest))
    if known_difference(document, patch):
        return
    theirs = outcome(
        by_library, document, patch, (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException, TypeError)
    )
    assert exact(ours) == exact(theirs)


@given(OBJECTS, st.lists(operations(), max_size=4))
def test_all_or_nothing(document: Any, patch: list[dict[str, Any]]) -> None:
    before = copy.deepcopy((document, patch))
    outcome(apply_patch, document, patch, (Invalid, BadRequest))
    assert exact((document, patch)) == exact(before)


@pytest.mark.parametrize(
    ("document", "patch", "result"),
    [
        ({"a": [1, 3]}, [{"op": "add", "path": "/a/1", "value": 2}], {"a": [1, 2, 3]}),
        ({"a": [1]}, [{"op": "add", "path": "/a/-", "value": 2}], {"a": [1, 2]}),
        ({"a": 1}, [{"op": "replace", "path": "", "value": [2]}], [2]),
        ({"a": 1}, [{"op": "test", "path": "/a", "value": 1.0}], {"a": 1}),
        ({"a": 1}, [{"op": "move", "from": "/a", "path": "/a"}], {"a": 1}),
        ({"a": {"b": 1}}, [{"op": "copy", "from": "/a", "path": "/c"}], {"a": {"b": 1}, "c": {"b": 1}}),
        ({"a": None}, [{"op": "test", "path": "/a", "value": None}], {"a": None}),
    ],
)
def test_what_the_rfc_says(document: Any, patch: Any, result: Any) -> None:
    assert exact(apply_patch(document, patch)) == exact(result)


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        ([{"op": "test", "path": "/a", "value": True}], "/a is not true"),
        ([{"op": "remove", "path": "/x/y"}], "there is no /x"),
        ([{"op": "add", "path": "/l/5", "value": 1}], "a list of 2 has no index 5"),
        ([{"op": "remove", "path": "/l/-"}], "'-' is not a list index"),
        ([{"op": "replace", "path": "/l/01", "value": 1}], "'01' is not a list index"),
        ([{"op": "move", "from": "/o", "path": "/o/p"}], "cannot be moved into itself"),
        ([{"op": "add", "path": "/a/b", "value": 1}], "/a is neither an object nor a list"),
    ],
)
def test_what_does_not_fit_is_told(patch: Any, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        apply_patch({"a": 1, "l": [1, 2], "o": {}}, patch)


@pytest.mark.parametrize(
    "patch",
    [
        {}, None, [1], [{"op": "set", "path": "/a"}], [{"op": "add", "path": "/a"}], [{"op": "add", "value": 1}],
        [{"op": "add", "path": "a", "value": 1}], [{"op": "add", "path": "/~2", "value": 1}],
        [{"op": "move", "path": "/a"}], [{"op": ["add"], "path": "/a"}],
        [{"op": "test", "path": "/a", "value": 1}] * (MOST_OPERATIONS + 1),
    ],
)  # fmt: skip
def test_what_is_no_patch(patch: Any) -> None:
    with pytest.raises(BadRequest):
        apply_patch({"a": 1}, patch)


@pytest.mark.parametrize(
    ("document", "patch", "message"),
    [
        ({"x": ["a"] * 8}, [{"op": "copy", "from": "/x", "path": "/x/0"}] * 60, "operation 16 .* copies more than 3,1"),
        ({"x": [0] * 20_000}, [{"op": "copy", "from": "/x", "path": "/y"}] * 1000, "operation 78 .* copies more than"),
        ({"x": [0] * 200_000}, [{"op": "add", "path": "/x/0", "value": 0}] * 1000, "operation 499 .* list items"),
        ({"x": [0] * 200_000}, [{"op": "remove", "path": "/x/0"}] * 1000, "list items"),
        ({"x": [0] * 200_000}, [{"op": "move", "from": "/x/0", "path": "/x/1"}] * 1000, "list items"),
    ],
)
def test_a_short_patch_cannot_make_much_work(document: Any, patch: Any, message: str) -> None:
    with pytest.raises(TooLarge, match=message):
        apply_patch(document, patch)


def test_lists_as_long_as_any_of_ours_may_be_changed_at_their_front() -> None:
    patch = [{"op": "add", "path": "/x/0", "value": 0}] * (MOST_OPERATIONS // 2)
    assert apply_patch({"x": [0] * 10_000}, patch) == {"x": [0] * (10_000 + len(patch))}


def nested(times: int) -> list[dict[str, Any]]:
    """Puts what is at /x into another object, so often."""
    once: list[dict[str, Any]] = [
        {"op": "add", "path": "/y", "value": {}},
        {"op": "move", "from": "/x", "path": "/y/a"},
        {"op": "move", "from": "/y", "path": "/x"},
    ]
    return once * times


@pytest.mark.parametrize("times", [DEPTH, 3000])
def test_no_patch_nests_deeper_than_a_body_may(times: int) -> None:
    assert DEPTH == strict_yaml.DEPTH
    document: Any = apply_patch({"x": {}}, nested(DEPTH - 1))
    for _ in range(DEPTH):
        (document,) = document.values()
    assert document == {}
    with pytest.raises(Invalid, match="produces more than 100 levels"):
        apply_patch({"x": {}}, nested(times))
    with pytest.raises(Invalid, match="does not fit: it produces more than 100 levels"):
        apply_patch({"x": {}}, [*nested(times + 1), {"op": "copy", "from": "/x", "path": "/z"}])


def test_what_is_copied_is_another() -> None:
    patch = [{"op": "copy", "from": "/a", "path": "/b"}, {"op": "add", "path": "/b/é", "value": "\ud800"}]
    assert apply_patch({"a": {"c": [1.5, None, True]}}, patch) == {
        "a": {"c": [1.5, None, True]}, "b": {"c": [1.5, None, True], "é": "\ud800"},
    }  # fmt: skip
    assert copies(patch)
    assert not copies(patch[1:])
    assert not copies({"op": "copy"})
