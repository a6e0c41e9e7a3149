"""Definitions of kinds: each kind has one, the same as a cluster is given."""

from __future__ import annotations

import json
from pathlib import Path

import httpx2
import pytest
import yaml

from mizzen.kinds.catalog import KINDS
from mizzen.server.kubernetes import crds
from tests.support.server.harness import serving

GIVEN = Path(__file__).resolve().parents[4] / "deploy" / "crds"


def test_every_kind_has_the_one_that_a_cluster_is_given(shared_admin: httpx2.Client) -> None:
    found = shared_admin.get(crds.ROOT, params={"limit": "500"}).json()
    assert (found["kind"], found["apiVersion"]) == ("CustomResourceDefinitionList", "apiextensions.k8s.io/v1")
    by_plural = {item["spec"]["names"]["plural"]: item for item in found["items"]}
    assert set(by_plural) == {kind.plural for kind in KINDS}
    for plural, item in by_plural.items():
        assert {**yaml.safe_load((GIVEN / f"{plural}.yaml").read_text()), "status": item["status"]} == item
        assert item["status"]["conditions"][0]["type"] == "Established"
        assert shared_admin.get(f"{crds.ROOT}/{plural}.mizzen.dev").json() == item


def test_they_are_only_read(shared_admin: httpx2.Client) -> None:
    one = f"{crds.ROOT}/models.mizzen.dev"
    assert {shared_admin.request(method, one).status_code for method in ("PUT", "PATCH", "DELETE")} == {405}
    missing = shared_admin.get(f"{crds.ROOT}/pods")
    assert (missing.status_code, missing.json()["reason"]) == (404, "NotFound")


def test_strangers_are_shown_nothing(tmp_path: Path) -> None:
    with serving(tmp_path, anonymous=False) as harness, harness.client(token=None) as client:
        assert client.get(crds.ROOT).status_code == 401
        assert client.get(f"{crds.ROOT}/models.mizzen.dev").status_code == 401


def test_a_limit_must_be_one(shared_admin: httpx2.Client) -> None:
    assert shared_admin.get(crds.ROOT, params={"limit": 500}).status_code == 200
    assert shared_admin.get(crds.ROOT, params={"limit": -1}).status_code == 400


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ({"fieldSelector": "metadata.name=models.mizzen.dev"}, 1),
        ({"fieldSelector": "metadata.name!=models.mizzen.dev"}, len(KINDS) - 1),
        ({"fieldSelector": "metadata.name=pods"}, 0),
        ({"labelSelector": "applyset.kubernetes.io/is-parent-type=true"}, 0),
        ({"labelSelector": "!applyset.kubernetes.io/is-parent-type"}, len(KINDS)),
    ],
)
def test_they_are_selected(shared_admin: httpx2.Client, query: dict[str, str], count: int) -> None:
    assert len(shared_admin.get(crds.ROOT, params=query).json()["items"]) == count


def test_they_have_no_other_fields_to_be_selected_by(shared_admin: httpx2.Client) -> None:
    answer = shared_admin.get(crds.ROOT, params={"fieldSelector": "spec.group=mizzen.dev"})
    assert (answer.status_code, answer.json()["details"]["hint"]) == (400, "the only valid field is metadata.name")


def test_who_watches_is_told_what_there_is_and_then_nothing(shared_admin: httpx2.Client) -> None:
    def told(**query: str) -> list[tuple[str, str]]:
        params = {"watch": "true", "timeoutSeconds": "1", **query}
        lines = [json.loads(line) for line in shared_admin.get(crds.ROOT, params=params).iter_lines()]
        return [(line["type"], line["object"]["metadata"].get("name", "")) for line in lines]

    one = {"fieldSelector": "metadata.name=models.mizzen.dev"}
    assert told(**one) == [("ADDED", "models.mizzen.dev")]
    assert told(resourceVersion="1") == []
    streaming = {"sendInitialEvents": "true", "allowWatchBookmarks": "true", "resourceVersionMatch": "NotOlderThan"}
    assert told(**one, **streaming) == [("ADDED", "models.mizzen.dev"), ("BOOKMARK", "")]
