"""The parts of uvicorn and httptools that `front`, `line` and `serve` of the gateway lean on without being promised.

When a new uvicorn breaks one of these, this file says which, before anything subtle happens to a request.
"""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import httptools
import pytest
import uvicorn
from uvicorn.protocols.http import httptools_impl
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import Server, ServerState


def test_the_version_is_the_pinned_one() -> None:
    assert uvicorn.__version__.startswith("0.54.")


@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        ("__init__", ["self", "config", "server_state", "app_state", "_loop"]),
        ("connection_lost", ["self", "exc"]),
        ("data_received", ["self", "data"]),
        ("on_message_begin", ["self"]),
        ("on_url", ["self", "url"]),
        ("on_header", ["self", "name", "value"]),
        ("on_headers_complete", ["self"]),
        ("on_body", ["self", "body"]),
        ("on_message_complete", ["self"]),
        ("on_response_complete", ["self"]),
        ("_start_asgi_task", ["self", "cycle", "app"]),
        ("shutdown", ["self"]),
        ("pause_writing", ["self"]),
        ("resume_writing", ["self"]),
    ],
)
def test_the_methods_we_replace_or_call(method: str, parameters: list[str]) -> None:
    assert list(inspect.signature(getattr(HttpToolsProtocol, method)).parameters) == parameters


def test_we_replace_no_more_than_we_know_of() -> None:
    """A method that is new in uvicorn may be a duty that we do not fulfil."""
    own = {name for name, value in vars(HttpToolsProtocol).items() if inspect.isfunction(value)}
    assert own == {
        "__init__", "connection_made", "connection_lost", "eof_received", "_unset_keepalive_if_required",
        "_get_upgrade", "_should_upgrade_to_ws", "_unsupported_upgrade_warning", "_should_upgrade", "data_received",
        "handle_websocket_upgrade", "send_400_response", "on_message_begin", "on_url", "on_header",
        "on_headers_complete", "_start_asgi_task", "on_body", "on_message_complete", "on_response_complete",
        "shutdown", "pause_writing", "resume_writing", "timeout_keep_alive_handler",
    }  # fmt: skip


async def _app(scope: Any, receive: Any, send: Any) -> None:
    raise AssertionError("never called")


def test_the_state_we_read_and_write() -> None:
    async def look() -> None:
        config = uvicorn.Config(_app, interface="asgi3", lifespan="off", ws="none", log_config=None)
        config.load()
        assert config.ws_protocol_class is None
        protocol = HttpToolsProtocol(config, ServerState(), {}, asyncio.get_running_loop())
        for name in ("parser", "headers", "cycle", "flow", "transport", "loop", "server_state", "expect_100_continue"):
            assert hasattr(protocol, name), name

    asyncio.run(look())


def test_a_cycle_has_what_we_set() -> None:
    source = inspect.getsource(RequestResponseCycle.__init__)
    for name in ("disconnected", "message_event", "keep_alive", "response_complete", "response_started"):
        assert f"self.{name}" in source
    assert "self.on_response()" in inspect.getsource(RequestResponseCycle.send)


def test_a_request_starts_by_itself_only_when_no_cycle_is_known() -> None:
    """`_pass_on` clears `cycle`, so that every request comes to `_start_asgi_task`."""
    source = inspect.getsource(HttpToolsProtocol.on_headers_complete)
    assert "if existing_cycle is None or existing_cycle.response_complete:" in source
    assert "self._start_asgi_task(self.cycle, app)" in source


def test_flow_control() -> None:
    for name in ("pause_reading", "resume_reading", "pause_writing", "resume_writing"):
        assert callable(getattr(FlowControl, name))
    source = inspect.getsource(FlowControl.__init__)
    assert "self.read_paused" in source
    assert "self.write_paused" in source


def test_status_lines_are_ready_made() -> None:
    assert httptools_impl.STATUS_LINE[200] == b"HTTP/1.1 200 OK\r\n"


def test_the_server() -> None:
    assert list(inspect.signature(Server.on_tick).parameters) == ["self", "counter"]
    assert list(inspect.signature(Server.handle_exit).parameters) == ["self", "sig", "frame"]
    serve = inspect.getsource(Server.serve)
    assert "with self.capture_signals():" in serve
    shutdown = inspect.getsource(Server.shutdown)
    assert "connection.shutdown()" in shutdown
    assert "timeout=self.config.timeout_graceful_shutdown" in shutdown
    assert "while self.server_state.connections" in inspect.getsource(Server._wait_tasks_to_complete)
    tick = inspect.getsource(Server.on_tick)
    assert "self.server_state.default_headers = date_header + self.config.encoded_headers" in tick


def test_the_parser_stops_at_an_upgrade_before_the_body() -> None:
    """`on_message_complete` counts on it: the body of a request that asks for an upgrade is ours to read."""
    seen: list[str] = []

    class Callbacks:
        def on_body(self, body: bytes) -> None:
            seen.append("body")

        def on_message_complete(self) -> None:
            seen.append("complete")

    parser = httptools.HttpRequestParser(Callbacks())
    head = b"POST / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 2\r\n\r\n"
    with pytest.raises(httptools.HttpParserUpgrade) as upgrade:
        parser.feed_data(head + b"{}")
    assert upgrade.value.args[0] == len(head)
    assert seen == ["complete"]
    assert parser.should_upgrade()
