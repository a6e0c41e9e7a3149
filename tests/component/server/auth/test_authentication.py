"""Who may come in: tokens, Host and Origin, and a decision behind every answer."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mizzen.errors import MizzenError
from mizzen.server.auth.authorization import PUBLIC
from mizzen.server.auth.tokens import AdminToken
from tests.support.server.harness import HERE, TOKEN, Client, Harness, serving

pytestmark = pytest.mark.own_plane


class Examples(dict[str, str]):
    """What stands for the parameters of a path."""

    def __missing__(self, name: str) -> str:
        return {"namespace": "default", "plural": "inferencemodels", "version": "1"}.get(name, "x")


def every_call(plane: Harness) -> Iterator[tuple[str, str]]:
    for route in plane.app.routes:
        assert isinstance(route, Route), "mounted apps would need a walk of their own"
        for method in sorted(route.methods or ()):
            yield method, route.path_format.format_map(Examples())


def refusals_of(plane: Harness) -> int:
    return sum(entry.count for entry in plane.audited(allowed=False))


@pytest.mark.parametrize(("loopback", "anonymous"), [(False, True), (True, False), (True, True)])
@pytest.mark.parametrize("who", ["nobody", "a user without rights"])
def test_no_route_but_the_public_ones_answers_without_a_decision(
    tmp_path: Path, loopback: bool, anonymous: bool, who: str
) -> None:
    with serving(tmp_path, loopback=loopback, anonymous=anonymous, change=note_decisions) as plane:
        client = plane.client(token=None if who == "nobody" else plane.user("ann"))
        calls = list(every_call(plane))
        assert len(calls) > 30
        for method, path in calls:
            before = refusals_of(plane)
            answer = client.request(method, path)
            decided = answer.headers.get("decided", "")
            if answer.status_code < 400:
                assert decided == "allowed" or path in PUBLIC, (method, path)
            if answer.status_code in (401, 403):
                assert refusals_of(plane) == before + 1, (method, path)
            if not (loopback and anonymous):
                # Nobody has rights here: so each route refuses before it says anything else.
                own = (path == "/whoami" or "/selfsubject" in path) and who != "nobody"
                expected = {401} if who == "nobody" else {403}
                assert path in PUBLIC or own or {answer.status_code} == expected, (method, path, answer.text)


def note_decisions(app: Starlette) -> None:
    """Innermost, so that it sees what the route decided."""

    class Noted:
        def __init__(self, app: ASGIApp) -> None:
            self.app = app

        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            async def noting(message: Message) -> None:
                if message["type"] == "http.response.start":
                    good = [decision for decision in scope["state"]["decisions"] if decision.verdict.allowed]
                    MutableHeaders(scope=message)["decided"] = "allowed" if good else "no"
                await send(message)

            await self.app(scope, receive, noting)

    app.user_middleware.append(Middleware(Noted))


def test_a_route_that_forgets_to_ask_answers_nobody(tmp_path: Path) -> None:
    async def careless(_request: Request) -> Response:
        return PlainTextResponse("the secret")

    def add(app: Starlette) -> None:
        app.router.routes.append(Route("/careless", careless))

    with serving(tmp_path, change=add) as plane:
        answer = plane.client().get("/careless")
    assert answer.status_code == 500
    assert "secret" not in answer.text


def test_anonymous_may_read_on_loopback_but_not_write_nor_see_logs(plane: Harness) -> None:
    plane.client().post("/model", json={"name": "iris"})
    anonymous = plane.client(token=None)
    assert anonymous.get("/model/iris").status_code == 200
    assert anonymous.get(f"{HERE}/models").status_code == 200
    for answer in (
        anonymous.post("/model", json={"name": "other"}),
        anonymous.delete("/model/iris"),
        anonymous.post("/model/iris/version", json={"path": "/etc/hostname"}),
        anonymous.delete(f"{HERE}/models/iris"),
        anonymous.get(f"{HERE}/inferencemodels/iris-1/log"),
    ):
        assert answer.status_code == 401
        assert answer.json()["reason"] == "Unauthorized"
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert "token" in answer.json()["message"]


@pytest.mark.parametrize(
    "header",
    ["Bearer wrong", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", "Bearer", f"Basic {TOKEN}", TOKEN, ""],
)
def test_a_wrong_token_is_refused_also_where_none_is_needed(shared_plane: Harness, header: str) -> None:
    client = shared_plane.client(token=None, authorization=header)
    assert client.get("/model").status_code == 401
    assert client.get("/healthz").status_code == 401


def test_two_tokens_are_none(shared_plane: Harness) -> None:
    headers = [("authorization", f"Bearer {TOKEN}"), ("authorization", f"Bearer {TOKEN}")]
    assert httpx2.get(shared_plane.url + "/model", headers=headers, trust_env=False, verify=False).status_code == 401


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8470", "127.0.0.1.evil.example", "0.0.0.0", "", "localhost:x"]
)
def test_a_foreign_host_is_refused(shared_plane: Harness, host: str) -> None:
    answer = shared_plane.client().get("/model", headers={"host": host})
    assert answer.status_code == 403
    assert answer.json()["reason"] == "Forbidden"


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:9", "127.0.0.1:1234", "[::1]", "[::1]:8470"])
def test_loopback_hosts_are_taken_with_any_port(shared_plane: Harness, host: str) -> None:
    assert shared_plane.client().get("/model", headers={"host": host}).status_code == 200


def test_an_origin_must_be_our_own(plane: Harness) -> None:
    client = plane.client()
    assert client.get("/model", headers={"origin": plane.url}).status_code == 200
    for origin in ("http://evil.example", "null", "http://localhost:1", plane.url.replace("http:", "https:"), ""):
        answer = client.post("/model", json={"name": "iris"}, headers={"origin": origin})
        assert answer.status_code == 403, origin
    assert client.get("/model/iris").status_code == 404


def test_a_token_is_made_once_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "admin-token"
    token = AdminToken.load_or_create(path)
    assert len(token) >= 43
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert AdminToken.load_or_create(path) == token
    assert [file.name for file in tmp_path.iterdir()] == ["admin-token"]
    assert token not in repr(token)
    assert token.matches(str(token))
    assert not token.matches("")
    assert not token.matches(token + "\n")


def test_creators_at_the_same_time_get_the_same_token(tmp_path: Path) -> None:
    found: list[str] = []
    threads = [
        threading.Thread(target=lambda: found.append(AdminToken.load_or_create(tmp_path / "admin-token")))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o620])
def test_a_token_that_others_can_reach_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "admin-token"
    AdminToken.load_or_create(path)
    os.chmod(path, mode)
    with pytest.raises(MizzenError, match="others") as caught:
        AdminToken.load_or_create(path)
    assert "chmod 600" in caught.value.hint


def test_an_empty_token_file_lets_nobody_in(tmp_path: Path) -> None:
    path = tmp_path / "admin-token"
    path.touch(0o600)
    with pytest.raises(MizzenError, match="does not contain a token"):
        AdminToken.load_or_create(path)


@pytest.mark.parametrize("header", ["Impersonate-User", "impersonate-group", "Impersonate-Extra-scopes"])
def test_nobody_acts_as_somebody_else(plane: Harness, admin: Client, header: str) -> None:
    """Who tries with fewer rights must not do it with their own."""
    for method, path in (("GET", "/whoami"), ("GET", "/healthz"), ("DELETE", f"{HERE}/models/iris")):
        answer = admin.request(method, path, headers={header: "reader"})
        assert (answer.status_code, answer.json()["reason"]) == (403, "Forbidden")
        assert "impersonation is not supported" in answer.json()["message"]
    entry = plane.audited(actor="admin", allowed=False)[0]
    assert (entry.method, entry.path, entry.code) == ("DELETE", admin.path(f"{HERE}/models/iris"), 403)
    assert "impersonation" in entry.reason
