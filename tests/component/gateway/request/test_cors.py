"""Web pages and the inference API, by the rules that browsers follow (the Fetch standard), done by hand."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.gateway.guarded import permit, ready, table
from tests.support.gateway.harness import LIMITS, Gateway, Response, Runtime, body_of, publish, table_of, until

APP = "https://app.example"
INFER = "/v2/models/m/infer"
_SIMPLE = {"accept", "accept-language", "content-language"}
_ALWAYS_SHOWN = {"cache-control", "content-language", "content-length", "content-type", "expires", "last-modified"}


class Blocked(Exception):
    """What a page gets in place of an answer."""


@dataclass
class Page:
    """A page of this origin, in a browser."""

    origin: str
    gateway: Gateway

    def fetch(self, method: str, path: str, body: bytes = b"", **headers: str) -> Response:
        """The answer with the headers that the page may see; Blocked."""
        words = {name.replace("_", "-").lower() for name in headers}
        if method not in ("GET", "HEAD", "POST") or words - _SIMPLE:
            self._ask_first(method, path, words - _SIMPLE)
        answer = self.gateway.ask(method, path, body, Origin=self.origin, **headers)
        self._allowed(answer)
        shown = _ALWAYS_SHOWN | _words(answer.headers.get("access-control-expose-headers", ""))
        seen = {name: value for name, value in answer.headers.items() if name in shown}
        return Response(answer.status, seen, answer.body)

    def _ask_first(self, method: str, path: str, words: set[str]) -> None:
        wish = {"Access_Control_Request_Method": method, "Access_Control_Request_Headers": ",".join(sorted(words))}
        answer = self.gateway.ask("OPTIONS", path, b"", Origin=self.origin, **wish)
        self._allowed(answer)
        if not 200 <= answer.status < 300:
            raise Blocked(f"preflight: {answer.status}")
        methods = _words(answer.headers.get("access-control-allow-methods", ""))
        if method.lower() not in methods and method not in ("GET", "HEAD", "POST"):
            raise Blocked(f"method {method}")
        if missing := words - _words(answer.headers.get("access-control-allow-headers", "")):
            raise Blocked(f"headers {missing}")

    def _allowed(self, answer: Response) -> None:
        if answer.headers.get("access-control-allow-origin") not in ("*", self.origin):
            raise Blocked(f"origin: {answer.status}")
        if "access-control-allow-credentials" in answer.headers:
            raise AssertionError("nothing here goes by cookies")


@pytest.fixture
def gateway(runtime: Runtime, start_gateway: Callable[..., Gateway], folder: Path) -> Gateway:
    publish(folder / "table.json", table_of(runtime.address))
    gateway = start_gateway(origins=(APP, "http://localhost:3000"))
    gateway.wait_ready()
    return gateway


def test_a_listed_page_predicts_and_reads_the_answer(gateway: Gateway) -> None:
    page = Page(APP, gateway)
    for _ in range(3):  # from the second on by a head that is known
        answer = page.fetch("POST", INFER, body_of([1.0, 2.0]), Content_Type="application/json")
        assert answer.status == 200
        assert answer.json["outputs"][0]["data"] == [3.0]
        assert answer.headers["mizzen-request-id"] == answer.json["id"], "the page may see what it is called"
    assert page.fetch("GET", "/v2/models/m").json["name"] == "m"
    assert page.fetch("POST", INFER, b"{", Content_Type="application/json").status == 400, "errors can be read, too"
    assert page.fetch("GET", "/nothing").status == 404
    with pytest.raises(Blocked, match="headers"):
        page.fetch("POST", INFER, body_of([1.0]), X_Strange="1")


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "https://app.example.evil.example", "http://app.example", "null"]
)
def test_other_pages_neither_predict_nor_read(gateway: Gateway, runtime: Runtime, origin: str) -> None:
    Page(APP, gateway).fetch("POST", INFER, body_of([1.0]))
    before = runtime.items
    page = Page(origin, gateway)
    with pytest.raises(Blocked, match="403"):
        page.fetch("POST", INFER, body_of([1.0]), Content_Type="application/json")
    with pytest.raises(Blocked, match="403"):
        page.fetch("POST", INFER, body_of([1.0]))  # which browsers send without asking first
    assert runtime.items == before, "the model was not asked"


def test_what_differs_by_origin_says_so_to_caches(gateway: Gateway) -> None:
    answer = gateway.infer([1.0], Origin=APP)
    assert (answer.headers["access-control-allow-origin"], answer.headers["vary"]) == (APP, "origin")
    assert "access-control-allow-origin" not in gateway.infer([1.0]).headers, "who is no page is told nothing of it"


def test_all_pages_may_where_a_star_says_so(
    runtime: Runtime, start_gateway: Callable[..., Gateway], folder: Path
) -> None:
    publish(folder / "table.json", table_of(runtime.address))
    gateway = start_gateway(origins=("*",))
    gateway.wait_ready()
    assert Page("https://any.example", gateway).fetch("POST", INFER, body_of([2.0])).status == 200
    assert gateway.infer([1.0], Host="any.example", Origin="https://any.example").status == 403, (
        "Host is another matter"
    )


def test_a_preflight_needs_no_token_and_a_prediction_does(
    folder: Path, runtime: Runtime, start_gateway: Callable[..., Gateway]
) -> None:
    publish(folder / "table.json", table(runtime.address))
    permit(folder)
    gateway = start_gateway(anonymous=False, loopback=False, origins=(APP,))
    until(lambda: ready(gateway, "iris"))
    page = Page(APP, gateway)
    path = "/v2/models/iris/infer"
    assert page.fetch("POST", path, body_of([1.0]), Authorization="Bearer ann-token").status == 200
    for token, code in (("eve-token", 403), ("wrong", 401)):
        refused = page.fetch("POST", path, body_of([1.0]), Authorization=f"Bearer {token}")
        assert (refused.status, "error" in refused.json) == (code, True)
    assert page.fetch("POST", path, body_of([1.0])).status == 401


def test_a_body_that_is_too_large_is_refused_in_words_that_a_page_can_read(gateway: Gateway) -> None:
    answer = Page(APP, gateway).fetch("POST", INFER, bytes(LIMITS.max_body_bytes + 1))
    assert (answer.status, "larger than" in answer.json["error"]) == (413, True)


def _words(listed: str) -> set[str]:
    return {word.lower() for word in re.split(r"\s*,\s*", listed) if word}
