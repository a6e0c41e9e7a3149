"""/openapi/v3: the index, its addresses, and what may be kept."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest

from mizzen.server.kubernetes import discovery, openapi_v3
from tests.support.server.harness import serving
from tools.derived import kubernetes_openapi

INDEX = openapi_v3.ROOT


def test_there_is_a_document_for_all_that_is_discovered(shared_admin: httpx2.Client) -> None:
    paths = shared_admin.get(INDEX).json()["paths"]
    assert set(paths) == {"api/v1", *(f"apis/{version}" for version in discovery.GROUPS)}


def test_each_is_served_as_it_was_made(shared_admin: httpx2.Client) -> None:
    for name, at in shared_admin.get(INDEX).json()["paths"].items():
        answer = shared_admin.get(at["serverRelativeURL"])
        assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
        assert answer.json() == kubernetes_openapi.document(f"/{name}")


def test_what_the_index_names_may_be_kept_for_ever(shared_admin: httpx2.Client) -> None:
    index = shared_admin.get(INDEX)
    assert index.headers["cache-control"] == "no-cache"
    address = index.json()["paths"]["api/v1"]["serverRelativeURL"]
    kept = shared_admin.get(address)
    assert "immutable" in kept.headers["cache-control"]
    assert "private" in kept.headers["cache-control"]
    assert kept.headers["etag"].strip('"') in address


@pytest.mark.parametrize("query", ["", "?hash=old"])
def test_what_it_does_not_name_is_asked_for_again(shared_admin: httpx2.Client, query: str) -> None:
    answer = shared_admin.get(f"{INDEX}/api/v1{query}")
    assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-cache")
    tag = answer.headers["etag"]
    again = shared_admin.get(f"{INDEX}/api/v1{query}", headers={"If-None-Match": f'"other", W/{tag}'})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    assert shared_admin.get(f"{INDEX}/api/v1", headers={"If-None-Match": '"other"'}).status_code == 200


def test_a_group_that_is_not_there_has_none(shared_admin: httpx2.Client) -> None:
    assert shared_admin.get(f"{INDEX}/apis/apps/v1").status_code == 404


def test_there_is_an_old_document_with_nothing_in_it(shared_admin: httpx2.Client) -> None:
    """As kubectl asks for it: the bytes are a message whose first field is the text 2.0."""
    assert shared_admin.get(openapi_v3.V2_PATH).json()["swagger"] == "2.0"
    answer = shared_admin.get(
        openapi_v3.V2_PATH, headers={"Accept": f"application/com.github.{openapi_v3.V2_PROTOBUF_ACCEPT}"}
    )
    assert (answer.headers["content-type"], answer.content) == (openapi_v3.V2_PROTOBUF, b"\x0a\x032.0")


def test_strangers_are_shown_nothing(tmp_path: Path) -> None:
    with serving(tmp_path, anonymous=False) as harness, harness.client(token=None) as client:
        assert client.get(INDEX).status_code == 401
        assert client.get(openapi_v3.V2_PATH).status_code == 401
        assert client.get(f"{INDEX}/api/v1").status_code == 401
