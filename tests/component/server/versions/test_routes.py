"""The /model API: versions."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from mizzen.kinds.schema.resource import Meta, Resource
from mizzen.server.versions import routes
from tests.component.server.resources.test_routes import CONTENT, model_version
from tests.component.server.sending import causes, digest_of, writer
from tests.support.golden import Golden
from tests.support.server.harness import HERE, Client, Harness, deploy


@pytest.fixture
def iris(admin: Client) -> Client:
    """A client, and a model."""
    assert admin.post("/model", json={"name": "iris"}).status_code == 201
    return admin


def test_a_file_becomes_the_next_version(plane: Harness, iris: Client) -> None:
    answer = iris.post("/model/iris/version", json={"path": plane.file("model.joblib", "abc")})
    assert answer.status_code == 201, answer.text
    assert answer.headers["location"] == iris.path("/model/iris/version/1")
    version = answer.json()
    assert (version["name"], version["model"], version["version"]) == ("iris.1", "iris", "1")
    assert (version["framework"], version["entrypoint"], version["createdBy"]) == ("sklearn", "model.joblib", "admin")
    [artifact] = version["artifacts"]
    assert (artifact["path"], artifact["size"], artifact["trusted"]) == ("model.joblib", 3, True)
    digest = artifact["digest"].removeprefix("sha256:")
    assert (plane.folder / "blobs" / "sha256" / digest[:2] / digest).read_text() == "abc"

    described = {"changed": {"code": False, "data": True}, "jobs": [], "checkpoints": 0, "newestCheckpoint": None}
    assert iris.get("/model/iris/version/v1").json() == {**version, **described}
    assert iris.get("/model/iris/version").json()["items"] == [version]
    assert iris.post("/model/iris/version/auto", json={"path": plane.file("m.pkl")}).json()["version"] == "2"


def test_a_folder_keeps_its_layout(plane: Harness, iris: httpx2.Client) -> None:
    plane.file("code/model.py")
    plane.file("code/data/weights.pkl")
    body = {"path": str(plane.files / "code"), "entrypoint": "model:predict"}
    version = iris.post("/model/iris/version", json=body).json()
    assert version["framework"] == "python"
    assert [artifact["path"] for artifact in version["artifacts"]] == ["data/weights.pkl", "model.py"]


@pytest.mark.parametrize(
    ("files", "body", "framework", "entrypoint"),
    [
        (["m.pickle"], {}, "sklearn", "m.pickle"),
        (["m.pkl", "README.md"], {}, "sklearn", "m.pkl"),
        (["a.pkl", "b.pkl"], {"framework": "sklearn", "entrypoint": "b.pkl"}, "sklearn", "b.pkl"),
        (["a.pkl", "b.onnx"], {"entrypoint": "b.onnx"}, "onnx", "b.onnx"),
        (["net.onnx", "net.onnx.data"], {}, "onnx", "net.onnx"),
        (["pkg/saved_model.pb"], {}, "tensorflow", "pkg/saved_model.pb"),
        (["saved_model.pb", "variables/variables.index", "train.py"], {}, "tensorflow", "saved_model.pb"),
        (["MLmodel", "model.pkl", "code/own.py"], {}, "mlflow", "MLmodel"),
        (["m/MLmodel", "m/data/saved_model.pb", "m/requirements.txt"], {}, "mlflow", "m/MLmodel"),
        (["model.py", "net/saved_model.pb"], {"entrypoint": "model:Model"}, "python", "model:Model"),
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
    version = iris.post("/model/iris/version", json={"path": str(plane.files / "source"), **body}).json()
    assert (version["framework"], version["entrypoint"]) == (framework, entrypoint)


@pytest.mark.parametrize(
    ("files", "body", "field", "message"),
    [
        (
            ["model.bin"],
            {},
            "framework",
            "give one of sklearn, xgboost, lightgbm, onnx, tensorflow, pytorch, mlflow, python",
        ),
        (
            ["a.pkl", "b.pkl"],
            {},
            "entrypoint",
            "could be the model: 'a.pkl' (sklearn), 'b.pkl' (sklearn)",
        ),
        (["a.pkl", "b.onnx"], {}, "entrypoint", "several files could be the model: 'a.pkl' (sklearn), 'b.onnx' (onnx)"),
        (["a.pkl", "b.pkl"], {"framework": "sklearn"}, "entrypoint", "several files"),
        (["a.ubj", "b.ubj"], {"framework": "xgboost"}, "entrypoint", "give the one to load"),
        (["a.csv", "b.csv"], {"framework": "onnx"}, "entrypoint", "several files: give the one to load"),
        (["a.pkl"], {"entrypoint": "b.pkl"}, "entrypoint", "did you mean 'a.pkl'?"),
        (["1/saved_model.pb", "2/saved_model.pb"], {}, "entrypoint", "several files: give the one to load"),
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
    answer = iris.post("/model/iris/version", json={"path": str(plane.files / "source"), **body})
    assert message in causes(answer)[field]
    assert "highestVersion" not in iris.get("/model/iris").json()["status"], "a refused version costs no number"


def test_faults_of_a_version_come_at_once(iris: httpx2.Client, golden: Golden) -> None:
    body = {"path": "relative", "framework": [], "entrypoint": 7, "pth": ""}
    found = causes(iris.post("/model/iris/version", json=body))
    assert set(found) == {"path", "framework", "entrypoint", ""}
    golden.check(found[""])
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
    assert answer.json()["details"]["causes"] == [
        {"field": str(plane.ref("InferenceModel", "iris-1")), "message": "serves version 1"}
    ]
    admin.post("/model/iris/current", json={"version": 1})
    admin.delete(f"/model/iris/serve/1/{server}")
    plane.release(plane.ref("InferenceModel", server))
    answer = admin.delete("/model/iris/version/1")
    assert answer.status_code == 409
    assert "current" in answer.json()["message"]


@pytest.mark.parametrize(
    ("said", "differs"),
    [
        ({"image": "b:2"}, ["image"]),
        ({"image": "a:1", "requirements": ["numpy>=2"]}, ["requirements"]),
        ({"image": "a:1", "parentJob": "other", "labels": {"team": "b"}}, ["parentJob", "labels"]),
        ({"image": "a:1", "framework": "onnx", "annotations": {"note": "y"}}, ["framework", "annotations"]),
        ({"image": "a:1"}, []),
        ({"image": "a:1", "requirements": ["numpy"], "labels": {"team": "a"}, "annotations": {"note": "x"}}, []),
    ],
)
def test_what_is_sent_again_and_differs_is_named(
    plane: Harness, iris: httpx2.Client, said: dict[str, Any], differs: list[str]
) -> None:
    for job in ("job", "other"):
        spec = {"modelName": "iris", "version": "1"}
        plane.run(plane.store.create(Resource("TrainingJob", Meta(job, plane.namespace), spec), "somebody"))
    first = {
        "image": "a:1", "framework": "python", "requirements": ["numpy"], "parentJob": "job",
        "labels": {"team": "a", "stage": "test"}, "annotations": {"note": "x"},
    }  # fmt: skip
    assert iris.post("/model/iris/version/9", json=first).status_code == 201
    again = iris.post("/model/iris/version/9", json={"framework": "python", **said})
    if not differs:
        assert again.status_code == 200, again.text
        return
    assert (again.status_code, again.json()["reason"]) == (409, "AlreadyExists")
    assert [cause["field"] for cause in again.json()["details"]["causes"]] == differs
    assert f"already exists and differs in {' and '.join(differs)}" in again.json()["message"]
    assert iris.get("/model/iris/version/9").json()["image"] == "a:1"


def test_the_same_files_from_elsewhere_are_another_source_only_when_one_is_named(
    plane: Harness, iris: httpx2.Client
) -> None:
    def fetched(name: str) -> dict[str, Any]:
        return {"downloadURL": Path(plane.file(name, "one")).as_uri(), "sha256sum": digest_of(b"one")[7:]}

    first = {**fetched("a/m.pkl"), "framework": "sklearn"}
    assert iris.post("/model/iris/version/1", json=first).status_code == 201
    assert iris.post("/model/iris/version/1", json=first).status_code == 200
    assert iris.post("/model/iris/version/1", json={"path": plane.file("a/m.pkl", "one")}).status_code == 200
    other = iris.post("/model/iris/version/1", json=fetched("b/m.pkl"))
    assert [cause["field"] for cause in other.json()["details"]["causes"]] == ["downloadURL"]


def test_a_number_that_is_given_leaves_room_for_the_next_ones(plane: Harness, iris: httpx2.Client) -> None:
    body = {"path": plane.file("m.pkl", CONTENT)}
    for digits in (16, 18, 30):
        assert "digits" in causes(iris.post(f"/model/iris/version/{'9' * digits}", json=body))["version"]
    written = iris.post(f"{HERE}/modelversions", json=model_version("9" * 18))
    assert "at most 15 digits" in causes(written)["spec.version"]
    assert "highestVersion" not in iris.get("/model/iris").json()["status"]
    assert iris.post(f"/model/iris/version/{'9' * 15}", json=body).status_code == 201
    for number in ("1000000000000000", "1000000000000001"):
        assert iris.post("/model/iris/version", json=body).json()["version"] == number
        assert iris.get(f"/model/iris/version/{number}").json()["version"] == number


def test_numbers_that_ran_out_are_not_counted_on(plane: Harness, iris: httpx2.Client) -> None:
    model = plane.run(plane.store.get(plane.ref("Model", "iris")))
    last = 10**18 - 1
    plane.run(plane.store.update_status(replace(model, status={"highestVersion": last}), "system"))
    for _ in range(2):
        answer = iris.post("/model/iris/version", json={"path": plane.file("m.pkl")})
        assert (answer.status_code, answer.json()["reason"]) == (409, "Conflict")
        assert "/model/iris/version/<name>" in answer.json()["details"]["hint"]
    assert iris.get("/model/iris").json()["status"]["highestVersion"] == last
    assert iris.post("/model/iris/version/named", json={"path": plane.file("m.pkl")}).status_code == 201


@pytest.mark.parametrize(
    "spec",
    [
        {"artifacts": "none"}, {"artifacts": ["a", None, {"path": 1}, {"path": "a"}, {"digest": "x"}]},
        {"artifacts": {"a": 1}}, {"modelName": "other"}, {"version": "9" * 5000}, {"version": {"a": 1}}, {},
    ],
    ids=str,
)  # fmt: skip
def test_a_version_is_shown_whatever_is_stored(plane: Harness, iris: httpx2.Client, spec: dict[str, Any]) -> None:
    stored = {"modelName": "iris", "version": "1", **spec} if spec else {}
    plane.run(plane.store.create(Resource("ModelVersion", Meta("iris.1", plane.namespace), stored), "somebody"))
    assert iris.get("/model/iris/version/1").status_code == 200
    assert iris.get("/model/iris/version").status_code == 200
    good = {"path": plane.file("m.pkl")}
    assert iris.post("/model/iris/version/2", json=good).status_code == 201
    assert iris.get("/model/iris/version/2").json()["changed"] == {"code": False, "data": True}
    files = {"files": [{"path": "m.pkl", "digest": f"sha256:{'0' * 64}"}], "framework": "sklearn"}
    assert "has not been uploaded" in str(causes(writer(plane).post("/model/iris/version/3", json=files)))


def test_a_version_is_compared_with_the_one_it_follows(plane: Harness, iris: httpx2.Client) -> None:
    def add(version: str, content: str) -> None:
        body = {"path": plane.file("m.pkl", content)}
        assert iris.post(f"/model/iris/version/{version}", json=body).status_code == 201

    def changed(version: str) -> bool:
        return bool(iris.get(f"/model/iris/version/{version}").json()["changed"]["data"])

    add("7", "one")
    add("named", "one")
    add("3", "two")
    add("8", "one")
    assert [changed(version) for version in ("3", "7", "named", "8")] == [True, True, False, False]
    iris.delete("/model/iris/version/7")
    assert changed("8"), "then it follows 3"
    iris.delete("/model/iris/version/3")
    assert changed("8")


def test_many_versions_come_in_pages_each_in_order(plane: Harness, iris: httpx2.Client) -> None:
    count = routes.MOST_AT_ONCE + 20

    async def fill() -> None:
        for number in range(1, count + 1):
            spec = {"modelName": "iris", "version": str(number), "framework": "python", "image": "a:1"}
            await plane.store.create(
                Resource("ModelVersion", Meta(f"iris.{number}", plane.namespace), spec), "somebody"
            )

    plane.run(fill())
    page = iris.get("/model/iris/version").json()
    numbers = [int(item["version"]) for item in page["items"]]
    assert len(numbers) == routes.MOST_AT_ONCE
    assert numbers == sorted(numbers)
    rest = iris.get("/model/iris/version", params={"continue": page["metadata"]["continue"]}).json()
    assert rest["metadata"]["continue"] == ""
    assert sorted([*numbers, *(int(item["version"]) for item in rest["items"])]) == list(range(1, count + 1))


def test_a_version_elsewhere_is_found_where_its_location_says(plane: Harness, admin: httpx2.Client) -> None:
    lab = {"namespace": "lab"}
    assert admin.post("/model", json={"name": "iris"}, params=lab).status_code == 201
    made = admin.post("/model/iris/version", json={"path": plane.file("m.pkl")}, params=lab)
    assert made.headers["location"] == "/model/iris/version/1?namespace=lab"
    assert admin.get(made.headers["location"]).json()["namespace"] == "lab"
