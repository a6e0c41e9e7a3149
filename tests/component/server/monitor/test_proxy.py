"""What passes between a browser and a tool: all of what was asked, and nothing of who asked."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tensorboard.summary import Writer

from mizzen.kinds.monitor import MonitorStatus
from mizzen.kinds.schema.resource import Meta, Ref, Resource
from mizzen.runs.paths import events
from mizzen.server.monitor import proxy, tool_key
from mizzen.server.monitor.sessions import COOKIE
from mizzen.showing import gate
from tests.support import planes
from tests.support.server.harness import TOKEN, Harness

pytestmark = pytest.mark.own_plane

AT = "/model/iris/monitor"
TOOL = f"{AT}/tool/"


class Echo(BaseHTTPRequestHandler):
    """A tool that says what it was asked, and some things that no tool should."""

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.path.endswith("/redirect"):
            self.send_response(302)
            self.send_header("Location", f"http://{self.headers['host']}{TOOL}there?a=b")
            self.end_headers()
            return
        if self.path.endswith("/away"):
            self.send_response(302)
            self.send_header("Location", "//evil.example/")
            self.end_headers()
            return
        if self.path.endswith("/breaks"):
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"half")
            return
        said = {"method": self.command, "path": self.path, "headers": dict(self.headers), "body": body.decode()}
        content = json.dumps(said).encode()
        self.send_response(418 if self.path.endswith("/teapot") else 200)
        for name, value in (
            ("Content-Type", "application/json"), ("Content-Length", str(len(content))), ("Set-Cookie", "its=own"),
            ("Access-Control-Allow-Origin", "*"), ("X-Own", "kept"), ("Connection", "x-hop"), ("X-Hop", "1"),
            ("Content-Security-Policy", "default-src 'self'"),
        ):  # fmt: skip
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    do_GET = do_HEAD = do_POST = do_DELETE = _answer  # noqa: N815 - as the library wants them

    def log_message(self, *_: Any) -> None:
        """Nothing is printed."""


@pytest.fixture
def echo() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def iris(plane: Harness, admin: httpx2.Client) -> httpx2.Client:
    (plane.folder / "run").mkdir()
    admin.post("/model", json={"name": "iris"})
    assert admin.post(AT, json={"tool": "tensorboard"}).status_code == 201
    return admin


def answering(plane: Harness, address: str, state: str = "ready") -> None:
    """What controllers report once the tool's process does."""

    async def write() -> None:
        monitor = await plane.store.get(Ref("Monitor", "iris"))
        await plane.store.update_status(monitor.with_status(MonitorStatus(tool="tensorboard")), "system")
        meta = Meta("iris.monitor-1", owners=(monitor.as_owner,))
        spec = {"purpose": "show", "command": ["x"], "readyPath": "/"}
        made = await plane.store.create(Resource("Workload", meta, spec), "system")
        replica = {"index": 0, "state": state, "address": address}
        await plane.store.update_status(replace(made, status={"replicas": [replica]}), "system")

    plane.run(write())


def test_the_tool_hears_what_is_asked_and_not_who_asks(plane: Harness, iris: httpx2.Client, echo: int) -> None:
    answering(plane, f"http://127.0.0.1:{echo}")
    sent = {
        "cookie": f"{COOKIE}=abc; theirs=1", "x-extra": "kept", "x-forwarded-for": "1.2.3.4", "origin": plane.url,
        "referer": f"{plane.url}{AT}/tool/?ticket=abc", "connection": "keep-alive, x-mine", "x-mine": "1",
        "proxy-authorization": "Basic abc",
    }  # fmt: skip
    answer = iris.post(f"{TOOL}a%2Fb/%C3%A9?run=1%2Fx&run=2", content=b"what", headers=sent)
    said = answer.json()
    assert (said["method"], said["path"], said["body"]) == ("POST", f"{TOOL}a%2Fb/%C3%A9?run=1%2Fx&run=2", "what")
    heard = {name.lower(): value for name, value in said["headers"].items()}
    assert heard["host"] == f"127.0.0.1:{echo}"
    assert heard["x-extra"] == "kept"
    assert not heard.keys() & {
        "authorization", "cookie", "referer", "origin", "x-forwarded-for", "x-mine", "proxy-authorization",
    }  # fmt: skip
    assert TOKEN not in answer.text


