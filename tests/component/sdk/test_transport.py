from __future__ import annotations

import asyncio
import itertools
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from mizzen import errors
from mizzen.sdk.connection.transport import Transport, failure
from mizzen.server.http.errors import status_body
from tests.support.answers import Answers, answering
from tests.support.golden import Golden


@pytest.fixture
def server() -> Iterator[Answers]:
    with answering() as answers:
        yield answers


def ask(
    url: str, work: Callable[[Transport], Coroutine[Any, Any, Any]], *, token: str | None = None, patience: float = 5.0
) -> Any:
    async def session() -> Any:
        transport = Transport(url, token, hint="start it", patience=patience)
        try:
            return await work(transport)
        finally:
            await transport.close()

    return asyncio.run(session())


def get(url: str, path: str, **more: Any) -> Any:
    return ask(url, lambda transport: transport.json("GET", path), **more)


@pytest.mark.parametrize("kind", errors.FAMILY.values())
def test_each_error_of_the_plane_is_raised_as_the_same_class(server: Answers, kind: type[errors.MizzenError]) -> None:
    raised = kind("it went wrong", hint="try this", faults=(errors.Fault("spec.x", "is bad"),))
    server.give["GET", "/x"] = (499, status_body(raised))
    with pytest.raises(errors.MizzenError) as caught:
        get(server.url, "/x")
    assert type(caught.value) is kind
    assert (caught.value.message, caught.value.hint) == ("it went wrong", "try this")
    assert caught.value.faults == raised.faults


@pytest.mark.parametrize(
    ("code", "kind"),
    [(400, errors.BadRequest), (404, errors.NotFound), (500, errors.ModelFailed), (503, errors.Unavailable),
     (504, errors.DeadlineExceeded)],
)  # fmt: skip
def test_errors_of_the_inference_api_are_told_by_their_number(code: int, kind: type[errors.MizzenError]) -> None:
    error = failure(code, b'{"error": "no model \'x\'"}')
    assert type(error) is kind
    assert error.message == "no model 'x'"


def test_what_is_no_status_is_still_an_error(golden: Golden) -> None:
    assert failure(500, b"<html>oops</html>").message == "<html>oops</html>"
    assert type(failure(500, b"")) is errors.MizzenError
    golden.check(failure(500, b"").message)
    assert failure(400, b"[1]").message == "[1]"


def test_the_token_is_sent(server: Answers) -> None:
    server.give["GET", "/x"] = (200, {"ok": True})
    assert get(server.url, "/x", token="secret") == {"ok": True}
    assert server.asked[0].headers["authorization"] == "Bearer secret"


def test_nobody_there_is_unavailable_with_a_hint() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(errors.Unavailable) as caught:
        get(url, "/x", patience=0.0)
    assert url in caught.value.message
    assert caught.value.hint == "start it"


def test_a_connect_is_tried_again_until_somebody_listens() -> None:
    """The address is taken but nobody listens yet: connects are refused."""
    with socket.socket() as late:
        late.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{late.getsockname()[1]}"

        async def work(transport: Transport) -> Any:
            asking = asyncio.create_task(transport.json("POST", "/x", body={}))
            await asyncio.sleep(0.2)
            assert not asking.done()
            late.listen()
            late.setblocking(False)
            connection, _ = await asyncio.get_running_loop().sock_accept(late)
            with connection:
                await asyncio.get_running_loop().sock_recv(connection, 65536)
                await asyncio.get_running_loop().sock_sendall(
                    connection, b'HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\n{"up":true}'
                )
                return await asking

        assert ask(url, work, patience=20.0) == {"up": True}


def test_only_reads_are_asked_twice(server: Answers) -> None:
    turns = itertools.count()

    def flaky(_asked: Any) -> tuple[int, Any]:
        return (0, None) if next(turns) == 0 else (200, {})

    server.give["GET", "/x"] = flaky
    assert get(server.url, "/x") == {}
    assert len(server.asked) == 2

    turns = itertools.count()
    server.asked.clear()
    server.give["POST", "/x"] = flaky
    with pytest.raises(errors.Unavailable, match="closed the connection"):
        ask(server.url, lambda transport: transport.json("POST", "/x", body={}))
    assert len(server.asked) == 1


def test_what_is_no_plane_is_said(server: Answers) -> None:
    server.give["GET", "/x"] = (200, b"<html>")
    with pytest.raises(errors.MizzenError, match="did not return a JSON object"):
        get(server.url, "/x")
    with pytest.raises(errors.BadRequest, match="not a valid address"):
        get("http://[bad", "/x")


def test_what_the_http_library_says_never_shows_the_token() -> None:
    """The one who answers is not HTTP server, and repeats what it was sent."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def repeat() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(connection.recv(65536).partition(b"authorization")[2])

        thread = threading.Thread(target=repeat)
        thread.start()
        with pytest.raises(errors.Unavailable) as caught:
            get(f"http://127.0.0.1:{listener.getsockname()[1]}", "/x", token="my-secret", patience=0.0)
        thread.join()
    assert "not HTTP" in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("token", ["my\nsecret", "my\rsecret", "my\x00secret", "my\x7fsecret", "mysécret"])
def test_a_token_that_no_header_can_carry_is_refused_unseen(token: str) -> None:
    with pytest.raises(errors.BadRequest, match="the token contains a") as caught:
        Transport("http://127.0.0.1:1", token)
    shown = f"{caught.value!r} {caught.value.hint}"
    assert "cret" not in shown.replace("'mizzen token create'", "")


def test_the_answer_of_the_inference_api_is_not_taken_for_the_control_apis(server: Answers) -> None:
    async def ask_control() -> None:
        transport = Transport(server.url, None, control=True)
        try:
            await transport.json("GET", "/apis")
        finally:
            await transport.close()

    with pytest.raises(errors.BadRequest, match="is the inference API of a plane"):
        asyncio.run(ask_control())
    server.give["GET", "/apis"] = (404, status_body(errors.NotFound("no such path")))
    with pytest.raises(errors.NotFound, match="no such path"):
        asyncio.run(ask_control())
