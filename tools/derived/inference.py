"""src/mizzen/gateway/openapi.json: the inference API as an OpenAPI 3.0 document, from the paths of the gateway.

Each path of `mizzen.gateway.paths` needs a row in `ANSWERS`, under what it asks for. Paths that name a namespace, or
a version, are operations of their own, since OpenAPI knows no optional parts of a path.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from http import HTTPStatus
from typing import Any

from mizzen.gateway import paths
from mizzen.gateway.paths import NAMESPACE, PATHS
from mizzen.protocol import v2
from tools.derived.openapi import text_of
from tools.derived.operations import JSON, Operation
from tools.derived.shapes import FLAG, NUMBER, OPEN, Schema, many, maybe, needs, ref, shape, text

PATH = "src/mizzen/gateway/openapi.json"
ABOUT = """\
The Open Inference Protocol (V2) in JSON. Paths without a namespace mean `default`. A version in a path may be an alias.
Every error is `{"error": text}`. Wherever it goes, a request that is no HTTP, comes too slowly or is too large is
refused with 400, 408, 413 or 431."""
TAGS = {
    "server": "The gateway itself.",
    "models": "What is served, and what it answers.",
}
NAMED = {
    "namespace": "The namespace.",
    "model": "A model, an InferenceModel or an MLGraph, by its name.",
    "version": "A version that is served, or an alias.",
}
HEADERS = {
    "If-None-Match": "The ETag of a document that is there already: 304 when it is still the same.",
    "Mizzen-Timeout-Ms": "Milliseconds to wait for an answer, if less than the server's own limit.",
}
MEANT = {
    400: "The request cannot be read, or does not fit what the model takes.",
    401: "A token is needed, or this one is not good.",
    403: "These rights do not reach that far, or the request comes from a page of somebody else.",
    404: "There is no such model or version.",
    408: "The request took too long to come in.",
    413: "The body is too large.",
    500: "The model raised an error.",
    502: "The process that worked on it was lost.",
    503: "Nothing there is ready now, or too much waits; `Retry-After` says when to come again.",
    504: "It took longer than it may.",
}
"""Errors by code, in words."""

_TENSOR: dict[str, Schema] = {
    "name": {**text(), "minLength": 1},
    "shape": many({**NUMBER, "minimum": 0, "maximum": v2.MAX_ELEMENTS}),
    "datatype": {"type": "string", "enum": list(v2.Datatype.__args__)},  # type: ignore[attr-defined]
    "data": {"type": "array", "items": {}, "description": "The values, in rows or flat."},
}
_SHAPED = many({**NUMBER, "description": "-1: any size."})

SHAPES: dict[str, Schema] = {
    "Error": needs(shape("Of every error.", error=text("What is wrong, for people.")), "error"),
    "Index": needs(shape("", name=text(), links=many(text())), "name", "links"),
    "Health": needs(shape("", status=text("`ok`")), "status"),
    "Live": needs(shape("", live=FLAG), "live"),
    "Ready": needs(shape("", ready=FLAG, live=FLAG), "ready", "live"),
    "ServerMetadata": needs(shape("", name=text(), version=text(), extensions=many(text())), "name", "version",
                            "extensions"),
    "ModelList": needs(shape("", models=many(ref("ListedModel"))), "models"),
    "ListedModel": needs(
        shape("", name=text(), version=text("The one that answers to the name."), ready=FLAG), "name", "version",
        "ready",
    ),
    "ModelReady": needs(shape("", name=text(), ready=FLAG), "name", "ready"),
    "TensorMetadata": needs(shape("", name=text(), datatype=text(), shape=_SHAPED), "name", "datatype", "shape"),
    "ModelMetadata": needs(
        shape(
            "",
            name=text(), versions=many(text()), platform=text("What loads it."),
            inputs={**many(ref("TensorMetadata")), "description": "Empty: it takes what it is given."},
            outputs=many(ref("TensorMetadata")),
        ),
        "name", "versions", "platform", "inputs", "outputs",
    ),
    "InputTensor": needs(shape("", **_TENSOR, parameters=maybe(OPEN)), "name", "shape", "datatype", "data"),
    "RequestedOutput": needs(shape("", name=_TENSOR["name"], parameters=maybe(OPEN)), "name"),
    "InferRequest": needs(
        shape(
            "",
            inputs={**many(ref("InputTensor")), "minItems": 1},
            id=maybe({**text("Comes back with the answer."), "maxLength": v2.MAX_ID}),
            parameters=maybe({**OPEN, "description": "`timeout`: how long it may take, in microseconds."}),
            outputs={**maybe(many(ref("RequestedOutput"))), "description": "Only these; all, if absent."},
        ),
        "inputs",
    ),
    "OutputTensor": needs(shape("", **_TENSOR), "name", "shape", "datatype", "data"),
    "InferResponse": needs(
        shape(
            "",
            model_name=text(), model_version=text("The version that answered, also to a name or an alias."),
            id=text("As it was sent, or a new one."), outputs=many(ref("OutputTensor")),
        ),
        "model_name", "model_version", "id", "outputs",
    ),
}  # fmt: skip

ANSWERS: dict[str, Operation] = {
    "index": Operation("GET", "", "index", "Where things are.", {200: "Index"}, tag="server"),
    "health": Operation("GET", "", "health", "Whether the gateway lives.", {200: "Health"}, tag="server"),
    "metrics": Operation("GET", "", "metrics", "Figures for Prometheus, of what one may see.", {200: text()},
                         media="text/plain", tag="server"),
    "document": Operation("GET", "", "openapi", "This document.", {200: {"type": "object"}, 304: None},
                          header=("If-None-Match",), tag="server"),
    "server": Operation("GET", "", "serverMetadata", "Which server this is.", {200: "ServerMetadata"}, tag="server"),
    "live": Operation("GET", "", "serverLive", "Whether the gateway lives.", {200: "Live"}, tag="server"),
    "ready": Operation("GET", "", "serverReady", "Whether the gateway takes requests.", {200: "Ready"}, tag="server"),
    "models": Operation("GET", "", "listModels", "What is served in a namespace, and one may see.",
                        {200: "ModelList"}),
    "metadata": Operation("GET", "", "modelMetadata", "Versions, inputs and outputs.", {200: "ModelMetadata"}),
    "model_ready": Operation("GET", "", "modelReady", "Whether it is ready: 503 if not.", {200: "ModelReady"}),
    "infer": Operation("POST", "", "infer", "Predict.", {200: "InferResponse"}, body={JSON: "InferRequest"},
                       header=("Mizzen-Timeout-Ms",)),
}  # fmt: skip
"""By what a path asks for."""
OPEN_TO_ALL = ("index", "health", "live", "ready")


def pages() -> dict[str, str]:
    return {PATH: text_of(document(), 3) + "\n"}


def document() -> dict[str, Any]:
    described: dict[str, Any] = {}
    for operation, what in operations():
        described.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, what)
    return {
        "openapi": "3.0.3",
        "info": {"title": "Mizzen inference API", "version": "v2", "description": " ".join(ABOUT.split())},
        "tags": [{"name": name, "description": about} for name, about in TAGS.items()],
        "security": [{}, {"bearer": []}],
        "paths": described,
        "components": {
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            "parameters": _all_parameters(),
            "responses": {
                HTTPStatus(code).name: {"description": about, "content": {JSON: {"schema": ref("Error")}}}
                for code, about in MEANT.items()
            },
            "schemas": SHAPES,
        },
    }


def operations() -> Iterator[tuple[Operation, str]]:
    """One for each path, and each with a namespace before it, with what it asks for."""
    for path in PATHS:
        yield _placed(path, path.pattern), path.what
    for path in PATHS:
        if path.anywhere:
            yield _placed(path, NAMESPACE + path.pattern), path.what


def failures(operation: Operation, what: str) -> tuple[int, ...]:
    """Codes of errors that it may answer."""
    codes = {403}
    if what not in OPEN_TO_ALL:
        codes |= {401, 503}
    if "{model}" in operation.path:
        codes.add(404)
    if operation.body:
        codes |= {400, 408, 413, 500, 502, 504}
    return tuple(sorted(codes))


def _placed(path: paths.Path, pattern: str) -> Operation:
    row = ANSWERS[path.what]
    assert row.method == path.method
    version, within = "{version}" in pattern, pattern.startswith(NAMESPACE)
    id_ = row.id + ("OfVersion" if version else "") + ("InNamespace" if within else "")
    return replace(row, path=pattern, id=id_)


def _operation(operation: Operation, what: str) -> dict[str, Any]:
    named = (
        *(("path", name) for name in re.findall(r"{(\w+)}", operation.path)),
        *(("header", name) for name in operation.header),
    )
    result: dict[str, Any] = {
        "operationId": operation.id,
        "summary": operation.summary,
        "tags": [operation.tag],
        "parameters": [{"$ref": f"#/components/parameters/{place}.{name}"} for place, name in named],
        "responses": {str(code): _answer(operation, code) for code in operation.answers}
        | {
            str(code): {"$ref": f"#/components/responses/{HTTPStatus(code).name}"} for code in failures(operation, what)
        },
    }
    if operation.body:
        content = {media: {"schema": _schema(body)} for media, body in operation.body.items()}
        result["requestBody"] = {"content": content, "required": operation.body_required}
    return result


def _answer(operation: Operation, code: int) -> dict[str, Any]:
    body = operation.answers[code]
    answer: dict[str, Any] = {"description": HTTPStatus(code).phrase}
    return answer if body is None else {**answer, "content": {operation.media: {"schema": _schema(body)}}}


def _schema(body: str | Schema) -> Schema:
    return ref(body) if isinstance(body, str) else body


def _all_parameters() -> dict[str, Any]:
    rows = (
        *(("path", name, about) for name, about in NAMED.items()),
        *(("header", name, about) for name, about in HEADERS.items()),
    )
    return {
        f"{place}.{name}": {
            "name": name, "in": place, "description": about, "schema": {"type": "string"}, "required": place == "path",
        }
        for place, name, about in rows
    }  # fmt: skip
