"""GET /openapi.json; and what it says is what the routes do."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from mizzen.kinds.catalog import KINDS
from mizzen.kinds.schema.resource import Meta, Resource
from tests.component.server import trained
from tests.support.server.harness import HERE, Harness, serving
from tools.derived import openapi
from tools.derived.operations import OPERATIONS, RESOURCES, Operation

SCHEMAS = openapi.schemas()
UNASKED = {"/", "/healthz", "/livez", "/readyz", "/version"}
"""They read no query: whoever asks after health may send what they like."""
SENT = b"sent"
DIGEST = "sha256:" + hashlib.sha256(SENT).hexdigest()
PYTHON: dict[str, Any] = {
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "array": list,
    "object": dict,
}
AT = {
    "plural": "inferencemodels", "namespace": "default", "name": "server", "model": "iris", "version": "1",
    "alias": "prod", "server": "server", "digest": DIGEST, "user": "ada", "subject": "ada", "token": "t", "secret": "s",
    "job": "iris-1-abcde", "checkpoint": "iris-1-abcde-01234567",
}  # fmt: skip


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    with serving(tmp_path_factory.mktemp("plane")) as harness:
        harness.run(harness.store.create(Resource("Model", Meta("iris")), "admin"))
        spec = {"modelName": "iris", "targetVersion": "1", "deployToLayer": "cloud", "frameworkType": "sklearn"}
        harness.run(harness.store.create(Resource("InferenceModel", Meta("server"), spec), "admin"))
        yield harness


def test_the_document_is_served_as_it_was_made(plane: Harness) -> None:
    with plane.client() as client:
        answer = client.get("/openapi.json")
        assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
        assert answer.json() == openapi.document()
        tag = answer.headers["etag"]
        again = client.get("/openapi.json", headers={"If-None-Match": f'"other", W/{tag}'})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
        assert client.get("/openapi.json", headers={"If-None-Match": '"other"'}).status_code == 200


def test_strangers_are_not_shown_it(tmp_path: Path) -> None:
    with serving(tmp_path, anonymous=False) as harness, harness.client(token=None) as client:
        assert client.get("/openapi.json").status_code == 401


@pytest.mark.parametrize("operation", [*OPERATIONS, *RESOURCES], ids=lambda operation: str(operation.id))
def test_each_route_takes_the_parameters_that_are_documented(plane: Harness, operation: Operation) -> None:
    if operation.path in UNASKED:
        assert operation.query == ()
        return
    with plane.client() as client:
        answer = client.request(operation.method, operation.path.format(**AT), params={"qqqqqqqq": "1"})
        assert answer.status_code == 400
        if operation.method == "HEAD":
            return  # nobody could read what it says
        assert _valid(answer.json()["message"]) == set(operation.query)


def test_another_parameter_would_be_noticed() -> None:
    assert _valid("unknown query parameter 'x'; valid are limit, new") == {"limit", "new"}
    assert _valid("unknown query parameter 'x'; none is possible here") == set()


def test_answers_look_as_documented(tmp_path: Path) -> None:
    with serving(tmp_path) as harness, harness.client() as client:
        seen = _Seen(client)
        for path in ("/", "/healthz", "/readyz", "/version", "/whoami", "/usage", "/usage/history"):
            seen("GET", path, path)
        seen("POST", "/model", "/model", json={"name": "iris"})
        seen("GET", "/model", "/model")
        body = {"path": harness.file("model.joblib"), "framework": "sklearn"}
        seen("POST", "/model/{model}/version", "/model/iris/version", json=body)
        seen("POST", "/model/{model}/version/{version}", "/model/iris/version/1", json=body)
        seen("GET", "/model/{model}/version", "/model/iris/version")
        seen("GET", "/model/{model}/version/{version}", "/model/iris/version/1")
        seen("PUT", "/model/{model}/alias/{alias}", "/model/iris/alias/prod", json={"version": 1})
        server = seen("POST", "/model/{model}/serve/{version}", "/model/iris/serve/1", json={})["id"]
        seen("GET", "/model/{model}/serve/{version}", "/model/iris/serve/1")
        seen("GET", "/model/{model}/serve/{version}/{server}", f"/model/iris/serve/1/{server}")
        harness.make_ready(server, "1")
        seen("POST", "/model/{model}/current", "/model/iris/current", json={"version": "1"})
        seen("GET", "/model/{model}", "/model/iris")
        history = seen("GET", "/model/{model}/history", "/model/iris/history")
        last = history["items"][-1]["time"]
        seen("GET", "/model/{model}/history", f"/model/iris/history?at={last}")
        seen("POST", "/model/{model}/upload", "/model/iris/upload", json={"files": [{"path": "a", "digest": DIGEST}]})
        seen("HEAD", "/model/{model}/upload/{digest}", f"/model/iris/upload/{DIGEST}", refused=True)
        seen("PUT", "/model/{model}/upload/{digest}", f"/model/iris/upload/{DIGEST}", content=SENT)
        seen("DELETE", "/model/{model}/serve/{version}/{server}", f"/model/iris/serve/1/{server}")
        seen("DELETE", "/model/{model}/alias/{alias}", "/model/iris/alias/prod")
        seen("POST", "/user", "/user", json={"name": "ada"})
        seen("GET", "/user", "/user")
        seen("GET", "/user/{user}", "/user/ada")
        token = seen("POST", "/user/{user}/token", "/user/ada/token", json={"expiresIn": "1d"})["id"]
        seen("GET", "/user/{user}/token", "/user/ada/token")
        seen("DELETE", "/user/{user}/token/{token}", f"/user/ada/token/{token}")
        seen("DELETE", "/user/{user}", "/user/ada")
        seen("PUT", "/secret/{secret}", "/secret/s", json={"data": {"KEY": "value"}})
        seen("GET", "/secret", "/secret")
        seen("GET", "/secret/{secret}", "/secret/s")
        seen("DELETE", "/secret/{secret}", "/secret/s")
        seen("GET", "/model/{model}", "/model/other", refused=True)
        seen("GET", "/audit", "/audit")
        for kind in KINDS:
            seen("GET", f"{HERE}/{kind.plural}", f"{HERE}/{kind.plural}")
        models = f"{HERE}/models"
        made = {"apiVersion": "mizzen.dev/v1alpha1", "kind": "Model", "metadata": {"name": "second"}}
        written = seen("POST", models.replace("default", "{namespace}"), models, json=made)
        one = f"{models}/{{name}}".replace("default", "{namespace}")
        seen("PUT", one, f"{models}/second", json={**made, "metadata": written["metadata"]})
        seen("GET", one, f"{models}/second")
        merge = {"content-type": "application/merge-patch+json"}
        seen("PATCH", one, f"{models}/second", json={"metadata": {"labels": {"a": "b"}}}, headers=merge)
        seen("GET", f"{one}/status", f"{models}/second/status")
        seen("PATCH", f"{one}/status", f"{models}/second/status", json={"status": {"highestVersion": 1}}, headers=merge)
        spec = {"modelName": "iris", "targetVersion": "1", "deployToLayer": "cloud", "frameworkType": "sklearn"}
        server_ = {"apiVersion": "mizzen.dev/v1alpha1", "kind": "InferenceModel", "metadata": {"name": "s"}}
        servers = f"{HERE}/inferencemodels"
        seen("POST", servers.replace("default", "{namespace}"), servers, json={**server_, "spec": spec})
        scale = f"{servers}/{{name}}/scale".replace("default", "{namespace}")
        shown = seen("GET", scale, f"{servers}/s/scale")
        seen("PUT", scale, f"{servers}/s/scale", json=shown)
        seen("PATCH", scale, f"{servers}/s/scale", json={"spec": {"replicas": 2}}, headers=merge)
        selected = f"{models}?labelSelector=no%3Done"
        seen("DELETE", models.replace("default", "{namespace}"), selected)
        seen("DELETE", one, f"{models}/second")


def test_answers_about_monitors_look_as_documented(tmp_path: Path) -> None:
    with serving(tmp_path) as harness, harness.client() as client:
        seen = _Seen(client)
        monitor, at = "/model/{model}/monitor", "/model/iris/monitor"
        seen("POST", "/model", "/model", json={"name": "iris"})
        seen("GET", monitor, at, refused=True)
        seen("POST", monitor, at, json={"tool": "scalars"})
        seen("POST", monitor, at)
        seen("GET", monitor, at)
        seen("GET", "/model/{model}", "/model/iris")
        seen("POST", f"{monitor}/ticket", f"{at}/ticket")
        folder = harness.folder / "events" / "default" / "iris" / "1" / "a"
        folder.mkdir(parents=True)
        (folder / "metrics.jsonl").write_text('{"step": 1, "metrics": {"loss": 0.5, "none": null}}\n')
        assert seen("GET", f"{monitor}/scalars", f"{at}/scalars?version=1&points=10")["tags"] == ["loss", "none"]
        seen("DELETE", monitor, at)


def test_answers_about_training_look_as_documented(tmp_path: Path) -> None:
    with serving(tmp_path) as harness, harness.client() as client:
        seen = _Seen(client)
        trained.code(harness, client)
        version, jobs = "/model/{model}/train/{version}", "/model/iris/train/1"
        job = seen("POST", version, jobs, json={"hyperparameters": {"a": 1}}, headers={"Idempotency-Key": "k"})["id"]
        seen("POST", version, jobs, json={"hyperparameters": {"a": 1}}, headers={"Idempotency-Key": "k"})
        one, at = f"{version}/{{job}}", f"{jobs}/{job}"
        trained.tell(harness, job, "Running")
        trained.report(harness, job, {"step": 1, "total": 3, "metrics": {"loss": 1}})
        saved = trained.save(harness, job, metrics={"loss": 0.5}, step=1)
        server = seen("POST", "/model/{model}/serve/{version}", "/model/iris/serve/1", json={"checkpoint_id": saved.id})
        assert server["parent_job"] == job
        seen("GET", "/model/{model}/train", "/model/iris/train")
        seen("GET", version, jobs)
        assert seen("GET", one, at)["servers"] == [{"id": server["id"], "checkpoint_id": saved.id}]
        seen("GET", "/model/{model}", "/model/iris")
        seen("GET", "/model/{model}/version/{version}", "/model/iris/version/1")
        seen("POST", f"{one}/suspend", f"{at}/suspend")
        seen("POST", f"{one}/resume", f"{at}/resume")
        seen("GET", f"{one}/checkpoint", f"{at}/checkpoint")
        checkpoint = f"{one}/checkpoint/{{checkpoint}}"
        seen("GET", checkpoint, f"{at}/checkpoint/{saved.id}")
        seen("DELETE", checkpoint, f"{at}/checkpoint/{saved.id}", refused=True)
        spare = trained.save(harness, job, "spare")
        seen("DELETE", checkpoint, f"{at}/checkpoint/{spare.id}")
        seen("DELETE", one, at)
        seen("DELETE", one, at)


class _Seen:
    """Asks, and compares the answer with what the document says of it."""

    def __init__(self, client: httpx2.Client) -> None:
        self.client = client
        self.paths = openapi.document()["paths"]

    def __call__(self, method: str, path: str, url: str, *, refused: bool = False, **sent: Any) -> Any:
        answer = self.client.request(method, url, **sent)
        assert answer.is_success is not refused, answer.text
        told = self.paths[path][method.lower()]["responses"]
        assert str(answer.status_code) in told, (method, path, answer.status_code)
        if not answer.content:
            return None
        response = told[str(answer.status_code)]
        schema = (
            {"$ref": "#/components/schemas/Status"} if "$ref" in response
            else response["content"]["application/json"]["schema"]
        )  # fmt: skip
        data = answer.json()
        assert list(_unlike(schema, data, url)) == []
        return data


def _unlike(schema: dict[str, Any], value: Any, at: str) -> Iterator[str]:
    """How the value differs from the schema; a field that it does not name is one of them."""
    if "$ref" in schema:
        schema = SCHEMAS[schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        if all(list(_unlike(one, value, at)) for one in schema["anyOf"]):
            yield f"{at}: none of them"
    elif value is None:
        if not schema.get("nullable"):
            yield f"{at}: null"
    elif "type" in schema and not isinstance(value, PYTHON[schema["type"]]):
        yield f"{at}: {value!r} is no {schema['type']}"
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _unlike(schema["items"], item, f"{at}[{index}]")
    elif isinstance(value, dict):
        yield from (f"{at}.{name}: not there" for name in schema.get("required", ()) if name not in value)
        for name, item in value.items():
            yield from _unlike_field(schema, name, item, f"{at}.{name}")


def _unlike_field(schema: dict[str, Any], name: str, value: Any, at: str) -> Iterator[str]:
    more = schema.get("additionalProperties", schema.get("x-kubernetes-preserve-unknown-fields", False))
    inner = schema.get("properties", {}).get(name, more)
    if inner is False:
        yield f"{at}: not documented"
    elif inner is not True:
        yield from _unlike(inner, value, at)


def _valid(message: str) -> set[str]:
    """The names in `unknown query parameter 'x'; valid are a, b`."""
    assert message.startswith("unknown query parameter"), message
    found = re.search(r"valid are (.*)$", message)
    return set(found[1].split(", ")) if found else set()
