"""Where versions get their bytes from: bodies, forms, git, downloads, and what is refused of each."""

from __future__ import annotations

import gzip
import hashlib
import json
import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.component.server.sending import SMALL, causes, contents, limited, writer
from tests.support.blobs.packing import FILES, outside, tarred, zipped
from tests.support.examples import examples
from tests.support.server.harness import HERE, Harness, serving

TGZ = {"content-type": "application/gzip"}
PY = {"framework": "python", "entrypoint": "model:predict"}


@pytest.fixture
def iris(admin: httpx2.Client) -> httpx2.Client:
    assert admin.post("/model", json={"name": "iris"}).status_code == 201
    return admin


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("application/gzip", tarred(FILES)), ("application/x-gzip", tarred(FILES)),
        ("application/x-tar", tarred(FILES, "w:")), ("application/x-bzip2", tarred(FILES, "w:bz2")),
        ("application/x-xz", tarred(FILES, "w:xz")), ("application/zip", zipped(FILES)),
        ("application/octet-stream", zipped(FILES)), ("application/gzip", zipped(FILES)),
    ],
    ids=lambda value: value if isinstance(value, str) else str(len(value)),
)  # fmt: skip
def test_an_archive_as_the_body(plane: Harness, iris: httpx2.Client, kind: str, data: bytes) -> None:
    query = {"entrypoint": "model:predict", "labels": "team=a,stage=test", "requirements": "numpy>=1\npandas"}
    answer = iris.post("/model/iris/version/auto", content=data, headers={"content-type": kind}, params=query)
    assert answer.status_code == 201, answer.text
    version = answer.json()
    assert contents(plane, version) == FILES
    assert (version["framework"], version["labels"]) == ("python", {"team": "a", "stage": "test"})
    assert version["requirements"] == ["numpy>=1", "pandas"]
    assert version["code"]["digest"].startswith("sha256:")
    again = iris.post(
        "/model/iris/version/1", content=zipped(FILES), headers={"content-type": "application/zip"}, params=PY
    )
    assert (again.status_code, again.json()) == (200, version)
    other = iris.post("/model/iris/version/1", content=tarred({**FILES, "x": b""}), headers=TGZ, params=PY)
    assert other.status_code == 409


def test_what_stands_in_the_query_does_not_stand_in_the_body_too(iris: httpx2.Client) -> None:
    body = {"image": "example.com/iris:1", "framework": "sklearn"}
    for said in ("onnx", "AAA", "sklearn"):
        answer = iris.post("/model/iris/version", json=body, params={"framework": said})
        assert causes(answer) == {"framework": "is in the query and in the body; give it once"}
    absent = {**body, "framework": None, "sha256sum": None}
    assert iris.post("/model/iris/version", json=absent, params={"framework": "onnx"}).json()["framework"] == "onnx"


def test_a_form_with_an_archive_or_one_file(plane: Harness, iris: httpx2.Client) -> None:
    top = {f"top/{path}": data for path, data in FILES.items()}
    answer = iris.post("/model/iris/version/7", data={**PY, "labels": "a=b"}, files={"code": ("c.tgz", tarred(top))})
    assert answer.status_code == 201, answer.text
    assert contents(plane, answer.json()) == FILES
    assert answer.json()["labels"] == {"a": "b"}
    # joblib may compress by gzip, and skops files are zips: they are models all the same.
    for name, data in (
        ("m.joblib", gzip.compress(b"pickle")),
        ("m.skops", zipped({"a": b""})),
        ("m.pkl", b"\x80\x04."),
    ):
        answer = iris.post(
            "/model/iris/version", data={"framework": "sklearn"}, files={"code": (f"C:\\x\\{name}", data)}
        )
        assert answer.status_code == 201, answer.text
        assert contents(plane, answer.json()) == {name: data}


