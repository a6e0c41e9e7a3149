"""Lists and maps have a limit in what people send, and none in what is stored."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Union, get_args, get_origin

import pytest
from pydantic import Field

from mizzen.kinds.application import components, policies, steps, traits
from mizzen.kinds.catalog import BY_NAME, KINDS, check_accepted
from mizzen.kinds.schema import metadata, size_limits
from mizzen.kinds.schema.crd_schema import schema_of
from mizzen.kinds.schema.examine import examine
from mizzen.kinds.schema.findings import Context
from mizzen.kinds.schema.resource import Meta, Part, Resource
from mizzen.kinds.schema.size_limits import MaxItems
from tests.unit.kinds.examined import EVERYTHING, faults

MODULES = (*components.TYPES, *traits.TYPES, *policies.TYPES, *steps.TYPES)
WRITTEN = tuple(kind.spec for kind in KINDS if not kind.internal and not kind.virtual)


class Open(Part):
    open: ClassVar[bool] = True

    name: str


class Sample(Part):
    synonyms: ClassVar[dict[str, str]] = {"cmd": "command"}

    command: Annotated[tuple[str, ...], MaxItems(2)] = Field(min_length=1)
    weights: Annotated[dict[str, int] | None, MaxItems(2)] = None
    free: Annotated[dict[str, Any], MaxItems(4)] = Field(default_factory=dict)
    pods: Annotated[tuple[Open, ...], MaxItems(2)] = ()


@pytest.mark.parametrize("part", [*WRITTEN, *(module.properties for module in MODULES)], ids=lambda part: part.__name__)
def test_every_list_and_map_that_people_write_has_a_limit(part: type[Part]) -> None:
    assert list(_unlimited(part, part.__name__, frozenset())) == []


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ({"command": ["a"] * 3}, "spec.command: has 3 entries; at most 2 are allowed"),
        ({"cmd": ["a"] * 1234}, "spec.command: has 1,234 entries; at most 2 are allowed"),
        ({"command": [1, 2, 3]}, "spec.command: has 3 entries; at most 2 are allowed"),
        ({"command": ["a"], "weights": {"a": 1, "b": 2, "c": 3}}, "spec.weights: has 3 entries; at most 2 are allowed"),
        ({"command": ["a"], "free": {"a": [1, {"b": [2]}]}}, "spec.free: has 5 entries; at most 4 are allowed"),
        ({"command": ["a"], "pods": [{"name": "x"}] * 3}, "spec.pods: has 3 entries; at most 2 are allowed"),
        (
            {"command": ["a"], "pods": [{"name": "x"}, {"name": "y", "volumes": [0] * size_limits.MAX_PASSED_ON}]},
            "spec.pods[1]: passes on 1,001 entries; at most 1,000 are allowed",
        ),
    ],
)
def test_what_is_too_long_is_one_fault(spec: dict[str, Any], fault: str) -> None:
    assert [str(one) for one in examine(Sample, spec, "spec", Context())] == [fault]


def test_the_limit_itself_is_possible() -> None:
    spec = {"command": ["a"] * 2, "weights": {"a": 1, "b": 2}, "free": {"a": [1, 2], "b": 3}, "pods": [{"name": "x"}]}
    assert list(examine(Sample, spec, "spec", Context())) == []


def test_the_rest_is_examined_all_the_same() -> None:
    env = [{"name": f"V{number}", "value": ""} for number in range(300)]
    spec = {"deployToLayer": "cloud", "frameworkType": "sklearn", "env": env, "replicas": -1}
    assert faults("InferenceModel", spec) == {
        "spec.env: has 300 entries; at most 256 are allowed",
        "spec.modelName: required",
        "spec.replicas: must be at least 0, not -1",
    }


def test_lists_within_lists_are_counted_together() -> None:
    tensor = {"name": "x", "datatype": "INT8", "shape": [200_000], "data": [0] * 200_000}
    golden = [{"inputs": [tensor], "outputs": [tensor]}]
    (fault,) = faults("Model", {"checks": {"golden": golden}})
    assert fault.startswith("spec: has 400,0")


def test_a_spec_has_a_limit_in_bytes_too() -> None:
    def found(length: int, *, strict: bool = True) -> list[str]:
        more = length - len('{"command":[""]}')
        spec = {"command": ["ü" * (more // 2) + "x" * (more % 2)]}
        return [str(one) for one in examine(Sample, spec, "spec", Context(), strict=strict)]

    assert found(1_048_576) == []
    assert found(1_048_577) == ["spec: has 1,048,577 bytes as JSON; at most 1,048,576 are allowed"]
    assert found(3_000_000, strict=False) == []  # stored ones are read whatever they hold


def test_properties_of_modules_have_their_limits() -> None:
    properties = {"command": ["a"] * 1001, "image": "a/b:1"}
    spec = {"components": [{"name": "train", "type": "training", "properties": properties}]}
    path = "spec.components[0].properties.command"
    assert faults("Application", spec) == {f"{path}: has 1,001 entries; at most 1,000 are allowed"}


def test_stored_objects_are_read_whatever_they_hold() -> None:
    aliases = {f"a{number}": "1" for number in range(2000)}
    assert faults("Model", {"aliases": aliases}) == {"spec.aliases: has 2,000 entries; at most 1,000 are allowed"}
    stored = Resource("Model", Meta("iris"), {"aliases": aliases})
    assert BY_NAME["Model"].spec.of(stored).wire()["aliases"] == aliases
    condition, _ = check_accepted(stored, EVERYTHING)
    assert condition.true


def test_a_cluster_and_readers_of_the_schema_are_told() -> None:
    assert schema_of(BY_NAME["InferenceModel"].spec)["properties"]["env"]["maxItems"] == 256
    assert schema_of(BY_NAME["Model"].spec)["properties"]["aliases"]["maxProperties"] == 1000
    assert schema_of(BY_NAME["MLGraph"].spec, long=True)["properties"]["dag"]["maxItems"] == 1000


def test_labels_and_annotations_are_counted() -> None:
    many = {f"k{number}": "" for number in range(257)}
    assert [str(fault) for fault in metadata.faults({"labels": many, "annotations": many})] == [
        "metadata.labels: has 257 entries; at most 64 are allowed",
        "metadata.annotations: has 257 entries; at most 256 are allowed",
    ]


def _unlimited(part: type[Part], at: str, above: frozenset[type[Part]]) -> Iterator[str]:
    """Places of lists and maps without a limit."""
    if part not in above:
        for name, info in part.model_fields.items():
            limited = any(isinstance(rule, MaxItems) for rule in info.metadata)
            yield from _places(info.annotation, f"{at}.{name}", limited, above | {part})


def _places(annotation: Any, at: str, limited: bool, above: frozenset[type[Part]]) -> Iterator[str]:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        told = any(isinstance(rule, MaxItems) for rule in arguments[1:])
        yield from _places(arguments[0], at, limited or told, above)
    elif origin in (Union, types.UnionType):
        for argument in arguments:
            yield from _places(argument, at, limited, above)
    elif origin in (tuple, list, dict):
        inner = arguments[1 if origin is dict else 0]
        if not limited:
            yield at
        # What is untyped is counted with what it is in.
        yield from _places(inner, f"{at}[]", get_args(inner)[-1:] == (Any,), above)
    elif isinstance(annotation, type) and issubclass(annotation, Part):
        yield from _unlimited(annotation, at, above)
