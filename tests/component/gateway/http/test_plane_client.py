"""What a gateway asks the plane for: with whose credentials, and what becomes of the answer."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.gateway.harness import Gateway, Runtime, listening, publish, table_of
from tests.support.golden import Golden

LOAD, UNLOAD = "/v2/repository/models/m/load", "/v2/repository/models/m/unload"


class Plane:
    """Says the same to all who ask, and remembers what they asked."""

    def __init__(self, listener: socket.socket) -> None:
        self.answer = b""
        self.asked: list[bytes] = []
        self.meanwhile: Callable[[], None] = lambda: None
        self._listener = listener
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def says(self, code: int, **body: object) -> None:
        text = json.dumps(body).encode()
        self.answer = b"HTTP/1.1 %d Whatever\r\ncontent-length: %d\r\n\r\n%b" % (code, len(text), text)

    def _serve(self) -> None:
        while True:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            with peer:
                self.asked.append(peer.recv(1 << 16))
                self.meanwhile()
                peer.sendall(self.answer)


@pytest.fixture
def plane() -> Iterator[Plane]:
    with listening() as listener:
        yield Plane(listener)
        listener.shutdown(socket.SHUT_RDWR)  # wakes who waits in accept


@pytest.fixture
def gateway(plane: Plane, runtime: Runtime, start_gateway: Callable[..., Gateway], folder: Path) -> Gateway:
    publish(folder / "table.json", table_of(runtime.address))
    gateway = start_gateway(control=plane.url)
    gateway.wait_ready()
    return gateway


def test_the_plane_is_asked_with_the_credentials_of_whoever_asks(gateway: Gateway, plane: Plane) -> None:
    plane.says(200, name="m")
    # anonymous callers may not send a token that is no good, but it is the plane's to say so
    answer = gateway.ask("POST", "/ns/default" + LOAD, b"{}", Authorization="Bearer some-token")
    assert (answer.status, answer.json) == (200, {})
    head = plane.asked[0].decode()
    assert head.startswith("POST /v2/repository/models/m/load?namespace=default HTTP/1.1\r\n")
    assert f"\r\nHost: {plane.url.removeprefix('http://')}\r\n" in head
    assert "\r\nAuthorization: Bearer some-token\r\n" in head
    assert gateway.ask("POST", LOAD).status == 200
    assert "Authorization" not in plane.asked[1].decode()


def test_what_is_done_is_answered_when_this_gateway_has_heard_of_it(
    gateway: Gateway, plane: Plane, folder: Path
) -> None:
    plane.says(200)
    plane.meanwhile = lambda: publish(folder / "table.json", table_of(serial=2))
    assert gateway.ask("POST", UNLOAD, b'{"parameters": {"unload_dependents": false}}').status == 200
    assert gateway.ask("GET", "/v2/models/m/ready").status == 503


@pytest.mark.parametrize("code", [401, 403, 404, 409, 504])
def test_what_the_plane_refuses_is_refused_in_its_words(gateway: Gateway, plane: Plane, code: int) -> None:
    plane.says(code, message="it is so", details={"hint": "do that", "causes": []})
    answer = gateway.ask("POST", LOAD)
    assert (answer.status, answer.error) == (code, "it is so; do that")
    assert answer.headers["mizzen-request-id"]
    assert ("www-authenticate" in answer.headers) == (code == 401)


def test_a_name_that_cannot_be_one_is_a_bad_request(gateway: Gateway, plane: Plane) -> None:
    plane.says(422, message="namespace: 'AAA' is not a name")
    answer = gateway.ask("POST", "/ns/AAA" + LOAD)
    assert (answer.status, answer.error) == (400, "namespace: 'AAA' is not a name")
    asked = len(plane.asked)
    assert gateway.ask("POST", UNLOAD, b'{"parameters": {"unload_dependents": "yes"}}').status == 400
    assert len(plane.asked) == asked


def test_a_plane_that_says_nothing_we_know(gateway: Gateway, plane: Plane, golden: Golden) -> None:
    plane.says(418, other=1)
    golden.check(gateway.ask("POST", LOAD).error)
    for nonsense in (b"", b"SSH-2.0\r\n", b"HTTP/1.1"):
        plane.answer = nonsense
        answer = gateway.ask("POST", LOAD)
        assert answer.status == 503
        assert "the plane does not answer" in answer.error


def test_a_plane_that_is_away(runtime: Runtime, start_gateway: Callable[..., Gateway], folder: Path) -> None:
    with listening() as listener:
        port = listener.getsockname()[1]
    publish(folder / "table.json", table_of(runtime.address))
    gateway = start_gateway(control=f"http://127.0.0.1:{port}")
    gateway.wait_ready()
    answer = gateway.ask("POST", UNLOAD)
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")
    assert gateway.infer([1.0]).status == 200