def test_forms_that_are_wrong(iris: httpx2.Client) -> None:
    for data in (b"", b"\x80\x04."):
        found = causes(iris.post("/model/iris/version", data=PY, files={"file": ("m.joblib", data)}))
        assert found == {"": "unknown field 'file'; send the file as 'code'"}
    found = causes(iris.post("/model/iris/version", files={"file": (None, "text")}))
    assert found["code"].startswith("required")
    assert found[""].startswith("unknown field 'file'; valid are code, ")
    found = causes(iris.post("/model/iris/version", data={"framwork": "x"}, files={"code": ("m.pkl", b"x")}))
    assert found[""].endswith("did you mean 'framework'?")
    assert causes(iris.post("/model/iris/version", files={"framework": (None, "sklearn")}))["code"].startswith(
        "required"
    )
    assert "name" in causes(iris.post("/model/iris/version", files={"code": ("a\x7fb.pkl", b"x")}))["code"]
    kind = "multipart/form-data"
    for headers, body in (
        ({"content-type": kind}, b"x"),
        ({"content-type": f"{kind}; boundary=x"}, b"no form"),
        ({"content-type": f"{kind}; boundary=x"}, b'--x\r\nContent-Disposition: form-data; name="code"\r\n\r\nabc'),
        ({"content-type": f"{kind}; boundary=x"}, b"--x\r\n\r\nabc\r\n--x--\r\n"),
    ):
        assert iris.post("/model/iris/version", content=body, headers=headers).status_code == 400


@pytest.mark.parametrize("name", ["/etc/passwd", "../up", "a/../../b"])
def test_archives_that_want_out(plane: Harness, iris: httpx2.Client, name: str) -> None:
    for data, kind in (
        (tarred({"a": b"", name: b"x"}), TGZ),
        (zipped({name: b"x"}), {"content-type": "application/zip"}),
    ):
        found = causes(iris.post("/model/iris/version", content=data, headers=kind, params=PY))
        assert set(found) == {name}
    assert not [path for path in outside(plane.folder) if path.name in ("passwd", "up", "b")]
    assert "highestVersion" not in iris.get("/model/iris").json()["status"]


def test_damaged_and_large_bodies(tmp_path: Path) -> None:
    with serving(tmp_path, change=limited) as plane:
        admin = plane.client()
        admin.post("/model", json={"name": "iris"})
        post = partial(admin.post, "/model/iris/version", headers=TGZ, params=PY)
        assert post(content=tarred(FILES)[:-20]).status_code == 400
        assert post(content=b"").status_code == 400
        assert post(content=b"x" * 100).status_code == 400
        large = post(content=b"x" * (SMALL.upload_bytes + 1))
        assert (large.status_code, large.json()["reason"]) == (413, "RequestEntityTooLarge")
        assert post(content=iter([b"x" * 60_000] * 5)).status_code == 413, "also when its length is not known before"
        assert post(content=tarred({"zeros": bytes(400_000)})).status_code == 413
        assert "more than 50 files" in causes(post(content=tarred({str(number): b"" for number in range(51)})))[""]
        unknown = admin.post("/model/iris/version", content=b"x", headers={"content-type": "text/plain"})
        assert unknown.status_code == 415
        assert not list((tmp_path / "blobs" / "incoming").glob("*"))


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    folder.mkdir()
    (folder / "model.py").write_text("def predict(x): return x\n")
    for command in (
        ["init", "-q", "-b", "main"], ["add", "-A"],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "x"],
    ):  # fmt: skip
        subprocess.run(["git", *command], cwd=folder, check=True, capture_output=True)
    return folder


def test_a_git_revision(plane: Harness, iris: httpx2.Client, repo: Path) -> None:
    body = {"git": {"repo": f"file://{repo}", "ref": "main"}, "entrypoint": "model:predict"}
    answer = iris.post("/model/iris/version", json=body)
    assert answer.status_code == 201, answer.text
    version = answer.json()
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=repo, check=True, capture_output=True, text=True).stdout
    git = version["code"]["git"]
    assert (git["commit"], git["ref"], git["repo"]) == (commit.strip(), "main", f"file://{repo}")
    assert contents(plane, version) == {"model.py": b"def predict(x): return x\n"}
    found = causes(iris.post("/model/iris/version", json={"git": {"repo": f"file://{repo}", "ref": "none"}}))
    assert set(found) == {"git.ref"}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "site").mkdir()

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path / "site")))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_download(plane: Harness, iris: httpx2.Client, site: str, tmp_path: Path) -> None:
    data = tarred(FILES)
    (tmp_path / "site" / "code.tgz").write_bytes(data)
    sha = hashlib.sha256(data).hexdigest()
    body = {"downloadURL": f"{site}/code.tgz", "sha256sum": sha.upper(), **PY}
    version = iris.post("/model/iris/version", json=body).json()
    assert contents(plane, version) == FILES
    assert version["source"] == {"url": f"{site}/code.tgz", "sha256sum": sha}
    assert (plane.folder / "blobs" / "sha256" / sha[:2] / sha).read_bytes() == data, "the archive is kept, too"
    wrong = causes(iris.post("/model/iris/version", json={**body, "sha256sum": "0" * 64}))
    assert sha in wrong["sha256sum"]
    assert "sha256sum" in causes(iris.post("/model/iris/version", json={"downloadURL": f"{site}/code.tgz"}))
    skip = {"downloadURL": f"{site}/code.tgz", "insecureSkipVerify": True, **PY}
    assert iris.post("/model/iris/version", json=skip).json()["source"]["sha256sum"] == sha
    file = {"downloadURL": f"file://{tmp_path}/site/code.tgz", "sha256sum": sha, **PY}
    assert contents(plane, iris.post("/model/iris/version", json=file).json()) == FILES
    ann = writer(plane)
    assert "own network" in causes(ann.post("/model/iris/version", json=body))["downloadURL"]
    assert ann.post("/model/iris/version", json=file).status_code == 403


