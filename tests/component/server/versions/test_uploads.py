"""Files sent by digest over the real API: what is missing, in pieces, and who may name what."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest

from tests.component.server.sending import SMALL, causes, contents, digest_of, limited, listed, writer
from tests.support.blobs.packing import FILES, tarred
from tests.support.server.harness import TOKEN, Harness, serving

DATA = os.urandom(50_000)
DIGEST = digest_of(DATA)
PY = {"framework": "python", "entrypoint": "model:predict"}


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[Harness]:
    with serving(tmp_path, change=limited) as harness:
        assert harness.client().post("/model", json={"name": "iris"}).status_code == 201
        yield harness


@pytest.fixture
def ann(plane: Harness) -> httpx2.Client:
    return writer(plane)


def missing(client: httpx2.Client, files: dict[str, bytes]) -> set[str]:
    answer = client.post("/model/iris/upload", json={"files": listed(files)})
    assert answer.status_code == 200, answer.text
    return set(answer.json()["missing"])


def put(
    client: httpx2.Client, data: bytes, start: int = 0, end: int | None = None, digest: str = ""
) -> httpx2.Response:
    end = len(data) if end is None else end
    headers = {"content-range": f"bytes {start}-{end - 1}/{len(data)}"} if data else {}
    return client.put(f"/model/iris/upload/{digest or digest_of(data)}", content=data[start:end], headers=headers)


def test_send_what_is_missing_and_name_it(plane: Harness, ann: httpx2.Client) -> None:
    assert missing(ann, FILES) == {digest_of(data) for data in FILES.values()}
    for data in FILES.values():
        answer = put(ann, data)
        assert (answer.status_code, answer.json()["complete"]) == (201, True), answer.text
    assert missing(ann, FILES) == set()
    version = ann.post("/model/iris/version", json={"files": listed(FILES), **PY})
    assert version.status_code == 201, version.text
    assert contents(plane, version.json()) == FILES


def test_a_sent_archive(plane: Harness, ann: httpx2.Client) -> None:
    data = tarred(FILES)
    body = {"archive": digest_of(data), **PY}
    assert set(causes(ann.post("/model/iris/version", json=body))) == {"archive"}
    put(ann, data)
    assert contents(plane, ann.post("/model/iris/version", json=body).json()) == FILES


def test_it_goes_on_where_it_broke_off(ann: httpx2.Client) -> None:
    url = f"/model/iris/upload/{DIGEST}"
    assert ann.head(url).status_code == 404
    assert (put(ann, DATA, 0, 20_000).status_code, ann.head(url).headers["upload-offset"]) == (202, "20000")
    asked = ann.put(url, headers={"content-range": f"bytes */{len(DATA)}"})
    assert (asked.status_code, asked.json()["offset"]) == (202, 20_000)
    assert put(ann, DATA, 30_000).status_code == 409
    assert put(ann, DATA, 20_000).status_code == 201
    assert ann.head(url).headers["upload-offset"] == str(len(DATA))


def test_a_broken_connection_loses_little(tmp_path: Path) -> None:
    data = os.urandom(3 << 20)
    url = f"/model/iris/upload/{digest_of(data)}"
    with serving(tmp_path) as plane:
        admin = plane.client()
        admin.post("/model", json={"name": "iris"})
        host, port = plane.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as connection:
            head = (
                f"PUT {url} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n"
                f"Content-Length: {len(data)}\r\nContent-Range: bytes 0-{len(data) - 1}/{len(data)}\r\n\r\n"
            )
            connection.sendall(head.encode() + data[: 5 << 19])
            while not int(admin.head(url).headers.get("upload-offset", 0)):
                pass
        while True:
            offset = int(admin.head(url).headers["upload-offset"])
            assert 1 << 20 <= offset <= 5 << 19
            span = {"content-range": f"bytes {offset}-{len(data) - 1}/{len(data)}"}
            answer = admin.put(url, content=data[offset:], headers=span)
            if answer.status_code != 409:  # the plane has seen that the other one is gone
                break
        assert answer.status_code == 201
        assert admin.head(url).headers["upload-offset"] == str(len(data))


def test_wrong_content_and_wrong_sizes(plane: Harness, ann: httpx2.Client) -> None:
    assert "digest" in causes(put(ann, b"something else", digest=DIGEST))
    assert ann.head(f"/model/iris/upload/{DIGEST}").status_code == 404
    assert put(ann, bytes(SMALL.upload_bytes + 1)).status_code == 413
    for said in ("bytes 5-1/10", "bytes 0-9/5", "0-9/10", "bytes a-b/c", "bytes 0-9", "items 0-1/2"):
        answer = ann.put(f"/model/iris/upload/{DIGEST}", content=b"x" * 10, headers={"content-range": said})
        assert answer.status_code == 400, said
    for body in (b"x" * 9, b"x" * 11):
        answer = ann.put(f"/model/iris/upload/{DIGEST}", content=body, headers={"content-range": "bytes 0-9/10"})
        assert answer.status_code == 400
    for digest in ("x", "sha256:x", "md5:" + "0" * 32, "sha256:" + "A" * 64):
        assert ann.put(f"/model/iris/upload/{digest}", content=b"").status_code == 422
    assert set(causes(ann.post("/model/iris/upload", json={"files": [{"path": "../x", "digest": 3}, 4]}))) == {
        "files[0].path", "files[0].digest", "files[1]",
    }  # fmt: skip
    for wrong in (-1, True, "3", 1 << 63):
        sent = {"files": [{"path": "m.pkl", "digest": DIGEST, "size": wrong}]}
        assert set(causes(ann.post("/model/iris/upload", json=sent))) == {"files[0].size"}
    size = [{"path": "m.pkl", "digest": digest_of(b"abc"), "size": 4}]
    put(ann, b"abc")
    assert "3 bytes, not 4" in causes(ann.post("/model/iris/version", json={"files": size}))["files[0].size"]
    assert not list((plane.folder / "blobs" / "incoming").glob("*"))


def test_a_digest_alone_gives_nothing(plane: Harness, ann: httpx2.Client) -> None:
    """Neither the content, nor the knowledge that it is there."""
    admin, bob = plane.client(), writer(plane, "bob")
    assert put(ann, DATA).status_code == 201
    body = {"files": listed({"m.pkl": DATA})}
    assert missing(bob, {"m.pkl": DATA}) == {DIGEST}
    assert bob.head(f"/model/iris/upload/{DIGEST}").status_code == 404
    assert "has not been uploaded" in causes(bob.post("/model/iris/version", json=body))["files[0].digest"]
    assert missing(admin, {"m.pkl": DATA}) == set()
    assert ann.post("/model/iris/version", json=body).status_code == 201
    assert bob.post("/model/iris/version", json=body).status_code == 201, "a version of this model holds it now"
    eve = plane.client(plane.user("eve"))
    assert eve.post("/model/iris/upload", json=body).status_code == 403
    assert put(eve, DATA).status_code == 403
    assert plane.client(token=None).head(f"/model/iris/upload/{DIGEST}").status_code == 401


def test_many_send_the_same_at_once(plane: Harness) -> None:
    clients = [writer(plane, f"user-{number}") for number in range(3)]
    with ThreadPoolExecutor(12) as threads:
        answers = list(threads.map(lambda number: put(clients[number % 3], DATA).status_code, range(24)))
    assert set(answers) <= {201, 409}
    assert 201 in answers
    assert all(missing(client, {"x": DATA}) == set() for client in clients)


def test_models_that_are_not_there(plane: Harness) -> None:
    admin = plane.client()
    assert admin.post("/model/none/upload", json={"files": listed(FILES)}).status_code == 404
    assert admin.put(f"/model/none/upload/{DIGEST}", content=DATA).status_code == 404
