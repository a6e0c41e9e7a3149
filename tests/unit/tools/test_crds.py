"""deploy/crds: what an API server asks of CRDs beyond their schemas."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from typing import Any

import pytest
import yaml

from mizzen.kinds.catalog import KINDS, Kind
from tests.unit.kinds import structural
from tools.derived import crds

ALL = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
STEP = r"\.[a-zA-Z][a-zA-Z0-9]*"
LIMIT = 2**20
MOST_SELECTABLE = 8


@ALL
def test_the_file_holds_the_crd_and_nothing_else(kind: Kind) -> None:
    text = _pages()[f"deploy/crds/{kind.plural}.yaml"]
    assert _loaded(kind) == crds.without_nothing(crds.crd(kind))
    assert not [event for event in yaml.parse(text, Loader=yaml.CSafeLoader) if getattr(event, "anchor", None)]
    assert len(text.encode()) < LIMIT
    assert "null" not in re.findall(r"^\s*\S+: (\S+)$", text, re.M)


@ALL
def test_the_schema_is_structural(kind: Kind) -> None:
    schema = _version(kind)["schema"]["openAPIV3Schema"]
    assert list(structural.faults(schema)) == []
    assert schema["type"] == "object"
    assert schema["description"] == kind.about
    assert schema["properties"].keys() == {"apiVersion", "kind", "metadata", "spec", "status"}
    assert schema["properties"]["metadata"] == {"type": "object"}


@ALL
def test_columns_point_at_fields(kind: Kind) -> None:
    columns = _version(kind)["additionalPrinterColumns"]
    assert len({column["name"] for column in columns}) == len(columns)
    for column in columns:
        path = column["jsonPath"]
        condition = re.fullmatch(r'\.status\.conditions\[\?\(@\.type=="([A-Za-z]+)"\)\]\.status', path)
        assert condition or re.fullmatch(f"({STEP})+", path), path
        if column["name"] == "Age":
            assert (path, column["type"]) == (".metadata.creationTimestamp", "date")
        elif not condition:
            found = _at(kind, path)
            assert column["type"] == ("integer" if found["type"] == "integer" else "string")


@ALL
def test_selectable_fields_are_plain_texts(kind: Kind) -> None:
    paths = [field["jsonPath"] for field in _version(kind).get("selectableFields", ())]
    assert paths == [f".{path}" for path in kind.indexed]
    assert len(set(paths)) == len(paths) <= MOST_SELECTABLE
    for path in paths:
        assert re.fullmatch(f"({STEP})+", path)
        assert _at(kind, path)["type"] == "string"


def test_servers_can_be_scaled_and_nothing_else() -> None:
    scaled = {kind: _version(kind)["subresources"].get("scale") for kind in KINDS}
    [(kind, scale)] = [(kind, scale) for kind, scale in scaled.items() if scale]
    assert kind.name == "InferenceModel"
    assert all(_at(kind, path)["type"] == "integer" for path in scale.values())


def test_columns_that_need_room_come_last_and_say_so() -> None:
    [server] = [kind for kind in KINDS if kind.name == "InferenceModel"]
    columns = _version(server)["additionalPrinterColumns"]
    assert [column["name"] for column in columns if column.get("priority")] == ["Desired", "Layer", "Restarts"]
    assert columns[-4]["name"] == "Age"


def test_what_people_write_is_in_the_category() -> None:
    for kind in KINDS:
        everyday = ["mizzen", "all"] if kind.everyday else ["mizzen"]
        assert _loaded(kind)["spec"]["names"].get("categories", []) == ([] if kind.internal else everyday)


def test_names_are_taken_once() -> None:
    names = [crds.crd(kind)["spec"]["names"] for kind in KINDS]
    words = [word for name in names for word in {name["plural"], name["singular"], *name["shortNames"]}]
    assert not [word for word, times in Counter(words).items() if times > 1]
    assert all(re.fullmatch(r"[a-z]+", word) for word in words)
    assert len({name["kind"] for name in names} | {name["listKind"] for name in names}) == 2 * len(KINDS)


def test_a_crd_is_called_by_its_plural_and_group() -> None:
    for kind in KINDS:
        assert crds.crd(kind)["metadata"]["name"] == f"{kind.plural}.mizzen.dev"


@cache
def _pages() -> dict[str, str]:
    return crds.pages()


@cache
def _loaded(kind: Kind) -> dict[str, Any]:
    data = yaml.load(_pages()[f"deploy/crds/{kind.plural}.yaml"], Loader=yaml.CSafeLoader)
    assert isinstance(data, dict)
    return data


def _version(kind: Kind) -> dict[str, Any]:
    [version] = _loaded(kind)["spec"]["versions"]
    assert isinstance(version, dict)
    return version


def _at(kind: Kind, path: str) -> dict[str, Any]:
    schema: dict[str, Any] = _version(kind)["schema"]["openAPIV3Schema"]
    for step in path.removeprefix(".").split("."):
        schema = schema["properties"][step]
    return schema
