"""Schemas of kinds are structural, and take all that we take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from pydantic import BeforeValidator, Field

from mizzen.kinds.catalog import BY_NAME, KINDS, Kind
from mizzen.kinds.schema.crd_schema import ANYTHING, part_description, schema_of
from mizzen.kinds.schema.examine import unknown_in
from mizzen.kinds.schema.resource import Part, Present
from mizzen.manifests import reader
from tests.support.examples import examples
from tests.unit.kinds import structural, written
from tests.unit.kinds.examined import EVERYTHING

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
SCHEMAS = {part: schema_of(part) for kind in KINDS for part in (kind.spec, kind.status)}
ALL = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


class Inner(Part):
    """One thing.

    And more about it.
    """

    size: int = Field(ge=1, description="How much.")


class Sample(Part):
    required_of_users: ClassVar[frozenset[str]] = frozenset({"word"})
    synonyms: ClassVar[dict[str, str]] = {"cmd": "command"}

    command: tuple[str, ...]
    inner: Annotated[Inner | None, Present] = Field(None, description="Given, even empty.")
    short: Annotated[Inner | None, BeforeValidator(lambda value: value)] = None
    word: Literal["a", "b"] | None = None
    free: dict[str, Any] = Field(default_factory=dict)
    counts: dict[str, int] = Field(default_factory=dict)
    either: int | Literal["auto"] = 1
    share: float = Field(0.5, gt=0, le=1)
    again: tuple[Sample, ...] = ()


def test_each_form_has_its_schema() -> None:
    schema = schema_of(Sample)
    fields = schema["properties"]
    assert schema["x-kubernetes-preserve-unknown-fields"]  # or `cmd` would be dropped
    assert "required" not in schema  # `command` may come as `cmd`, and `word` is asked of users by ourselves
    assert fields["inner"]["nullable"]
    assert fields["inner"]["required"] == ["size"]
    assert fields["inner"]["properties"]["size"]["minimum"] == 1
    assert fields["inner"]["description"] == "Given, even empty."
    assert fields["short"] == ANYTHING
    assert fields["word"] == {"type": "string", "nullable": True, "pattern": "^(a|b)$"}
    assert fields["free"] == {"type": "object", **ANYTHING}
    assert fields["counts"]["additionalProperties"]["type"] == "integer"
    assert fields["either"] == {"x-kubernetes-int-or-string": True}
    assert fields["share"] == {"type": "number", "minimum": 0, "exclusiveMinimum": True, "maximum": 1}
    assert fields["again"]["items"] == {"type": "object", **ANYTHING}  # it holds itself
    assert list(structural.faults(schema)) == []


def test_people_are_shown_the_long_form() -> None:
    fields = schema_of(Sample, long=True)["properties"]
    assert fields["short"]["properties"]["size"]["type"] == "integer"
    assert fields["word"]["enum"] == ["a", "b", None]


def test_the_first_paragraph_describes() -> None:
    assert part_description(Inner) == "One thing."
    assert part_description(Sample) == ""


def test_the_nodes_of_a_graph_are_open_on_a_cluster_and_typed_for_people() -> None:
    graph = BY_NAME["MLGraph"].spec
    assert schema_of(graph)["properties"]["dag"].keys() == {"x-kubernetes-preserve-unknown-fields", "description"}
    nodes = schema_of(graph, long=True)["properties"]["dag"]
    assert nodes["type"] == "array"
    assert nodes["items"]["properties"]["route"]["properties"]["split"]["type"] == "object"


@ALL
def test_every_schema_is_structural(kind: Kind) -> None:
    assert list(structural.faults(schema_of(kind.spec))) == []
    assert list(structural.faults(schema_of(kind.status))) == []


@ALL
@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_schema_takes_whatever_decodes(kind: Kind, data: st.DataObject) -> None:
    for part in (kind.spec, kind.status):
        value = data.draw(written.of_part(part))
        assume(written.decodes(part, value))
        schema = SCHEMAS[part]
        assert list(structural.problems(schema, value)) == []
        if not list(unknown_in(part, value, "")):
            assert list(structural.pruned(schema, value)) == []


def test_a_schema_takes_every_example_that_we_take() -> None:
    """Seeds with faults are none of them."""
    taken = []
    for document in reader.read(EXAMPLES):
        if document.kind is None or document.faults:
            continue
        spec = document.data.get("spec", {})
        if document.kind.examine(document.name, spec, EVERYTHING).faults:
            continue
        taken.append(document.source)
        assert list(structural.problems(schema_of(document.kind.spec), spec)) == []
        assert list(structural.pruned(schema_of(document.kind.spec), spec)) == []
    assert len(taken) > 10


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "string"}, 3),
        ({"type": "string"}, None),
        ({"type": "integer"}, True),
        ({"type": "integer"}, 0.5),
        ({"type": "string", "enum": ["a", None], "nullable": True}, None),
        ({"type": "string", "pattern": "^(a|b)$"}, "c"),
        ({"x-kubernetes-int-or-string": True}, 0.5),
        ({"x-kubernetes-int-or-string": True}, None),
        ({"type": "number", "minimum": 0, "exclusiveMinimum": True}, 0),
        ({"type": "array", "items": {"type": "string"}, "minItems": 1}, []),
        ({"type": "array", "items": {"type": "string"}}, [1]),
        ({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}, {}),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, {"a": "b"}),
    ],
)
def test_the_rules_of_kubernetes_can_refuse(schema: dict[str, Any], value: Any) -> None:
    assert list(structural.problems(schema, value))


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object", "title": "A"},
        {"type": "string", "default": "a"},
        {"type": "string", "enum": ["a"], "nullable": True},
        {"type": "object", "properties": {}, "additionalProperties": {"type": "string"}},
        {"type": "object", "properties": {"a": {}}},
        {"type": "object", "required": ["a"]},
        {"type": "array"},
    ],
)
def test_the_rules_of_kubernetes_find_bad_schemas(schema: dict[str, Any]) -> None:
    assert list(structural.faults(schema))


def test_what_would_be_dropped_is_seen() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "object", "properties": {}}}}
    assert list(structural.pruned(schema, {"a": {"b": 1}, "c": 2})) == [".a.b", ".c"]
