from __future__ import annotations

from typing import Annotated, Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, BeforeValidator, Field

from mizzen.errors import Fault
from mizzen.kinds.schema import findings, metadata
from mizzen.kinds.schema.examine import examine
from mizzen.kinds.schema.findings import MOST, Context, Findings, Warn
from mizzen.kinds.schema.resource import Part, Present


class Leaf(Part):
    sizes: tuple[int, ...] = ()
    word: Annotated[str, Field(min_length=1)]


class Tree(Part):
    required_of_users: ClassVar[frozenset[str]] = frozenset({"layer"})

    layer: str = "cloud"
    leaf: Annotated[
        Leaf | None, BeforeValidator(lambda value: {"word": value} if isinstance(value, str) else value)
    ] = None
    leaves: tuple[Leaf, ...] = Field((), min_length=1)
    by_name: dict[str, tuple[Leaf, ...]] = Field(default_factory=dict)
    turned_on: Annotated[Leaf | None, Present] = None
    odd: int = 0

    def check(self, at: str, context: Context) -> Any:
        if self.odd % 2:
            yield Warn(f"{at}.odd", "is odd")
        if not self.leaves and context.was_read(at, "leaves"):
            yield Warn(f"{at}.leaves", "is bare")


def found(data: Any, *, strict: bool = True) -> set[str]:
    return set(map(str, examine(Tree, data, "spec", Context(), strict=strict)))


LEAF = {"word": "a", "sizes": [1, 2]}


def test_lists_are_good_for_tuples_at_every_depth() -> None:
    data = {"layer": "x", "leaf": LEAF, "leaves": [LEAF], "byName": {"a": [LEAF, LEAF]}}
    assert found(data) == set()
    assert Tree.model_validate(data).by_name["a"][1].sizes == (1, 2)


@pytest.mark.parametrize("wrong", ["12", 1, {"0": 1}, "a"])
def test_nothing_but_a_list_is_good_for_a_tuple(wrong: object) -> None:
    assert found({"layer": "x", "leaves": [{"word": "a", "sizes": wrong}]}) == {"spec.leaves[0].sizes: must be a list"}


def test_strict_types_hold_below_short_forms() -> None:
    data = {"layer": "x", "leaf": {"word": "a", "sizes": ["1"]}, "leaves": [LEAF]}
    assert found(data) == {"spec.leaf.sizes[0]: must be a whole number, not '1'"}
    assert found({"layer": "x", "leaf": "short", "leaves": [LEAF]}) == set()


def test_a_faulty_item_does_not_make_its_list_empty() -> None:
    assert found({"layer": "x", "leaves": [{"word": 3}]}) == {"spec.leaves[0].word: must be a text; quote it: '3'"}
    assert found({"layer": "x", "leaves": []}) == {"spec.leaves: must have at least 1 entry"}


def test_what_people_must_give_stored_objects_may_lack() -> None:
    assert found({"leaves": [LEAF]}) == {"spec.layer: required"}
    assert found({"leaves": [LEAF], "layer": None}) >= {"spec.layer: required"}
    assert found({"leaves": [LEAF]}, strict=False) == set()
    assert found({"leaves": [LEAF], "layr": "x"}) == {"spec: unknown field 'layr'; did you mean 'layer'?"}


def test_checks_see_what_is_left_without_faulty_lists() -> None:
    wrong = found({"layer": "x", "odd": 3, "leaves": [LEAF, {}, {"word": ""}]})
    assert wrong == {"spec.leaves[1].word: required", "spec.leaves[2].word: must not be empty", "spec.odd: is odd"}


def test_a_null_turns_on_only_what_is_marked() -> None:
    assert found({"layer": "x", "leaves": [LEAF], "turnedOn": None}) == {"spec.turnedOn.word: required"}
    assert found({"layer": "x", "leaves": [LEAF], "leaf": None}) == set()


def test_halves_of_characters_are_no_text() -> None:
    assert found({"layer": "a\ud800", "byName": {"b": [{"word": "\udfff"}]}}) == {
        "spec.layer: is not valid Unicode", "spec.byName.b[0].word: is not valid Unicode",
    }  # fmt: skip
    assert found({"layer": "a", "b\ud800": 1}) == {"spec.b\\ud800: has a name that is not valid Unicode"}


def test_bad_data_is_read_twice_and_no_more() -> None:
    read = 0

    def counted(word: str) -> str:
        nonlocal read
        read += 1
        if word == "bad":
            raise ValueError("is bad")
        return word

    class Row(Part):
        key: str
        word: Annotated[str, AfterValidator(counted)]

    class Table(Part):
        rows: tuple[Row, ...]

    bad = [{"word": "bad"} for _ in range(300)]
    found = examine(Table, {"rows": [*bad, {"key": "a", "word": "good"}]}, "spec", Context()).faults
    assert (len(found), found[-1]) == (MOST + 1, Fault("spec", "600 faults; these are the first"))
    assert read == 2 * 301


def test_of_unknown_fields_the_first_are_told_however_they_are_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    class Row(Part):
        key: str = ""

    class Table(Part):
        rows: tuple[Row, ...]

    looked: list[str] = []
    monkeypatch.setattr(findings, "close_to", lambda word, _valid: looked.append(word))
    rows = [{f"x{row}-{column}": 0 for column in range(3)} for row in range(1000)]
    found = examine(Table, {"rows": rows}, "spec", Context()).faults
    assert (len(found), found[-1]) == (MOST + 1, Fault("spec", "more than 100 fields are unknown; these are the first"))
    many = metadata.faults({f"f{number}": 0 for number in range(1000)})
    assert (len(many), many[-1].path) == (MOST + 1, "metadata")
    wrong = metadata.faults({"labels": {f"f{number}": 0 for number in range(1000)}})
    assert wrong == (Fault("metadata.labels", "has 1,000 entries; at most 64 are allowed"),)
    assert len(looked) <= 2 * (MOST + 1)


def test_two_names_of_one_field_are_a_fault_and_not_guessed_between() -> None:
    class Both(Part):
        synonyms: ClassVar[dict[str, str]] = {"tall": "height", "high": "height"}

        height: int

        def check(self, at: str, context: Context) -> Any:
            assert not context.was_read(at, "height")
            yield Warn(f"{at}.height", "is not known")

    sent = {"tall": 1, "height": 2, "high": 3}
    assert set(map(str, examine(Both, sent, "spec", Context()))) == {
        "spec: both 'tall' and 'height' are given; they are the same field",
        "spec: both 'tall' and 'high' are given; they are the same field",
    }


def test_what_a_misspelt_field_may_mean_hides_no_fault_of_the_field_that_is_there() -> None:
    assert found({"layer": "x", "leaves": [LEAF], "odd": "x", "od": 1}) == {
        "spec: unknown field 'od'; did you mean 'odd'?", "spec.odd: must be a whole number, not 'x'",
    }  # fmt: skip


names = st.sampled_from(["leaf", "leaves", "byName", "turnedOn", "odd", "word", "sizes", "layer", "strange"])
json_data = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(names, json_data))
def test_whatever_is_sent_is_examined_and_clean_data_is_read(data: dict[str, Any]) -> None:
    findings = examine(Tree, data, "spec", Context())
    assert findings == Findings.of(findings)
    if not findings.faults:
        Tree.model_validate(data)
