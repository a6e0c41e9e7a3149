"""Small things that must be exact on every port: what another origin is, and what malformed requests leave in logs."""

from __future__ import annotations

import contextlib
import resource
import socket
import ssl
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from tests.support import attack, planes

PORTS = ("control_url", "tls_url", "inference_url", "grpc_address")
CODINGS = (
    "gzip", "identity", "chunked, gzip", "gzip, chunked", "chunked, chunked", "xchunked", "", "\x0bchunked",
    "chunked;q=1", "identity, chunked", "deflate", '"chunked"', "chunked,", ",chunked", "trailers",
)  # fmt: skip
BODIES = (b"5\r\nhello\r\n0\r\n\r\n", b"hello", b"0\r\n\r\n", b"zz\r\n", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
TARGETS = ("GET /healthz", "POST /model", "POST /v2/models/x/infer", "POST /v1/models/x:predict", "GET /v2")


@contextlib.contextmanager
def connected(plane: planes.TestPlane, port: str) -> Iterator[tuple[socket.socket, str]]:
    """A connection to one port of the plane, and its Host."""
    url = getattr(plane, port)
    at = urlsplit(url if "//" in url else f"http://{url}")
    with socket.create_connection((str(at.hostname), int(at.port or 0)), timeout=30) as plain:
        if at.scheme != "https":
            yield plain, at.netloc
            return
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with context.wrap_socket(plain) as secured:
            yield secured, at.netloc


def exchange(connection: socket.socket, data: bytes) -> bytes:
    """Sends, and reads until the other side closes."""
    answer = b""
    with contextlib.suppress(OSError):
        connection.sendall(data)
        while chunk := connection.recv(1 << 16):
            answer += chunk
    return answer


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


@pytest.mark.parametrize(
    ("port", "path"),
    [
        ("control_url", "/version"),
        ("tls_url", "/version"),
        ("control_url", "/model/iris/monitor/tool/data"),
        ("inference_url", "/v2/models/iris/infer"),
        ("inference_url", "/v2/health/live"),
        ("inference_url", "/metrics"),
    ],
)
def test_another_port_is_another_origin(plane: planes.TestPlane, port: str, path: str) -> None:
    def ask(origin: str) -> int:
        with connected(plane, port) as (connection, host):
            value = origin.format(host=host)
            head = f"GET {path} HTTP/1.1\r\nHost: {host}\r\nOrigin: {value}\r\nConnection: close\r\n\r\n"
            return status_of(exchange(connection, head.encode()))

    scheme = urlsplit(getattr(plane, port)).scheme
    other = {"http": "https", "https": "http"}[scheme]
    assert ask(f"{scheme}://{{host}}") != 403
    assert ask(f"{scheme.upper()}://{{host}}") != 403
    for origin in (
        f"{scheme}://127.0.0.1:1", f"{scheme}://127.0.0.1", f"{scheme}://localhost:1", f"{other}://{{host}}", "null",
        f"{scheme}://user@{{host}}", f"{scheme}://{{host}}.", f"{scheme}://[::1]:1",
    ):  # fmt: skip
        assert ask(origin) == 403, origin


def test_refused_transfer_codings_leave_no_traceback(plane: planes.TestPlane) -> None:
    pids = {process.pid for process in planes.members(plane.data_dir)}
    for port in PORTS:
        for target in TARGETS:
            for coding in CODINGS:
                for number, body in enumerate(BODIES):
                    length = f"Content-Length: {len(body)}\r\n" if number % 2 else ""
                    with connected(plane, port) as (connection, host):
                        head = f"{target} HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: {coding}\r\n{length}\r\n"
                        with contextlib.suppress(OSError):
                            connection.sendall(head.encode("latin-1") + body)
                            connection.settimeout(0.0)
                            connection.recv(1)
    assert_alive(plane)
    assert "Traceback" not in attack.logs_of(plane.data_dir)
    assert pids <= {process.pid for process in planes.members(plane.data_dir)}


def assert_alive(plane: planes.TestPlane) -> None:
    for port, path in (("control_url", "/healthz"), ("tls_url", "/healthz"), ("inference_url", "/v2/health/live")):
        with connected(plane, port) as (connection, host):
            head = f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
            assert status_of(exchange(connection, head.encode())) == 200


def test_a_plane_without_free_files_recovers_and_says_so_once(plane: planes.TestPlane) -> None:
    """Each process gets few files, all of which one client takes."""
    files = 100
    limited = [plane.pid("plane"), plane.pid("gateway-0")]
    before = {pid: resource.prlimit(pid, resource.RLIMIT_NOFILE) for pid in limited}
    seen = len(attack.logs_of(plane.data_dir))
    try:
        for pid in limited:
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (files, before[pid][1]))
        with contextlib.ExitStack() as stack:
            for _ in range(attack.rounds(2)):
                for port in PORTS:
                    for _ in range(files):
                        with contextlib.suppress(OSError):
                            stack.enter_context(connected(plane, "control_url" if port == "tls_url" else port))
    finally:
        for pid, limits in before.items():
            resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
    planes.wait_until(lambda: _answers(plane), "the plane answers again")
    assert [plane.pid("plane"), plane.pid("gateway-0")] == limited
    said = attack.logs_of(plane.data_dir)[seen:]
    assert len(said.splitlines()) < files, said[-3000:]


def _answers(plane: planes.TestPlane) -> bool:
    try:
        assert_alive(plane)
    except (OSError, AssertionError, IndexError):
        return False
    return True