def test_the_tool_says_nothing_that_would_speak_for_the_whole_plane(
    plane: Harness, iris: httpx2.Client, echo: int
) -> None:
    answering(plane, f"http://127.0.0.1:{echo}")
    answer = iris.get(TOOL)
    assert (answer.status_code, answer.headers["x-own"]) == (200, "kept")
    assert not answer.headers.keys() & {"set-cookie", "access-control-allow-origin", "x-hop"}
    policies = answer.headers.get_list("content-security-policy")
    assert policies[0] == "default-src 'self'"
    assert f"connect-src {plane.url}{TOOL} " in policies[1]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert iris.get(f"{TOOL}teapot").status_code == 418
    assert iris.head(TOOL).headers["content-type"] == "application/json"
    assert iris.delete(TOOL).status_code == 405


def test_the_tool_hears_the_key_of_the_plane_and_none_that_a_client_sends(
    plane: Harness, iris: httpx2.Client, echo: int
) -> None:
    answering(plane, f"http://127.0.0.1:{echo}")
    sent = [("Mizzen-Show-Key", "guessed"), ("mizzen-show-key", "again"), ("Connection", "mizzen-show-key")]
    said = iris.get(TOOL, headers=sent).json()["headers"]
    heard = [value for name, value in said.items() if name.lower() == gate.HEADER.lower()]
    file = plane.folder / "run" / gate.FILE
    assert heard == [file.read_text().strip()]
    assert (len(heard[0]), stat.S_IMODE(file.stat().st_mode)) == (64, 0o600)
    file.unlink()
    assert iris.get(TOOL).json()["headers"][tool_key.HEADER] == file.read_text().strip() != heard[0]


@pytest.mark.parametrize("spoilt", ["", "short", "open"])
def test_a_key_that_others_know_or_guess_is_replaced(tmp_path: Path, spoilt: str) -> None:
    key = tool_key.read_or_create(tmp_path)
    assert tool_key.read_or_create(tmp_path) == key
    file = tmp_path / tool_key.FILE
    if spoilt == "open":
        file.chmod(0o644)
    else:
        file.write_text(spoilt)
    fresh = tool_key.read_or_create(tmp_path)
    assert fresh != key
    assert gate.read_key(file) == fresh.encode(), "what starts tools reads the same"


def test_without_a_folder_for_the_key_it_is_said_what_to_do(plane: Harness, iris: httpx2.Client, echo: int) -> None:
    answering(plane, f"http://127.0.0.1:{echo}")
    (plane.folder / "run").rmdir()
    answer = iris.get(TOOL)
    assert answer.status_code == 503
    assert "cannot read the key of the monitoring tool" in answer.json()["message"]


def test_nothing_is_packed_for_those_who_did_not_ask_for_it(plane: Harness, iris: httpx2.Client, echo: int) -> None:
    answering(plane, f"http://127.0.0.1:{echo}")
    del iris.headers["accept-encoding"]
    for sent, heard in ((None, "identity"), ("br", "br"), ("gzip;q=0.5", "gzip;q=0.5")):
        headers = {"accept-encoding": sent} if sent else {}
        said = iris.get(TOOL, headers=headers).json()["headers"]
        assert [value for name, value in said.items() if name.lower() == "accept-encoding"] == [heard]


def test_redirects_stay_here(plane: Harness, iris: httpx2.Client, echo: int) -> None:
    answering(plane, f"http://127.0.0.1:{echo}")
    assert iris.get(f"{TOOL}redirect").headers["location"] == f"{TOOL}there?a=b"
    assert "location" not in iris.get(f"{TOOL}away").headers
    assert iris.get(TOOL.rstrip("/")).headers["location"] == TOOL


@pytest.mark.parametrize(
    ("location", "onward"),
    [
        ("http://127.0.0.1:7/a", "/a"), ("http://localhost:7/a", "/a"), ("b/c", "b/c"), ("/d", "/d"), ("?e", "?e"),
        ("http://127.0.0.1:8/a", None), ("//evil", None), ("/\\evil", None), ("\\\\evil", None), ("javascript:x", None),
        ("http://127.0.0.1:7@evil/", None), (None, None),
    ],
)  # fmt: skip
def test_where_a_redirect_may_lead(location: str | None, onward: str | None) -> None:
    assert proxy._redirect_location(location, "127.0.0.1:7") == onward


