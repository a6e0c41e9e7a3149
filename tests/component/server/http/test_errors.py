"""Every error has one shape."""

from __future__ import annotations

import re
from pathlib import Path

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from mizzen import errors
from mizzen.errors import FAMILY, Fault, Invalid
from mizzen.server.http.errors import STATUS, http_status, status_body
from tests.support.golden import Golden
from tests.support.server.harness import HERE, Harness, serving

pytestmark = pytest.mark.own_plane


def check_shape(response: httpx2.Response, code: int, reason: str) -> None:
    assert response.status_code == code, response.text
    body = response.json()
    assert {name: body[name] for name in ("kind", "apiVersion", "status", "code", "reason")} == {
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
    }  # fmt: skip
    assert body["message"]
    assert set(body["details"]) - {"group", "kind", "name"} == {"causes", "hint"}


def test_every_class_of_the_family_has_a_number() -> None:
    assert set(STATUS) == set(FAMILY.values())


def test_a_subclass_has_the_number_of_its_class() -> None:
    class Special(errors.Conflict):
        pass

    assert http_status(Special("no")) == 409


def test_a_status_tells_every_fault_and_the_hint() -> None:
    body = status_body(Invalid("bad", hint="do this", faults=(Fault("spec.a", "wrong"), Fault("", "odd"))))
    assert body["details"] == {
        "causes": [{"field": "spec.a", "message": "wrong"}, {"field": "", "message": "odd"}],
        "hint": "do this",
    }


@pytest.mark.parametrize(
    ("method", "path", "code", "reason"),
    [
        ("GET", "/nowhere", 404, "NotFound"),
        ("GET", "/model/", 404, "NotFound"),
        ("PATCH", "/model", 405, "MethodNotAllowed"),
        ("GET", "/model/none", 404, "NotFound"),
        ("GET", "/model?limit=x", 400, "BadRequest"),
        ("GET", "/apis/mizzen.dev/v1alpha1/modles", 404, "NotFound"),
    ],
)
def test_the_routers_own_errors_have_the_shape(
    shared_admin: httpx2.Client, method: str, path: str, code: int, reason: str
) -> None:
    check_shape(shared_admin.request(method, path), code, reason)


def test_405_says_what_is_possible(shared_admin: httpx2.Client) -> None:
    answer = shared_admin.patch("/model")
    assert answer.headers["allow"] == "GET, HEAD, POST"


def test_a_plural_nearly_right_is_told(shared_admin: httpx2.Client, golden: Golden) -> None:
    golden.check(shared_admin.get("/apis/mizzen.dev/v1alpha1/modles").json()["details"]["hint"])


def test_an_unexpected_error_is_logged_under_an_id_and_tells_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(_request: Request) -> Response:
        raise ZeroDivisionError("secret detail")

    def add(app: Starlette) -> None:
        app.router.routes.append(Route("/broken", broken))

    with serving(tmp_path, change=add) as plane:
        answer = plane.client().get("/broken")
    check_shape(answer, 500, "InternalError")
    assert "secret" not in answer.text
    found = re.search(r"incident ([0-9a-f]{12})", answer.json()["message"])
    assert found is not None
    assert found[1] in caplog.text
    assert "secret detail" in caplog.text


def test_while_stopping_everything_is_503_with_retry_after(plane: Harness, admin: httpx2.Client) -> None:
    from mizzen.server.app import begin_stop

    plane.loop.call_soon_threadsafe(begin_stop, plane.app)
    while admin.get("/readyz").status_code != 503:
        pass
    for answer in (admin.get("/model"), admin.post("/model", json={"name": "iris"}), admin.get("/readyz")):
        check_shape(answer, 503, "ServiceUnavailable")
        assert answer.headers["retry-after"] == "1"
    assert admin.get("/healthz").status_code == 200


def test_not_ready_yet(plane: Harness, admin: httpx2.Client) -> None:
    assert admin.get("/readyz").json() == {"ready": True}
    plane.not_ready = True
    answer = admin.get("/readyz")
    check_shape(answer, 503, "ServiceUnavailable")
    assert "retry-after" in answer.headers


def missing(client: httpx2.Client, path: str) -> tuple[str, str]:
    answer = client.get(path)
    assert answer.status_code == 404
    return answer.json()["message"], answer.json()["details"]["hint"]


def test_who_misspells_a_name_learns_what_was_meant(iris: httpx2.Client, golden: Golden) -> None:
    no_version = ("model 'iris' has no version 9", "its versions are 1, 2")
    assert missing(iris, "/model/iriss") == ("Model/iriss does not exist", "did you mean 'iris'?")
    assert missing(iris, f"{HERE}/models/irs") == ("Model/irs does not exist", "did you mean 'iris'?")
    golden.check(missing(iris, f"{HERE}/models/other")[1])
    assert missing(iris, "/model/iris/version/9") == no_version
    assert missing(iris, f"{HERE}/modelversions/iris.9") == no_version
    golden.check(missing(iris, "/model/iriss/version/1")[1])


def test_nobody_is_told_of_what_they_may_not_read(tmp_path: Path, golden: Golden) -> None:
    with serving(tmp_path, anonymous=False) as plane:
        plane.client().post("/model", json={"name": "iris"})
        plane.permit("one", "read", subjects=["ann"], model="iriss")
        ann = plane.client(plane.user("ann"))
        nothing = ("Model/iriss does not exist", "'mizzen get models' lists those that exist")
        assert missing(ann, "/model/iriss") == nothing
        assert missing(ann, f"{HERE}/models/iriss") == nothing
        golden.check(missing(plane.client(), "/model/iriss")[1])
