"""The OpenAPI document: by the rules of OpenAPI 3.0, and of the app's own routes."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.routing import Route

from mizzen.kinds.catalog import KINDS
from mizzen.kinds.schema.crd_schema import schema_of
from mizzen.server.monitor.routes import is_for_browsers
from tests.support.server.harness import serving
from tools.derived import openapi
from tools.derived.operations import OPERATIONS, RESOURCES, Operation

DOCUMENT = openapi.document()
METHODS = {"get", "put", "post", "delete", "head", "patch"}
KEYWORDS = frozenset(
    {
        "type", "format", "description", "properties", "required", "items", "additionalProperties", "enum", "nullable",
        "minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "minLength", "maxLength", "minItems", "maxItems",
        "minProperties", "maxProperties", "pattern", "anyOf", "not", "example", "$ref", "x-propertyNames",
        "x-kubernetes-preserve-unknown-fields", "x-kubernetes-int-or-string",
    }
)  # fmt: skip


def test_the_file_is_the_document() -> None:
    [text] = openapi.pages().values()
    assert json.loads(text) == DOCUMENT


def test_every_reference_leads_somewhere_and_stands_alone() -> None:
    seen = list(_references(DOCUMENT))
    assert len(seen) > 500
    for node in seen:
        assert set(node) == {"$ref"}  # whatever stands beside it is ignored in 3.0
        found: Any = DOCUMENT
        for step in node["$ref"].removeprefix("#/").split("/"):
            found = found[step]


def test_everything_in_the_components_is_used() -> None:
    used = {node["$ref"] for node in _references(DOCUMENT)}
    for section in ("parameters", "schemas"):
        unused = [name for name in DOCUMENT["components"][section] if f"#/components/{section}/{name}" not in used]
        assert unused == []


def test_every_path_declares_its_parameters() -> None:
    for path, _, operation in _operations():
        parameters = [_resolved(parameter) for parameter in operation["parameters"]]
        keys = [(parameter["name"], parameter["in"]) for parameter in parameters]
        assert len(set(keys)) == len(keys)
        assert {name for name, place in keys if place == "path"} == set(re.findall(r"{(\w+)}", path))
        assert all(parameter["required"] for parameter in parameters if parameter["in"] == "path")


def test_every_operation_is_named_once_and_says_what_it_does() -> None:
    names = Counter(operation["operationId"] for _, _, operation in _operations())
    assert [name for name, times in names.items() if times > 1] == []
    tags = {tag["name"] for tag in DOCUMENT["tags"]}
    for path, method, operation in _operations():
        assert operation["summary"].endswith("."), (path, method)
        assert set(operation["tags"]) <= tags
        assert any(code.startswith("2") for code in operation["responses"])
        assert all(_resolved(answer)["description"] for answer in operation["responses"].values())
        assert method not in ("get", "head", "delete") or "requestBody" not in operation


def test_schemas_use_the_words_of_openapi() -> None:
    for name, schema in DOCUMENT["components"]["schemas"].items():
        assert re.fullmatch(r"[A-Za-z0-9._-]+", name)
        for node in _schemas(schema):
            assert set(node) <= KEYWORDS, (name, node)
            assert node.get("type") != "array" or "items" in node
            assert not node.get("nullable") or ("type" in node and None in node.get("enum", [None]))


def test_kinds_stand_in_it_in_their_long_form() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    for kind in KINDS:
        assert schemas[f"{kind.name}Spec"] == schema_of(kind.spec, long=True)
        assert {kind.name, f"{kind.name}List", f"{kind.name}Status"} <= set(schemas)
    assert schemas["MLGraphSpec"]["properties"]["dag"]["type"] == "array"


def test_internal_kinds_can_only_be_read() -> None:
    for kind in KINDS:
        methods = {method for path, method, _ in _operations() if f"/{kind.plural}" in path}
        assert methods == ({"get"} if kind.internal else {"get", "post", "put", "patch", "delete"})


def test_it_has_every_route_of_the_app_and_no_other(tmp_path: Path) -> None:
    with serving(tmp_path) as harness:
        served = _served(harness.app.routes)
    told = {operation.key for operation in (*OPERATIONS, *RESOURCES)}
    assert told - served == set()
    assert served - told == set()
    assert {(method.upper(), path) for path, method, _ in _operations()} == {
        operation.key for operation, _ in openapi.written_out()
    }


def test_a_route_that_is_not_in_it_is_noticed(tmp_path: Path) -> None:
    async def nothing(_: object) -> None: ...

    with serving(tmp_path) as harness:
        served = _served([*harness.app.routes, Route("/new", nothing, methods=["POST"])])
    assert served - {operation.key for operation in (*OPERATIONS, *RESOURCES)} == {("POST", "/new")}


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.id)
def test_errors_follow_from_what_an_operation_takes(operation: Operation) -> None:
    codes = set(openapi.failures(operation))
    assert {401, 403, 503} <= codes
    assert (404 in codes) == ("{" in operation.path)
    taken = bool(operation.body) or bool({"namespace", "propagationPolicy"} & {*operation.query})
    assert (422 in codes) == (taken or "{digest}" in operation.path or "{namespace}" in operation.path)


def _served(routes: list[Any]) -> set[tuple[str, str]]:
    """Starlette adds HEAD to every GET, and discovery is found with a slash at its end, too; that needs no words. Nor
    do pages for people."""
    found: set[tuple[str, str]] = set()
    for route in routes:
        if is_for_browsers(route.path):
            continue
        methods = set(route.methods or ())
        found |= {
            (method, route.path.rstrip("/") or "/") for method in methods - ({"HEAD"} if "GET" in methods else set())
        }
    return found


def _operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in DOCUMENT["paths"].items():
        assert set(methods) <= METHODS
        for method, operation in methods.items():
            yield path, method, operation


def _references(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        if "$ref" in node:
            yield node
        for inner in node.values():
            yield from _references(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from _references(inner)


def _resolved(node: dict[str, Any]) -> dict[str, Any]:
    found: Any = DOCUMENT
    for step in node["$ref"].removeprefix("#/").split("/") if "$ref" in node else ():
        found = found[step]
    return node if found is DOCUMENT else dict(found)


def _schemas(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield schema
    inner = [*schema.get("properties", {}).values(), *schema.get("anyOf", ())]
    inner += [schema[key] for key in ("items", "additionalProperties") if isinstance(schema.get(key), dict)]
    for one in inner:
        yield from _schemas(one)
