"""Discovery: every kind of the catalog, by its names, and nothing that cannot be asked for."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import httpx2
import pytest

import mizzen
from mizzen.kinds.catalog import KINDS, Kind
from mizzen.server.kubernetes import discovery
from tests.support.server.harness import ROOT, serving

ALL = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
PATHS = tuple(
    f"{path}{end}"
    for path in ("/api", "/api/v1", "/apis", "/version", *(f"/apis/{version}" for version in discovery.GROUPS))
    for end in ("", "/")  # clients differ in it
)
SEMVER = re.compile(r"v(\d+)\.(\d+)\.(\d+)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?")


def resources(client: httpx2.Client, path: str) -> dict[str, dict[str, Any]]:
    found = client.get(path).json()
    assert (found["kind"], found["apiVersion"]) == ("APIResourceList", "v1")
    return {resource["name"]: resource for resource in found["resources"]}


@ALL
def test_every_kind_is_there_by_all_its_names(shared_admin: httpx2.Client, kind: Kind) -> None:
    found = resources(shared_admin, ROOT)[kind.plural]
    assert (found["kind"], found["singularName"]) == (kind.name, kind.singular)
    assert found["shortNames"] == [kind.short]
    assert found["namespaced"] is True
    everyday = ["mizzen", "all"] if kind.everyday else ["mizzen"]
    assert found["categories"] == ([] if kind.internal else everyday)
    assert {"get", "list", "watch"} <= set(found["verbs"])
    for verb in ("create", "deletecollection"):
        assert (verb in found["verbs"]) is not kind.internal
    assert (f"{kind.plural}/status" in resources(shared_admin, ROOT)) is not kind.internal


def test_servers_can_be_scaled(shared_admin: httpx2.Client) -> None:
    scale = resources(shared_admin, ROOT)["inferencemodels/scale"]
    assert (scale["kind"], scale["group"], scale["version"]) == ("Scale", "autoscaling", "v1")
    scaled = [name for name in resources(shared_admin, ROOT) if name.endswith("/scale")]
    assert scaled == ["inferencemodels/scale"]


def test_no_word_means_two_things(shared_admin: httpx2.Client) -> None:
    """kubectl would take the first one."""
    found = resources(shared_admin, ROOT) | resources(shared_admin, "/api/v1")
    kinds = [resource for name, resource in found.items() if "/" not in name]
    words = [word for kind in kinds for word in (kind["name"], kind["singularName"], *kind["shortNames"])]
    assert len(set(words)) == len(words)


def test_the_index_of_groups_leads_to_each_of_them(shared_admin: httpx2.Client) -> None:
    groups = shared_admin.get("/apis").json()["groups"]
    assert [group["name"] for group in groups] == [
        "mizzen.dev", "authorization.k8s.io", "authentication.k8s.io", "apiextensions.k8s.io",
    ]  # fmt: skip
    for group in groups:
        alone = shared_admin.get(f"/apis/{group['name']}").json()
        assert alone == {"kind": "APIGroup", "apiVersion": "v1", **group}
        for version in group["versions"]:
            listed = shared_admin.get(f"/apis/{version['groupVersion']}").json()
            assert listed["groupVersion"] == version["groupVersion"]
            assert listed["resources"]


def test_the_core_group_has_namespaces_and_events(shared_admin: httpx2.Client) -> None:
    assert shared_admin.get("/api").json()["versions"] == ["v1"]
    found = resources(shared_admin, "/api/v1")
    assert {name: (kind["kind"], kind["namespaced"]) for name, kind in found.items() if "/" not in name} == {
        "namespaces": ("Namespace", False), "events": ("Event", True),
    }  # fmt: skip


def test_reviews_are_only_sent(shared_admin: httpx2.Client) -> None:
    found = resources(shared_admin, "/apis/authorization.k8s.io/v1")
    found |= resources(shared_admin, "/apis/authentication.k8s.io/v1")
    assert set(found) == {"selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews"}
    assert all((one["verbs"], one["namespaced"]) == (["create"], False) for one in found.values())


def test_the_version_says_whose_ways_these_are_and_who_we_are(shared_admin: httpx2.Client) -> None:
    found = shared_admin.get("/version").json()
    assert found["version"] == mizzen.__version__
    spoken = SEMVER.fullmatch(found["gitVersion"])
    assert spoken is not None
    assert (spoken[1], spoken[2]) == (found["major"], found["minor"])
    assert spoken[5] == f"+mizzen.{mizzen.__version__}"  # after a plus: it makes no other version of it
    assert spoken[4] is None
    assert "/" in found["platform"]


@pytest.mark.parametrize("path", PATHS)
def test_clients_may_say_how_long_they_wait(shared_admin: httpx2.Client, path: str) -> None:
    assert shared_admin.get(path, params={"timeout": "32s"}).status_code == 200


def test_strangers_are_shown_nothing(tmp_path: Path) -> None:
    with serving(tmp_path, anonymous=False) as harness, harness.client(token=None) as client:
        assert {client.get(path).status_code for path in PATHS} == {401}
