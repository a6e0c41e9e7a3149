"""Limits are set by admins, read by those whose they are, and told to gateways before they are acknowledged."""

from __future__ import annotations

from typing import Any

import pytest

from mizzen.access.limits import Limit
from tests.support.server.harness import Harness


def test_admins_set_and_take_away_and_everybody_reads_their_own(shared_plane: Harness) -> None:
    admin, ann = shared_plane.client(), shared_plane.client(shared_plane.user("ann"))
    made = admin.put("/limit/ann", json={"perSecond": 2.5, "perDay": 100})
    assert made.status_code == 200
    assert made.json() | {"updated": ""} == {
        "subject": "ann", "perSecond": 2.5, "burst": 2, "perDay": 100, "perMonth": None, "used": {},
        "updated": "", "updatedBy": "admin",
    }  # fmt: skip
    assert "warning" not in made.headers
    assert ann.get("/limit/ann").json() == made.json()
    for method, path in (("GET", "/limit"), ("GET", "/limit/bob"), ("PUT", "/limit/ann"), ("DELETE", "/limit/ann")):
        assert ann.request(method, path).status_code == 403, (method, path)
    assert admin.put("/limit/ann", json={"perMonth": 7}).json()["perDay"] is None, "what is given is all of it"
    assert [item["subject"] for item in admin.get("/limit").json()["items"]] == ["ann"]
    assert admin.delete("/limit/ann").status_code == 200
    assert [admin.request(method, "/limit/ann").status_code for method in ("GET", "DELETE")] == [404, 404]


@pytest.mark.parametrize("subject", ["*", "anonymous", "group:team", "oidc:auth0|ann", "nobody-yet"])
def test_whom_a_limit_may_be_for(shared_plane: Harness, subject: str) -> None:
    admin = shared_plane.client()
    path = f"/limit/{subject}"
    answer = admin.put(path, json={"perSecond": 1})
    assert answer.status_code == 200
    assert ("warning" in answer.headers) is (subject == "nobody-yet")
    assert admin.get(path).json()["subject"] == subject
    assert admin.delete(path).status_code == 200


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "the limit is empty"),
        ({"perSecond": 0}, "perSecond"),
        ({"perSecond": -1}, "perSecond"),
        ({"perSecond": "fast"}, "perSecond"),
        ({"perDay": 1.5}, "perDay"),
        ({"perDay": True}, "perDay"),
        ({"burst": 3}, "needs perSecond"),
        ({"perWeek": 3}, "perWeek"),
    ],
)
def test_what_is_no_limit_is_told_field_by_field(shared_plane: Harness, body: dict[str, Any], field: str) -> None:
    answer = shared_plane.client().put("/limit/ann", json=body)
    assert (answer.status_code, field in answer.text) == (422, True)
    assert shared_plane.client().put("/limit/a,b", json={"perDay": 1}).status_code == 422


def test_a_limit_means_what_it_says() -> None:
    assert Limit(subject="x", per_second=0.1).burst_size == 1
    assert Limit(subject="x", per_second=9.6).burst_size == 10
