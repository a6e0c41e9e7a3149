"""The OpenAPI document of the inference API: by the paths and messages of the gateway, and by what it answers."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mizzen.gateway.request import url_paths
from mizzen.graph.table_types import Callee, CompiledGraph, Node, Plan, RecordLimits, Route
from mizzen.protocol import v2
from tests.support.gateway.harness import (
    LIMITS,
    Gateway,
    Response,
    body_of,
    listening,
    publish,
    short_folder,
    table_of,
)
from tests.support.gateway.models import Counting, ModelRuntime
from tools.derived import inference

DOCUMENT = inference.document()
AT = {"namespace": "default", "model": "m", "version": "1", "label": "prod"}
BODIES = {
    "infer": body_of([1, 2], id="known"),
    "predict": b'{"instances": [[1, 2]]}',
    "feedback": b'{"id": "known", "reward": 1}',
    "explain": body_of([1, 2]),
}
"""By the tail of a path."""
PYTHON = {"string": str, "boolean": bool, "integer": int, "number": float, "array": list, "object": dict}


@contextmanager
def serving(**more: Any) -> Iterator[Gateway]:
    """The name `m`, by a runtime of ours, and the graph `g` that calls it."""
    with short_folder() as folder, listening() as listener, ExitStack() as stack:
        runtime = ModelRuntime(str(folder / "0.sock"), Counting())
        stack.callback(runtime.close)
        table = table_of(runtime.address)
        kept = RecordLimits(uid="u", max_bytes=1 << 20, max_seconds=3600.0)
        routes = tuple(
            msgspec.structs.replace(
                route, aliases={"prod": "1"}, plan=msgspec.structs.replace(route.plan, kept=kept),
                versions={name: msgspec.structs.replace(each, kept=kept) for name, each in route.versions.items()},
            )
            for route in table.routes
        )  # fmt: skip
        graph = Plan(graph=CompiledGraph(uid="g", generation=1, nodes=(Node(name="a", call=Callee(name="m")),)))
        calling = Route(namespace="default", name="g", version="1", plan=graph, versions={"1": graph})
        publish(folder / "table.json", msgspec.structs.replace(table, routes=(*routes, calling)))
        gateway = Gateway(listener, folder / "table.json", LIMITS, **more)
        stack.callback(gateway.close)
        yield gateway


def test_the_file_is_the_document() -> None:
    [(name, text)] = inference.pages().items()
    assert json.loads(text) == DOCUMENT == json.loads(Path(name).read_text())


def test_it_has_every_path_of_the_gateway_and_no_other() -> None:
    served = {(path.method, path.pattern) for path in url_paths.PATHS}
    served |= {(path.method, f"/ns/{{namespace}}{path.pattern}") for path in url_paths.PATHS if path.anywhere}
    assert {(method, path) for path, method, _ in _operations()} == served


def test_what_has_no_words_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inference, "PATHS", (*url_paths.PATHS, url_paths.Path("/v2/new", "new")))
    with pytest.raises(KeyError, match="new"):
        inference.document()


def test_operations_are_named_once_and_declare_what_stands_in_their_paths() -> None:
    names = Counter(operation["operationId"] for _, _, operation in _operations())
    assert [name for name, times in names.items() if times > 1] == []
    for path, _, operation in _operations():
        assert re.fullmatch(r"[a-z][A-Za-z]+", operation["operationId"])
        parameters = [_resolved(parameter) for parameter in operation["parameters"]]
        assert [one["name"] for one in parameters if one["in"] == "path"] == re.findall(r"{(\w+)}", path)


def test_every_component_is_used_and_every_reference_leads_somewhere() -> None:
    used = set(_references(DOCUMENT))
    sections = {name: DOCUMENT["components"][name] for name in ("parameters", "responses", "schemas")}
    assert used == {f"#/components/{name}/{one}" for name, section in sections.items() for one in section}


@pytest.mark.parametrize("struct", [v2.InferRequest, v2.InputTensor, v2.RequestedOutput])
def test_messages_have_the_fields_that_are_read(struct: type[msgspec.Struct]) -> None:
    schema = DOCUMENT["components"]["schemas"][struct.__name__]
    fields = msgspec.structs.fields(struct)
    assert set(schema["properties"]) == {field.name for field in fields}
    assert set(schema.get("required", ())) == {field.name for field in fields if field.required}
    assert {name for name, inner in schema["properties"].items() if inner.get("nullable")} == {
        field.name for field in fields if not field.required
    }


def test_each_operation_answers_as_documented() -> None:
    with serving() as gateway:
        gateway.wait_ready()
        for path, method, operation in _operations():
            body = _body(path)
            good = 503 if _asks_the_plane(path) else 200
            tried = [(good, _url(path), body, "127.0.0.1"), (403, _url(path), body, "example.com")]
            if "{model}" in path and not _asks_the_plane(path):
                tried.append((404, path.format(**{**AT, "model": "nobody"}), body, "127.0.0.1"))
            if method == "POST":
                tried.append((400, _url(path), b"[]", "127.0.0.1"))
            if path.endswith("explain"):
                tried.append((409, path.format(**AT), body, "127.0.0.1"))
            for code, url, sent, host in tried:
                answer = gateway.ask(method, url, sent, Host=host)
                assert answer.status == code, url
                _compare(operation, answer)


def test_refusals_are_documented_where_there_are_some() -> None:
    with serving(anonymous=False) as gateway:
        for path, method, operation in _operations():
            answer = gateway.ask(method, _url(path), _body(path))
            refused = 503 if _asks_the_plane(path) else 401
            assert answer.status == (refused if "401" in operation["responses"] else 200), path
            _compare(operation, answer)


def _url(path: str) -> str:
    return path.format(**{**AT, "model": "g"} if path.endswith("explain") else AT)


def _body(path: str) -> bytes:
    return BODIES.get(path.replace(":", "/").rpartition("/")[2], b"")


def _asks_the_plane(path: str) -> bool:
    """This gateway has none."""
    return path.endswith("load")


def _operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            yield path, method.upper(), operation


def _compare(operation: dict[str, Any], answer: Response) -> None:
    assert str(answer.status) in operation["responses"], (operation["operationId"], answer)
    content = _resolved(operation["responses"][str(answer.status)])["content"]
    media = answer.headers["content-type"].partition(";")[0]
    told = content[media]
    value = answer.json if media == "application/json" else answer.body.decode()
    assert list(_unlike(told["schema"], value, operation["operationId"])) == []


def _unlike(schema: dict[str, Any], value: Any, at: str) -> Iterator[str]:
    schema = _resolved(schema)
    if "type" in schema and not isinstance(value, PYTHON[schema["type"]]):
        yield f"{at}: {value!r} is no {schema['type']}"
    elif isinstance(value, list):
        for item in value:
            yield from _unlike(schema["items"], item, f"{at}[]")
    elif isinstance(value, dict) and "properties" in schema:
        yield from (f"{at}.{name}: not documented" for name in value.keys() - schema["properties"].keys())
        yield from (f"{at}.{name}: missing" for name in set(schema.get("required", ())) - value.keys())
        for name in value.keys() & schema["properties"].keys():
            yield from _unlike(schema["properties"][name], value[name], f"{at}.{name}")


def _resolved(node: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in node:
        return node
    found: Any = DOCUMENT
    for step in node["$ref"].removeprefix("#/").split("/"):
        found = found[step]
    return dict(found)


def _references(node: Any) -> Iterator[str]:
    match node:
        case {"$ref": str(target)}:
            yield target
        case dict():
            for inner in node.values():
                yield from _references(inner)
        case list():
            for inner in node:
                yield from _references(inner)