def test_sizes_are_bounded(plane: Harness, iris: httpx2.Client, echo: int, monkeypatch: pytest.MonkeyPatch) -> None:
    answering(plane, f"http://127.0.0.1:{echo}")
    monkeypatch.setattr(proxy, "MAX_REQUEST_BYTES", 1000)
    assert iris.post(TOOL, content=b"x" * 1001).status_code == 413
    assert iris.post(TOOL, content=b"x" * 1000).status_code == 200
    assert iris.get(f"{TOOL}?{'x' * 17_000}").status_code == 400
    monkeypatch.setattr(proxy, "MAX_RESPONSE_BYTES", 10)
    with pytest.raises(httpx2.RemoteProtocolError):
        iris.get(TOOL)


def test_half_an_answer_is_told_as_half(plane: Harness, iris: httpx2.Client, echo: int) -> None:
    answering(plane, f"http://127.0.0.1:{echo}")
    with pytest.raises(httpx2.RemoteProtocolError):
        iris.get(f"{TOOL}breaks")
    assert iris.get(TOOL).status_code == 200


def test_nothing_but_a_process_of_this_machine_is_asked(plane: Harness, iris: httpx2.Client) -> None:
    answering(plane, "http://192.0.2.1:80")
    assert iris.get(TOOL).status_code == 503


def test_what_is_not_ready_is_said_in_words(plane: Harness, iris: httpx2.Client) -> None:
    answer = iris.get(TOOL)
    assert (answer.status_code, answer.json()["message"]) == (503, "the tool is not ready yet: it is starting")
    page = iris.get(TOOL, headers={"accept": "text/html"})
    assert (page.status_code, 'http-equiv="refresh" content="2"' in page.text) == (503, True)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    answering(plane, f"http://127.0.0.1:{port}")
    gone = iris.get(TOOL)
    assert (gone.status_code, gone.json()["message"]) == (503, "the tool did not answer: ConnectError")


@pytest.mark.parametrize("path", ["..%2f..%2fsecret", "%2e%2e/x", "a/%2e%2e/%2e%2e/b"])
def test_paths_lead_nowhere_above(plane: Harness, iris: httpx2.Client, echo: int, path: str) -> None:
    answering(plane, f"http://127.0.0.1:{echo}")
    assert iris.get(f"{TOOL}{path}").status_code == 404


def test_tensorboard_shows_two_versions_through_it(plane: Harness, iris: httpx2.Client) -> None:
    folder = plane.folder / "events" / "default" / "iris"
    for version in ("1", "2"):
        place = events(plane.folder, namespace="default", model="iris", version=version, job=f"iris-{version}-a")
        writer = Writer(str(place))
        for step in range(3):
            writer.add_scalar("loss", 1.0 / (step + 1), step)
        writer.close()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with tensorboard(folder, port, plane.folder / "run"):
        answering(plane, f"http://127.0.0.1:{port}")
        planes.wait_until(lambda: iris.get(TOOL).status_code == 200, "TensorBoard answers")
        assert httpx2.get(f"http://127.0.0.1:{port}{TOOL}", trust_env=False).status_code == 403
        (plane.folder / "run" / gate.FILE).unlink()
        index = iris.get(TOOL)
        assert index.status_code == 200, "a new key counts at once"
        assert "TensorBoard" in index.text or "tb-webapp" in index.text
        runs = planes.wait_until(lambda: iris.get(f"{TOOL}data/runs").json(), "TensorBoard has read")
        assert runs == ["1/iris-1-a", "2/iris-2-a"]
        script = iris.get(f"{TOOL}index.js")
        assert (script.status_code, script.headers["content-type"]) == (200, "text/javascript; charset=utf-8")
        assert script.headers["content-encoding"] == "gzip"
        del iris.headers["accept-encoding"]
        assert "content-encoding" not in iris.get(f"{TOOL}index.js").headers
        assert plane.client(None).get(f"{TOOL}data/runs").status_code == 401


@contextlib.contextmanager
def tensorboard(folder: Path, port: int, run: Path) -> Iterator[None]:
    flags = (f"--logdir={folder}", f"--port={port}", "--host=127.0.0.1", f"--path_prefix={TOOL.rstrip('/')}")
    command = [sys.executable, "-m", "mizzen.showing.tensorboard", *flags, "--reload_interval=1"]
    tool_key.read_or_create(run)
    environ = {**os.environ, "MIZZEN_RUN_DIR": str(run)}
    with subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.kill()
