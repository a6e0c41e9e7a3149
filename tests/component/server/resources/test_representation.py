"""Over HTTP: lists, single objects and watches as Tables, for those who ask for them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests.component.server.resources.test_routes import model
from tests.support.server.harness import HERE, Harness

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
KUBECTL = {"accept": f"{TABLE},application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"}
MODELS = f"{HERE}/models"


@pytest.fixture
def reader(plane: Harness, admin: httpx2.Client) -> httpx2.Client:
    for name in ("a", "b", "c"):
        admin.post(MODELS, json=model(name))
    return plane.client(**KUBECTL)


def names(table: dict[str, Any]) -> list[str]:
    return [row["cells"][0] for row in table["rows"]]


def test_a_list_is_a_table_page_by_page(reader: httpx2.Client) -> None:
    first = reader.get(MODELS, params={"limit": 2})
    assert first.headers["content-type"] == "application/json"
    assert (first.json()["kind"], names(first.json())) == ("Table", ["a", "b"])
    metadata = first.json()["metadata"]
    assert metadata["resourceVersion"].isdecimal()
    rest = reader.get(MODELS, params={"limit": 2, "continue": metadata["continue"]}).json()
    assert names(rest) == ["c"]
    assert rest["metadata"]["continue"] == ""


def test_an_object_is_a_table_of_one_row(reader: httpx2.Client) -> None:
    table = reader.get(f"{MODELS}/a").json()
    assert names(table) == ["a"]
    assert table["rows"][0]["object"]["metadata"]["name"] == "a"
    whole = reader.get(f"{MODELS}/a", params={"includeObject": "Object"}).json()
    assert whole["rows"][0]["object"]["kind"] == "Model"


def test_metadata_comes_alone_to_who_wants_no_more(reader: httpx2.Client, admin: httpx2.Client) -> None:
    whole = admin.get(MODELS).json()
    accept = "application/json;as=PartialObjectMetadata{};v=v1;g=meta.k8s.io,application/json"
    listed = reader.get(MODELS, headers={"accept": accept.format("List")}).json()
    assert (listed["kind"], listed["apiVersion"]) == ("PartialObjectMetadataList", "meta.k8s.io/v1")
    assert [item["metadata"] for item in listed["items"]] == [item["metadata"] for item in whole["items"]]
    one = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": whole["items"][0]["metadata"]}
    assert listed["items"][0] == one
    assert reader.get(f"{MODELS}/a", headers={"accept": accept.format("")}).json() == one
    with reader.stream("GET", MODELS, params={"watch": "true"}, headers={"accept": accept.format("")}) as response:
        assert json.loads(next(response.iter_lines())) == {"type": "ADDED", "object": one}


def test_others_get_objects_as_they_are(plane: Harness, reader: httpx2.Client) -> None:
    plain = plane.client(accept="application/json")
    assert plain.get(MODELS).json()["kind"] == "ModelList"
    assert plain.get(f"{MODELS}/a").json()["kind"] == "Model"
    assert reader.get(f"{MODELS}/a", headers={"accept": "*/*"}).json()["kind"] == "Model"


def test_a_watch_is_one_table_for_each_change(reader: httpx2.Client, admin: httpx2.Client) -> None:
    with reader.stream("GET", MODELS, params={"watch": "true", "includeObject": "None"}) as response:
        events: Iterator[dict[str, Any]] = (json.loads(line) for line in response.iter_lines())
        seen = [next(events) for _ in range(3)]
        assert [(event["type"], names(event["object"])) for event in seen] == [
            ("ADDED", ["a"]), ("ADDED", ["b"]), ("ADDED", ["c"]),
        ]  # fmt: skip
        admin.put(f"{MODELS}/a", json=model("a", spec={"framework": "python"}))
        changed = next(events)
        assert (changed["type"], names(changed["object"])) == ("MODIFIED", ["a"])
        heads = [bool(event["object"]["columnDefinitions"]) for event in (*seen, changed)]
        assert heads == [True, False, False, False]
        versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in (*seen, changed)]
        assert versions == sorted(set(versions))


def test_every_watch_names_its_columns(reader: httpx2.Client) -> None:
    for _ in range(2):
        with reader.stream("GET", MODELS, params={"watch": "true"}) as response:
            assert json.loads(next(response.iter_lines()))["object"]["columnDefinitions"]


def test_an_error_is_no_table(reader: httpx2.Client) -> None:
    missing = reader.get(f"{MODELS}/missing")
    assert (missing.status_code, missing.json()["kind"]) == (404, "Status")


@pytest.mark.parametrize("path", [MODELS, f"{MODELS}/a"])
def test_what_stands_beside_a_row_is_one_of_three(reader: httpx2.Client, path: str) -> None:
    answer = reader.get(path, params={"includeObject": "All"})
    assert answer.status_code == 400
    assert "None, Metadata, Object" in answer.json()["message"]
