"""Callers who leave while the plane gathers the files of a version: the work ends, and nothing is registered."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from tests.support.server.harness import TOKEN, Harness

pytestmark = pytest.mark.own_plane


@pytest.fixture
def iris(admin: httpx2.Client) -> httpx2.Client:
    assert admin.post("/model", json={"name": "iris"}).status_code == 201
    return admin


@contextmanager
def asked(plane: Harness, body: dict[str, Any]) -> Iterator[socket.socket]:
    """The connection of somebody who asks for a version and waits; at the end they are gone."""
    at = urlsplit(plane.url)
    data = json.dumps(body).encode()
    head = (
        f"POST /model/iris/version HTTP/1.1\r\nhost: {at.netloc}\r\nauthorization: Bearer {TOKEN}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n"
    )
    with socket.create_connection((str(at.hostname), int(at.port or 0))) as connection:
        connection.sendall(head.encode() + data)
        yield connection


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def nothing_is_left(plane: Harness, iris: httpx2.Client) -> None:
    until(lambda: not list((plane.folder / "blobs" / "incoming").iterdir()))
    assert iris.get("/model/iris/version").json()["items"] == []
    assert "highestVersion" not in iris.get("/model/iris").json()["status"]


def test_a_copy_ends(plane: Harness, iris: httpx2.Client, tmp_path: Path) -> None:
    pipe = tmp_path / "endless"
    os.mkfifo(pipe)
    with asked(plane, {"downloadURL": pipe.as_uri(), "sha256sum": "0" * 64}):
        writing = os.open(pipe, os.O_WRONLY)  # returns when the plane reads
        os.write(writing, bytes(1000))
    try:
        until(lambda: _is_broken(writing))
    finally:
        os.close(writing)
    nothing_is_left(plane, iris)


def _is_broken(pipe: int) -> bool:
    try:
        os.write(pipe, bytes(1000))
    except BrokenPipeError:
        return True
    return False


def test_a_download_ends(plane: Harness, iris: httpx2.Client) -> None:
    with socket.create_server(("127.0.0.1", 0)) as site:
        site.settimeout(60)
        url = f"http://127.0.0.1:{site.getsockname()[1]}/x.tgz"
        with asked(plane, {"downloadURL": url, "sha256sum": "0" * 64}):
            download, _ = site.accept()
            download.settimeout(60)
            assert download.recv(65536).startswith(b"GET /x.tgz")
            download.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n" + bytes(10))
        with download:
            assert download.recv(1) == b"", "the plane has hung up"
    nothing_is_left(plane, iris)


def test_git_ends(plane: Harness, iris: httpx2.Client) -> None:
    with socket.create_server(("127.0.0.1", 0)) as site:
        site.settimeout(60)
        repo = f"http://127.0.0.1:{site.getsockname()[1]}/x.git"
        with asked(plane, {"git": {"repo": repo}, "framework": "sklearn"}):
            fetch, _ = site.accept()
            fetch.settimeout(60)
            assert fetch.recv(65536).startswith(b"GET /x.git")
        with fetch:
            assert fetch.recv(1) == b"", "git was ended"
    nothing_is_left(plane, iris)


def test_who_stays_gets_a_version(plane: Harness, iris: httpx2.Client) -> None:
    with asked(plane, {"path": plane.file("m.joblib")}) as connection:
        connection.settimeout(60)
        assert connection.recv(65536).startswith(b"HTTP/1.1 201")
    assert len(iris.get("/model/iris/version").json()["items"]) == 1