def test_a_path_may_be_an_archive(plane: Harness, iris: httpx2.Client, tmp_path: Path) -> None:
    (tmp_path / "code.tar.gz").write_bytes(tarred(FILES))
    body = {"path": str(tmp_path / "code.tar.gz"), **PY}
    assert contents(plane, iris.post("/model/iris/version", json=body).json()) == FILES


def test_who_may_write_a_model_may_add_to_it_and_is_not_trusted(plane: Harness, iris: httpx2.Client) -> None:
    ann, bob = writer(plane), writer(plane, "bob", "admin")

    def post(client: httpx2.Client) -> httpx2.Response:
        return client.post("/model/iris/version", content=tarred({"m.pkl": b"x"}), headers=TGZ)

    version = post(ann).json()
    assert version["createdBy"] == "ann"
    assert [artifact["trusted"] for artifact in version["artifacts"]] == [False]
    version = post(bob).json()
    assert [artifact["trusted"] for artifact in version["artifacts"]] == [True]
    assert ann.post("/model/iris/version", json={"path": plane.file("m.pkl")}).status_code == 403
    assert post(plane.client(plane.user("eve"))).status_code == 403
    assert post(plane.client(token=None)).status_code == 401


def test_what_changed_since_the_version_before(iris: httpx2.Client) -> None:
    def add(files: dict[str, bytes]) -> dict[str, Any]:
        number = iris.post("/model/iris/version", content=tarred(files), headers=TGZ, params=PY).json()["version"]
        changed: dict[str, Any] = iris.get(f"/model/iris/version/{number}").json()["changed"]
        return changed

    assert add({"model.py": b"1", "w.bin": b"1"}) == {"code": True, "data": True}
    assert add({"model.py": b"1", "w.bin": b"2"}) == {"code": False, "data": True}
    assert add({"model.py": b"2", "w.bin": b"2"}) == {"code": True, "data": False}
    assert add({"model.py": b"2", "w.bin": b"2"}) == {"code": False, "data": False}
    digests = [item["code"]["digest"] for item in iris.get("/model/iris/version").json()["items"]]
    assert digests[0] == digests[1] != digests[2] == digests[3]


def test_pages_and_labels(plane: Harness, iris: httpx2.Client) -> None:
    for number in range(1, 13):
        labels = {"odd": "yes"} if number % 2 else {}
        iris.post("/model/iris/version", json={"path": plane.file("m.pkl"), "labels": labels})
    found: list[str] = []
    token = ""
    while True:
        page = iris.get("/model/iris/version", params={"limit": 5, "continue": token}).json()
        assert len(page["items"]) <= 5
        found += [item["version"] for item in page["items"]]
        token = page["metadata"]["continue"]
        if not token:
            break
    assert sorted(found, key=int) == [str(number) for number in range(1, 13)]
    odd = iris.get("/model/iris/version", params={"labelSelector": "odd=yes"}).json()["items"]
    assert [item["version"] for item in odd] == ["1", "3", "5", "7", "9", "11"]


