"""Adding versions from a program: named to a plane of this machine, sent to any other, through broken connections."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import httpx2
import pytest

from mizzen import errors
from mizzen.sdk.client import AsyncPlane
from mizzen.sdk.connection.locate import PlaneAddress
from mizzen.sdk.packaging import upload
from tests.component.server.sending import contents, writer
from tests.support.blobs.packing import FILES, tarred
from tests.support.server.harness import TOKEN, Harness, serving

PY: Mapping[str, Any] = {"framework": "python", "entrypoint": "model:predict"}


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[Harness]:
    with serving(tmp_path) as harness:
        assert harness.client().post("/model", json={"name": "iris"}).status_code == 201
        yield harness


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    for name, data in {**FILES, "__pycache__/x.pyc": b"x"}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def token_of(client: httpx2.Client) -> str:
    return client.headers["authorization"].removeprefix("Bearer ")


def add(place: PlaneAddress, source: Any, **more: Any) -> dict[str, Any]:
    async def main() -> dict[str, Any]:
        async with AsyncPlane(place, patience=0.1) as calls:
            return await upload.add_version(calls, "iris", source, **more)

    return asyncio.run(main())


def test_a_folder_is_sent_and_told_of(plane: Harness, code: Path) -> None:
    place = PlaneAddress(plane.url, None, token_of(writer(plane)))
    told: list[tuple[int, int | None]] = []
    version = add(place, code, progress=lambda done, total: told.append((done, total)), labels={"a": "b"}, **PY)
    assert contents(plane, version) == FILES
    assert (version["createdBy"], version["labels"]) == ("ann", {"a": "b"})
    size = sum(map(len, FILES.values()))
    assert told[0] == (0, size)
    assert told[-1] == (size, size)
    told.clear()
    again = add(place, code, version="7", progress=lambda done, total: told.append((done, total)), **PY)
    assert again["version"] == "7"
    assert told == [(0, 0)], "nothing is sent twice"


def test_an_archive_and_a_single_file_are_sent(plane: Harness, tmp_path: Path) -> None:
    place = PlaneAddress(plane.url, None, TOKEN)
    (tmp_path / "code.tgz").write_bytes(tarred(FILES))
    assert contents(plane, add(place, tmp_path / "code.tgz", **PY)) == FILES
    (tmp_path / "m.pkl").write_bytes(b"pickle")
    assert contents(plane, add(place, str(tmp_path / "m.pkl"))) == {"m.pkl": b"pickle"}


def test_a_plane_of_this_machine_reads_by_itself(plane: Harness, code: Path, tmp_path: Path) -> None:
    (tmp_path / "admin-token").write_text(TOKEN)
    version = add(PlaneAddress(plane.url, None, TOKEN, data_dir=tmp_path), code, **PY)
    assert contents(plane, version) == FILES
    assert not (tmp_path / "blobs" / "uploads").exists()


def test_what_is_not_there(plane: Harness, tmp_path: Path) -> None:
    with pytest.raises(errors.NotFound):
        add(PlaneAddress(plane.url, None, TOKEN), tmp_path / "none")


@pytest.mark.parametrize(
    ("text", "git"),
    [
        ("git+https://h/r.git", {"repo": "https://h/r.git"}),
        ("git+https://h/r.git@v1", {"repo": "https://h/r.git", "ref": "v1"}),
        ("git+https://u:p@h/r@feature/x#sub/dir", {"repo": "https://u:p@h/r", "ref": "feature/x", "path": "sub/dir"}),
        ("git+https://u@h/r.git", {"repo": "https://u@h/r.git"}),
        ("git+ssh://git@h/r.git", {"repo": "ssh://git@h/r.git"}),
        ("git+ssh://git@h/r.git@main", {"repo": "ssh://git@h/r.git", "ref": "main"}),
    ],
)  # fmt: skip
def test_git_in_one_word(text: str, git: dict[str, str]) -> None:
    assert upload._parse_git(text) == git


class Breaking:
    """A proxy that breaks its first connections, each after so many bytes from the client."""

    def __init__(self, target: str, after: list[int]) -> None:
        host, port = target.removeprefix("http://").split(":")
        self.target = (host, int(port))
        self.after = after
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.sockets = [self.listener]
        self.threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self.run(self.accept)
        return self

    def __exit__(self, *_: object) -> None:
        end(*self.sockets)
        for thread in self.threads:
            thread.join(60)
        for one in self.sockets:
            one.close()

    def run(self, work: Callable[..., None], *arguments: Any) -> None:
        self.threads.append(threading.Thread(target=work, args=arguments))
        self.threads[-1].start()

    def accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                server = socket.create_connection(self.target)
                self.sockets += [client, server]
                self.run(pump, client, server, self.after.pop(0) if self.after else 1 << 40)
                self.run(pump, server, client, 1 << 40)


def pump(source: socket.socket, sink: socket.socket, left: int) -> None:
    with suppress(OSError):
        while left > 0 and (data := source.recv(min(65536, left))):
            sink.sendall(data)
            left -= len(data)
    end(source, sink)


def end(*sockets: socket.socket) -> None:
    for one in sockets:
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


def test_it_goes_on_through_broken_connections(plane: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upload, "_PAUSE", 0.001)
    data = os.urandom(3 << 20)
    (tmp_path / "m.pkl").write_bytes(data)
    with Breaking(plane.url, [1 << 20, 1 << 20, 1 << 19]) as proxy:
        version = add(PlaneAddress(proxy.url, None, TOKEN), tmp_path / "m.pkl")
    assert contents(plane, version) == {"m.pkl": data}


def test_it_gives_up_when_nothing_helps(plane: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upload, "_PAUSE", 0.001)
    (tmp_path / "m.pkl").write_bytes(os.urandom(1 << 20))
    with Breaking(plane.url, [5000] * 100) as proxy, pytest.raises(errors.Unavailable):
        add(PlaneAddress(proxy.url, None, TOKEN), tmp_path / "m.pkl")
