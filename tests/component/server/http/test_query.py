"""Query strings: numbers of any length, and how large a page may be."""

from __future__ import annotations

import httpx2
import pytest
from starlette.requests import Request

from mizzen.errors import BadRequest
from mizzen.server.http.query import MOST_ON_A_PAGE, Query
from tests.support.server.harness import HERE, ROOT


def query(text: str) -> Query:
    return Query(Request({"type": "http", "query_string": text.encode(), "headers": []}), "tail", "limit")


@pytest.mark.parametrize("digits", ["0" * 5000, "9" * 5000, "0" * 4999 + "1", "1e3", "²", "-1", "+1", " 1"])
def test_what_is_no_number_is_refused_and_not_told_in_full(digits: str) -> None:
    with pytest.raises(BadRequest, match="must be a number") as caught:
        query(f"tail={digits}").number("tail")
    assert len(caught.value.message) < 120


@pytest.mark.parametrize(("text", "number"), [("", None), ("0", 0), ("007", 7), ("1000000", 1_000_000)])
def test_numbers_are_read(text: str, number: int | None) -> None:
    assert query(f"tail={text}").number("tail") == number


@pytest.mark.parametrize(("text", "size"), [("", 20), ("1", 1), ("5000", 5000), ("5001", MOST_ON_A_PAGE)])
def test_a_page_has_a_largest_size(text: str, size: int) -> None:
    assert query(f"limit={text}").limit(20) == size


@pytest.mark.parametrize(
    "path",
    [
        f"{HERE}/models?watch=1&timeoutSeconds=1&resourceVersion=", f"{ROOT}/models?limit=", "/model?limit=",
        f"{HERE}/inferencemodels/iris-1/log?tail=", "/model/iris/version?limit=", "/model/iris/history?limit=",
    ],
)  # fmt: skip
def test_a_number_of_any_length_is_answered(admin: httpx2.Client, path: str) -> None:
    admin.post("/model", json={"name": "iris"})
    spec = {"modelName": "iris", "targetVersion": "1", "deployToLayer": "cloud", "frameworkType": "sklearn"}
    server = {"apiVersion": "mizzen.dev/v1alpha1", "kind": "InferenceModel", "metadata": {"name": "iris-1"}}
    assert admin.post(f"{HERE}/inferencemodels", json={**server, "spec": spec}).status_code == 201
    answer = admin.get(f"{path}{'0' * 5000}")
    assert (answer.status_code, answer.json()["reason"]) == (400, "BadRequest"), answer.text


def test_a_token_of_another_listing_says_what_to_do(admin: httpx2.Client) -> None:
    for name in ("a", "b"):
        admin.post("/model", json={"name": name})
    token = admin.get("/model", params={"limit": 1}).json()["metadata"]["continue"]
    answer = admin.get("/model", params={"limit": 1, "continue": token, "labelSelector": "a=b"})
    assert (answer.status_code, bool(answer.json()["details"]["hint"])) == (400, True)
