"""The /model API: versions."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest

from mizzen.kinds.meta import Ref
from tests.unit.server.harness import HERE, Harness
from tests.unit.server.sending import causes
from tests.unit.server.test_models import deploy
from tests.unit.server.test_resources import CONTENT, model_version


@pytest.fixture
def iris(admin: httpx2.Client) -> httpx2.Client:
    """A client, and a model."""
    assert admin.post("/model", json={"name": "iris"}).status_code == 201
    return admin


def test_a_file_becomes_the_next_version(plane: Harness, iris: httpx2.Client) -> None:
    answer = iris.post("/model/iris/version", json={"path": plane.file("model.joblib", "abc")})
    assert answer.status_code == 201, answer.text
    assert answer.headers["location"] == "/model/iris/version/1"
    version = answer.json()
    assert (version["name"], version["model"], version["version"]) == ("iris.1", "iris", "1")
    assert (version["framework"], version["entrypoint"], version["createdBy"]) == ("sklearn", "model.joblib", "admin")
    [artifact] = version["artifacts"]
    assert (artifact["path"], artifact["size"], artifact["trusted"]) == ("model.joblib", 3, True)
    digest = artifact["digest"].removeprefix("sha256:")
    assert (plane.folder / "blobs" / "sha256" / digest[:2] / digest).read_text() == "abc"

    assert iris.get("/model/iris/version/v1").json() == {**version, "changed": {"code": False, "data": True}}
    assert iris.get("/model/iris/version").json()["items"] == [version]
    assert iris.post("/model/iris/version/auto", json={"path": plane.file("m.pkl")}).json()["version"] == "2"


def test_a_folder_keeps_its_layout(plane: Harness, iris: httpx2.Client) -> None:
    plane.file("code/model.py")
    plane.file("code/data/weights.pkl")
    body = {"path": str(plane.folder / "code"), "entrypoint": "model:predict"}
    version = iris.post("/model/iris/version", json=body).json()
    assert version["framework"] == "python"
    assert [artifact["path"] for artifact in version["artifacts"]] == ["data/weights.pkl", "model.py"]


@pytest.mark.parametrize(
    ("files", "body", "framework", "entrypoint"),
    [
        (["m.pickle"], {}, "sklearn", "m.pickle"),
        (["m.pkl", "README.md"], {}, "sklearn", "m.pkl"),
        (["a.pkl", "b.pkl"], {"framework": "sklearn", "entrypoint": "b.pkl"}, "sklearn", "b.pkl"),
        (["model.bin"], {"framework": "sklearn"}, "sklearn", "model.bin"),
        (["model.py"], {"entrypoint": "model:Model"}, "python", "model:Model"),
        (["pkg/__init__.py", "pkg/m.py"], {"entrypoint": "pkg.m:predict"}, "python", "pkg.m:predict"),
    ],
)
def test_frameworks_and_entrypoints_are_recognised(
    plane: Harness, iris: httpx2.Client, files: list[str], body: dict[str, Any], framework: str, entrypoint: str
) -> None:
    for file in files:
        plane.file(f"source/{file}")
    version = iris.post("/model/iris/version", json={"path": str(plane.folder / "source"), **body}).json()
    assert (version["framework"], version["entrypoint"]) == (framework, entrypoint)


@pytest.mark.parametrize(
    ("files", "body", "field", "message"),
    [
        (["model.bin"], {}, "framework", "name it: sklearn, "),
        (["a.pkl", "b.pkl"], {}, "framework", "name it: sklearn, "),
        (["a.pkl", "b.pkl"], {"framework": "sklearn"}, "entrypoint", "several files"),
        (["a.pkl"], {"entrypoint": "b.pkl"}, "entrypoint", "did you mean 'a.pkl'?"),
        (["model.py"], {}, "entrypoint", "module:object"),
        (["model.py"], {"entrypoint": "model.py"}, "entrypoint", "module:object"),
        ([], {}, "path", "no file or folder"),
    ],
)
def test_what_cannot_be_told_from_the_files_must_be_said(
    plane: Harness, iris: httpx2.Client, files: list[str], body: dict[str, Any], field: str, message: str
) -> None:
    for file in files:
        plane.file(f"source/{file}")
    answer = iris.post("/model/iris/version", json={"path": str(plane.folder / "source"), **body})
    assert message in causes(answer)[field]
    assert "highestVersion" not in iris.get("/model/iris").json()["status"], "a refused version costs no number"


def test_faults_of_a_version_come_at_once(iris: httpx2.Client) -> None:
    body = {"path": "relative", "framework": [], "entrypoint": 7, "pth": ""}
    found = causes(iris.post("/model/iris/version", json=body))
    assert set(found) == {"path", "framework", "entrypoint", ""}
    assert found[""] == "unknown field 'pth'; did you mean 'path'?"
    assert causes(iris.post("/model/iris/version", json={}))["path"].startswith("required")


def test_an_unknown_framework_is_odd_and_no_fault(plane: Harness, iris: httpx2.Client) -> None:
    answer = iris.post("/model/iris/version", json={"path": plane.file("m.pkl"), "framework": "sklaern"})
    assert answer.status_code == 201, answer.text
    assert "did you mean 'sklearn'?" in answer.headers["warning"]


def test_the_models_framework_is_the_default(plane: Harness, admin: httpx2.Client) -> None:
    admin.post("/model", json={"name": "net", "framework": "sklearn"})
    assert admin.post("/model/net/version", json={"path": plane.file("model.bin")}).json()["framework"] == "sklearn"


def test_versions_can_be_named_and_numbers_are_one_however_written(plane: Harness, iris: httpx2.Client) -> None:
    body = {"path": plane.file("m.pkl")}
    assert iris.post("/model/iris/version/1.0.2", json=body).json()["name"] == "iris.1.0.2"
    assert iris.post("/model/iris/version/v007", json=body).json()["version"] == "7"
    assert iris.post("/model/iris/version/10", json=body).json()["version"] == "10"
    names = [item["version"] for item in iris.get("/model/iris/version").json()["items"]]
    assert names == ["7", "10", "1.0.2"]
    assert iris.post("/model/iris/version", json=body).json()["version"] == "11"
    for version in ("latest", "current", "UPPER", "v0", "-x"):
        assert "version" in causes(iris.post(f"/model/iris/version/{version}", json=body))
        assert iris.get(f"/model/iris/version/{version}").status_code == 404


def test_adding_again_is_200_for_the_same_content_and_409_for_other(plane: Harness, iris: httpx2.Client) -> None:
    body = {"path": plane.file("m.pkl", "one")}
    first = iris.post("/model/iris/version/3", json=body)
    again = iris.post("/model/iris/version/3", json=body)
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json() == first.json()
    plane.file("m.pkl", "two")
    answer = iris.post("/model/iris/version/3", json=body)
    assert (answer.status_code, answer.json()["reason"]) == (409, "AlreadyExists")
    plane.file("m.pkl", "one")
    differs = iris.post("/model/iris/version/3", json={**body, "framework": "python", "entrypoint": "m:x"})
    assert differs.status_code == 409


def test_a_number_is_never_given_twice(plane: Harness, iris: httpx2.Client) -> None:
    body = {"path": plane.file("m.pkl", CONTENT)}
    iris.post("/model/iris/version", json=body)
    assert iris.delete("/model/iris/version/1").json() == {"name": "iris.1", "deleted": True}
    assert iris.post("/model/iris/version", json=body).json()["version"] == "2"
    # Whichever door it came through.
    assert iris.post(f"{HERE}/modelversions", json=model_version("3")).status_code == 201
    assert iris.post("/model/iris/version", json=body).json()["version"] == "4"


def test_fifty_callers_at_once_get_fifty_numbers(plane: Harness, iris: httpx2.Client) -> None:
    body = {"path": plane.file("m.pkl")}
    client = plane.client()
    with ThreadPoolExecutor(50) as threads:
        answers = list(threads.map(lambda _: client.post("/model/iris/version/auto", json=body), range(50)))
    assert {answer.status_code for answer in answers} == {201}
    assert {int(answer.json()["version"]) for answer in answers} == set(range(1, 51))
    assert iris.get("/model/iris").json()["status"]["highestVersion"] == 50


def test_versions_of_what_is_not_there(plane: Harness, iris: httpx2.Client) -> None:
    body = {"path": plane.file("m.pkl")}
    assert iris.post("/model/none/version", json=body).status_code == 404
    assert iris.get("/model/none/version").status_code == 404
    assert iris.get("/model/iris/version/1").status_code == 404
    assert iris.delete("/model/iris/version/1").status_code == 404


def test_a_version_in_use_cannot_be_deleted(plane: Harness, admin: httpx2.Client) -> None:
    server = deploy(plane, admin)
    answer = admin.delete("/model/iris/version/1")
    assert answer.status_code == 409
    assert answer.json()["details"]["causes"] == [{"field": "InferenceModel/iris-1", "message": "serves version 1"}]
    admin.post("/model/iris/current", json={"version": 1})
    admin.delete(f"/model/iris/serve/1/{server}")
    plane.release(Ref("InferenceModel", server))
    answer = admin.delete("/model/iris/version/1")
    assert answer.status_code == 409
    assert "current" in answer.json()["message"]
