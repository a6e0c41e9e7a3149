"""Definitions of kinds: each kind has one, the same as a cluster is given."""

from __future__ import annotations

from pathlib import Path

import httpx2
import yaml

from mizzen.kinds.catalog import KINDS
from mizzen.server.door import definitions
from tests.unit.server.harness import serving

GIVEN = Path(__file__).resolve().parents[4] / "deploy" / "crds"


def test_every_kind_has_the_one_that_a_cluster_is_given(shared_admin: httpx2.Client) -> None:
    found = shared_admin.get(definitions.ROOT, params={"limit": "500"}).json()
    assert (found["kind"], found["apiVersion"]) == ("CustomResourceDefinitionList", "apiextensions.k8s.io/v1")
    by_plural = {item["spec"]["names"]["plural"]: item for item in found["items"]}
    assert set(by_plural) == {kind.plural for kind in KINDS}
    for plural, item in by_plural.items():
        assert {**yaml.safe_load((GIVEN / f"{plural}.yaml").read_text()), "status": item["status"]} == item
        assert item["status"]["conditions"][0]["type"] == "Established"
        assert shared_admin.get(f"{definitions.ROOT}/{plural}.mizzen.dev").json() == item


def test_they_are_only_read(shared_admin: httpx2.Client) -> None:
    one = f"{definitions.ROOT}/models.mizzen.dev"
    assert {shared_admin.request(method, one).status_code for method in ("PUT", "PATCH", "DELETE")} == {405}
    missing = shared_admin.get(f"{definitions.ROOT}/pods")
    assert (missing.status_code, missing.json()["reason"]) == (404, "NotFound")
    assert shared_admin.get(definitions.ROOT, params={"watch": "true"}).status_code == 400


def test_strangers_are_shown_nothing(tmp_path: Path) -> None:
    with serving(tmp_path, anonymous=False) as harness, harness.client(token=None) as client:
        assert client.get(definitions.ROOT).status_code == 401
        assert client.get(f"{definitions.ROOT}/models.mizzen.dev").status_code == 401


def test_a_limit_must_be_one(shared_admin: httpx2.Client) -> None:
    assert shared_admin.get(definitions.ROOT, params={"limit": 500}).status_code == 200
    assert shared_admin.get(definitions.ROOT, params={"limit": -1}).status_code == 400
