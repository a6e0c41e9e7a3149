"""What a version requires: as said, else as the requirements.txt among its files says."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest

from tests.support.blobs.packing import tarred

TGZ = {"content-type": "application/gzip"}
FILES = {"model.py": b"def predict(inputs): ...\n", "requirements.txt": b"thing==1.0 # that\n\n# more\nnumpy\n"}
ENTRYPOINT = {"entrypoint": "model:predict"}


@pytest.fixture
def iris(admin: httpx2.Client) -> httpx2.Client:
    assert admin.post("/model", json={"name": "iris"}).status_code == 201
    return admin


def _added(iris: httpx2.Client, files: dict[str, bytes], **query: str) -> httpx2.Response:
    return iris.post("/model/iris/version/auto", content=tarred(files), headers=TGZ, params={**ENTRYPOINT, **query})


def test_the_file_is_taken_where_nothing_is_said(iris: httpx2.Client) -> None:
    assert _added(iris, FILES).json()["requirements"] == ["thing==1.0", "numpy"]
    assert _added(iris, FILES, requirements="other>2").json()["requirements"] == ["other>2"]
    assert "requirements" not in _added(iris, {"model.py": FILES["model.py"], "sub/requirements.txt": b"a"}).json()
    assert "requirements" not in _added(iris, {**FILES, "requirements.txt": b"# nothing\n"}).json()


def test_that_there_are_none_can_be_said(iris: httpx2.Client, tmp_path: Path) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir()
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
    given = {"path": str(folder), **ENTRYPOINT}
    assert iris.post("/model/iris/version", json=given).json()["requirements"] == ["thing==1.0", "numpy"]
    none = iris.post("/model/iris/version", json={**given, "requirements": []})
    assert (none.status_code, none.json().get("requirements")) == (201, [])


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"numpy\n-r more.txt\n", "requirements.txt: line 2: '-r more.txt' is a pip option"),
        (b"\xff\xfe\x00", "requirements.txt: 'utf-8' codec can't decode"),
        (b"a" * (1 << 20) + b"a", "requirements.txt: has 1048577 bytes"),
    ],
    ids=["elsewhere", "no text", "large"],
)
def test_a_file_that_cannot_be_followed_is_refused_with_what_to_do(
    iris: httpx2.Client, content: bytes, why: str
) -> None:
    refused = _added(iris, {**FILES, "requirements.txt": content})
    assert refused.status_code == 422
    assert why in refused.text
    assert "--no-requirements" in refused.text
    assert _added(iris, {**FILES, "requirements.txt": content}, requirements="numpy").status_code == 201


def test_texts_beside_an_archive_are_read_as_a_file_is(iris: httpx2.Client) -> None:
    assert _added(iris, FILES, requirements="a==1  # one\n\nb\n").json()["requirements"] == ["a==1", "b"]
    refused = _added(iris, FILES, requirements="a\n--index-url x")
    assert refused.status_code == 422
    assert "line 2: '--index-url x' is a pip option" in refused.text


def test_who_vouches_for_a_version_vouches_for_what_it_requires(iris: httpx2.Client) -> None:
    added = _added(iris, FILES, python="3.12")
    assert added.json()["python"] == "3.12"

    def again(python: str) -> httpx2.Response:
        query = {**ENTRYPOINT, "python": python}
        return iris.post("/model/iris/version/1", content=tarred(FILES), headers=TGZ, params=query)

    assert again("3.12").status_code == 200
    assert (again("3.13").status_code, "differs in python" in again("3.13").text) == (409, True)
    assert _added(iris, FILES, python="3.8").status_code == 422
