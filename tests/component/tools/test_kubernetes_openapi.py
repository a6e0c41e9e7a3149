"""The documents of /openapi/v3: by the rules of OpenAPI, with what kubectl looks for, and of the app's own routes."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from mizzen.kinds.catalog import KINDS, Kind
from mizzen.server.kubernetes import discovery
from mizzen.server.resources.routes import ROOT
from tests.support.server.harness import serving
from tools.derived import kubernetes_openapi
from tools.derived.kubernetes_schemas import META
from tools.derived.operations import PATCHES

ROOTS = list(dict.fromkeys(entry.root for entry in kubernetes_openapi.ENTRIES))
DOCUMENTS = {root: kubernetes_openapi.document(root) for root in ROOTS}
ALL = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
EACH = pytest.mark.parametrize("root", ROOTS)
CHECKOUT = Path(__file__).resolve().parents[3]


def test_the_files_are_the_documents() -> None:
    pages = kubernetes_openapi.pages()
    assert set(pages) == {f"{kubernetes_openapi.FOLDER}{root}.json" for root in ROOTS}
    for root in ROOTS:
        text = pages[f"{kubernetes_openapi.FOLDER}{root}.json"]
        assert json.loads(text) == DOCUMENTS[root]
        assert (CHECKOUT / f"{kubernetes_openapi.FOLDER}{root}.json").read_text() == text, "run 'make gen'"


@EACH
def test_every_reference_leads_somewhere_and_every_shape_is_used(root: str) -> None:
    document = DOCUMENTS[root]
    used = set(_references(document))
    there = {
        f"#/components/{part}/{name}" for part in ("schemas", "responses") for name in document["components"][part]
    }
    assert used - there == set()
    assert [name for name in document["components"]["schemas"] if f"#/components/schemas/{name}" not in used] == []


@EACH
def test_every_operation_says_its_kind_and_action(root: str) -> None:
    for path, method, operation in _operations(root):
        kind = operation["x-kubernetes-group-version-kind"]
        assert set(kind) == {"group", "version", "kind"}, path
        wanted = {"get": {"list", "get"}, "delete": {"delete", "deletecollection"}}.get(method, {method})
        assert operation["x-kubernetes-action"] in wanted, path


@EACH
def test_every_error_is_a_status_with_its_own_code(root: str) -> None:
    document = DOCUMENTS[root]
    for path, method, operation in _operations(root):
        failures = {code: answer for code, answer in operation["responses"].items() if int(code) >= 400}
        assert {"401", "403", "503"} <= set(failures), (path, method)
        for code, answer in failures.items():
            name = answer["$ref"].removeprefix("#/components/responses/")
            assert name == HTTPStatus(int(code)).name
            content = document["components"]["responses"][name]["content"]
            assert content["application/json"]["schema"]["$ref"].endswith(".Status")


@EACH
def test_parameters_are_written_out(root: str) -> None:
    """kubectl finds none behind a reference."""
    for path, method, operation in _operations(root):
        parameters = operation["parameters"]
        assert all(parameter["name"] and parameter["description"] for parameter in parameters)
        named = [parameter["name"] for parameter in parameters if parameter["in"] == "path"]
        assert named == re.findall(r"{(\w+)}", path), (path, method)
        assert len({parameter["name"] for parameter in parameters}) == len(parameters)


@EACH
def test_operations_are_named_once(root: str) -> None:
    names = Counter(operation["operationId"] for _, _, operation in _operations(root))
    assert [name for name, times in names.items() if times > 1] == []


@ALL
def test_every_kind_is_explained_with_its_fields(kind: Kind) -> None:
    schema = DOCUMENTS[ROOT]["components"]["schemas"][f"dev.mizzen.v1alpha1.{kind.name}"]
    assert schema["description"] == kind.about
    assert schema["x-kubernetes-group-version-kind"] == [
        {"group": "mizzen.dev", "version": "v1alpha1", "kind": kind.name}
    ]
    for part, cls in (("spec", kind.spec), ("status", kind.status)):
        assert schema["properties"][part]["description"]
        fields = schema["properties"][part].get("properties", {})
        assert set(fields) == {info.alias or name for name, info in cls.model_fields.items()}
        assert all(field.get("description") for field in fields.values())


def test_the_nodes_of_a_graph_can_be_explained() -> None:
    schema = DOCUMENTS[ROOT]["components"]["schemas"]["dev.mizzen.v1alpha1.MLGraph"]
    dag = schema["properties"]["spec"]["properties"]["dag"]
    assert dag["type"] == "array"
    split = dag["items"]["properties"]["route"]["properties"]["split"]
    assert {"traffic", "key"} <= set(split["properties"])


def test_what_is_a_number_or_a_text_has_the_name_that_kubectl_shows() -> None:
    schema = DOCUMENTS[ROOT]["components"]["schemas"]["dev.mizzen.v1alpha1.InferenceModel"]
    size = schema["properties"]["spec"]["properties"]["batching"]["properties"]["batchSize"]
    assert size["allOf"][0]["$ref"].endswith(".IntOrString")
    assert size["description"]


def test_metadata_is_explained() -> None:
    fields = DOCUMENTS[ROOT]["components"]["schemas"][f"{META}.ObjectMeta"]["properties"]
    assert {"name", "labels", "managedFields", "ownerReferences", "finalizers", "resourceVersion"} <= set(fields)
    assert all(field["description"] for field in fields.values())


@ALL
def test_a_patch_says_that_unknown_fields_are_looked_for(kind: Kind) -> None:
    """Also of what nobody writes: else kubectl gives up before it is told so."""
    _may_be_patched(f"{ROOT}/namespaces/{{namespace}}/{kind.plural}/{{name}}", kind.name)
    if not kind.internal:
        _may_be_patched(f"{ROOT}/namespaces/{{namespace}}/{kind.plural}/{{name}}/status", kind.name)


def test_a_namespace_says_so_too() -> None:
    """Of a kind that it does not find kubectl believes what holds for namespaces."""
    _may_be_patched("/api/v1/namespaces/{name}", "Namespace")


def test_patches_are_not_strategic() -> None:
    """kubectl would send a merge that needs the types of Kubernetes, if it were offered."""
    for root in ROOTS:
        for _, method, operation in _operations(root):
            if method == "patch":
                assert set(operation["requestBody"]["content"]) == set(PATCHES)


@ALL
def test_internal_kinds_can_only_be_read(kind: Kind) -> None:
    found = [row for row in _operations(ROOT) if re.search(rf"/{kind.plural}(/|$)", row[0])]
    done = {method for _, method, operation in found if {"200", "201"} & operation["responses"].keys()}
    assert done == ({"get"} if kind.internal else {"get", "post", "put", "patch", "delete"})


def test_servers_can_be_scaled() -> None:
    scaled = [row for row in _operations(ROOT) if row[0].endswith("/scale")]
    assert {path for path, _, _ in scaled} == {f"{ROOT}/namespaces/{{namespace}}/inferencemodels/{{name}}/scale"}
    assert {method for _, method, _ in scaled} == {"get", "put", "patch"}
    assert {_kind(operation) for _, _, operation in scaled} == {"Scale"}


def test_a_document_has_the_routes_of_the_app_and_no_others(tmp_path: Path) -> None:
    with serving(tmp_path) as harness:
        routes: list[Any] = list(harness.app.routes)
    served = {
        (method.lower(), route.path.replace("{plural}", "inferencemodels"))
        for route in routes
        for method in route.methods
        if "{plural}" in route.path and method != "HEAD"
    }
    told = {(method, path) for path, method, _ in _operations(ROOT) if "/inferencemodels" in path}
    assert served == told


def test_namespaces_stand_in_no_namespace() -> None:
    paths = {path for path, _, operation in _operations("/api/v1") if _kind(operation) == "Namespace"}
    assert paths == {"/api/v1/namespaces", "/api/v1/namespaces/{name}"}


def test_reviews_are_only_sent() -> None:
    for root in (f"/apis/{discovery.AUTHORIZATION}", f"/apis/{discovery.AUTHENTICATION}"):
        assert {method for _, method, _ in _operations(root)} == {"post"}


def _may_be_patched(path: str, kind: str) -> None:
    root = next(root for root in ROOTS if path.startswith(f"{root}/"))
    operation = DOCUMENTS[root]["paths"][path]["patch"]
    assert _kind(operation) == kind
    names = {parameter["name"] for parameter in operation["parameters"]}
    assert {"dryRun", "fieldManager", "fieldValidation", "force"} <= names


def _kind(operation: dict[str, Any]) -> str:
    return str(operation["x-kubernetes-group-version-kind"]["kind"])


def _operations(root: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in DOCUMENTS[root]["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if "$ref" in node:
            yield node["$ref"]
        for inner in node.values():
            yield from _references(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from _references(inner)