def test_bodies_that_say_too_much_or_nothing(iris: httpx2.Client) -> None:
    assert "only one of" in causes(iris.post("/model/iris/version", json={"path": "/x", "git": {"repo": "x"}}))[""]
    assert "path" in causes(iris.post("/model/iris/version", json={}))
    assert set(causes(iris.post("/model/iris/version", json={"git": {"rep": 1, "ref": 2}}))) == {
        "git",
        "git.repo",
        "git.ref",
    }
    assert set(causes(iris.post("/model/iris/version", json={"path": "/x", "sha256sum": "y"}))) == {"sha256sum"}
    image = iris.post("/model/iris/version", json={"image": "host/model:1", "framework": "onnx"})
    assert image.status_code == 201, image.text
    assert "image" in image.headers["warning"]


jsons = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
fields = st.sampled_from(
    ["path", "git", "downloadURL", "sha256sum", "files", "archive", "framework", "entrypoint", "labels", "requirements",
     "image", "parentJob", "insecureSkipVerify", "annotations"]
)  # fmt: skip
kinds = st.sampled_from(
    ["application/gzip", "application/zip", "application/octet-stream", "multipart/form-data; boundary=x",
     "application/json", "multipart/form-data", "application/x-tar", "text/plain", ""]
)  # fmt: skip
PARTS = [
    b"--x\r\n", b"--x--\r\n", b"\r\n", b'Content-Disposition: form-data; name="code"; filename="a.pkl"\r\n\r\n',
    b'Content-Disposition: form-data; name="framework"\r\n\r\n', b"sklearn", tarred({"m.pkl": b"x"}),
    zipped({"m.pkl": b"x"}), b"{}", b'{"path": "/x"}', b"\x00" * 600, b"PK\x03\x04",
]  # fmt: skip


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[httpx2.Client, Path]]:
    with serving(tmp_path_factory.mktemp("plane"), change=limited) as harness:
        client = harness.client()
        assert client.post("/model", json={"name": "iris"}).status_code == 201
        yield client, harness.folder


fuzzing = settings(
    max_examples=examples(120), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@fuzzing
@given(kinds, st.lists(st.sampled_from(PARTS) | st.binary(max_size=40), max_size=6))
def test_no_body_breaks_the_plane(fuzzed: tuple[httpx2.Client, Path], kind: str, parts: list[bytes]) -> None:
    client, folder = fuzzed
    for method, path in (("POST", "/model/iris/version"), ("PUT", f"/model/iris/upload/sha256:{'0' * 64}")):
        answer = client.request(method, path, content=b"".join(parts), headers={"content-type": kind})
        assert answer.status_code < 500, answer.text
        assert isinstance(answer.json(), dict)
    assert not list((folder / "blobs" / "incoming").glob("*"))


@fuzzing
@given(
    st.dictionaries(fields, jsons, max_size=4), st.sampled_from(["/version", "/version/auto", "/upload", "/version/3"])
)
def test_no_json_breaks_the_plane(fuzzed: tuple[httpx2.Client, Path], body: dict[str, Any], path: str) -> None:
    answer = fuzzed[0].post(f"/model/iris{path}", content=json.dumps(body))
    assert answer.status_code < 500, answer.text


def test_the_other_door_asks_who_may_name_content(plane: Harness, iris: httpx2.Client) -> None:
    """A digest alone is no proof of having what it stands for."""
    iris.post("/model", json={"name": "secret"})
    digest = iris.post("/model/secret/version", json={"path": plane.file("m.pkl", "hidden")}).json()["artifacts"][0][
        "digest"
    ]
    ann = writer(plane)
    spec = {"modelName": "iris", "version": "1", "framework": "sklearn", "entrypoint": "m.pkl"}
    body = {
        "apiVersion": "mizzen.dev/v1alpha1", "kind": "ModelVersion", "metadata": {"name": "iris.1"},
        "spec": {**spec, "artifacts": [{"path": "m.pkl", "digest": digest, "size": 6}]},
    }  # fmt: skip
    assert set(causes(ann.post(f"{HERE}/modelversions", json=body))) == {"spec.artifacts[0].digest"}
    assert iris.post(f"{HERE}/modelversions", json=body).status_code == 201
    body["metadata"], body["spec"] = {"name": "iris.2"}, {**body["spec"], "version": "2"}  # type: ignore[dict-item]
    answer = ann.post(f"{HERE}/modelversions", json=body)
    assert answer.status_code == 201, "a version of the same model holds it"
    assert answer.json()["spec"]["artifacts"][0]["trusted"] is False
