"""src/mizzen/server/admin/openapi.json: the control API as an OpenAPI 3.0 document, from the kinds and the
operations."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from http import HTTPStatus
from typing import Any

from mizzen.errors import FAMILY
from mizzen.kinds.catalog import KINDS, Kind
from mizzen.kinds.schema.crd_schema import schema_of
from mizzen.kinds.schema.resource import API_VERSION
from mizzen.server.http.errors import STATUS
from mizzen.server.http.multipart import ARCHIVE_TYPES
from mizzen.server.kubernetes import protobuf
from tools.derived import examples, monitor_shapes, training_shapes
from tools.derived.core import CORE
from tools.derived.links import LINKS
from tools.derived.operations import (
    HEADERS,
    JSON,
    KIND,
    OPERATIONS,
    PARAMETERS,
    PATH_PARAMETERS,
    PATHS,
    RESOURCES,
    SENT,
    YAML,
    Operation,
)
from tools.derived.shapes import LISTS, SHAPES, Schema, many, ref
from tools.reference.errors import meaning

PATH = "src/mizzen/server/admin/openapi.json"
ABOUT = """\
Models, versions, servers and the people who use them, at `/model`, `/user`, `/secret` and `/audit`; every kind of
resource in the Kubernetes conventions under `/apis`. Every error is a `Status`. Changes are acknowledged when they are
on disk. What is sent as JSON may be YAML, too (`application/yaml`), and archives may come under their own types."""
ALIKE = {YAML, protobuf.MEDIA_TYPE, *ARCHIVE_TYPES} - {"application/octet-stream"}
"""Other ways to write what stands there as JSON or bytes. Generated clients need one way, and most know no other."""
SECURITY: list[dict[str, list[str]]] = [{}, {"bearer": []}]
"""Of what says nothing else: who sends no token may be somebody on this machine, who may read."""
SCHEMES = {"bearer": {"type": "http", "scheme": "bearer"}}
TAGS = {
    "plane": "The plane itself.",
    "models": "Models, their versions, aliases, servers and history.",
    "people": "Users, tokens, secrets and the audit.",
    "kubernetes": "What clients of Kubernetes ask beside objects: which kinds there are, and what they look like.",
}


def pages() -> dict[str, str]:
    return {PATH: text_of(document(), 3) + "\n"}


def document() -> dict[str, Any]:
    paths: dict[str, Any] = {}
    for operation, kind in written_out():
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, kind)
    return {
        "openapi": "3.0.3",
        "info": {"title": "Mizzen control API", "version": API_VERSION, "description": " ".join(ABOUT.split())},
        "tags": [{"name": name, "description": text} for name, text in TAGS.items()]
        + [{"name": kind.plural, "description": kind.about} for kind in KINDS],
        "security": SECURITY,
        "paths": paths,
        "components": {
            "securitySchemes": SCHEMES,
            "parameters": _all_parameters(),
            "responses": answers_of_failures("Status"),
            "schemas": schemas(),
        },
    }


def written_out() -> Iterator[tuple[Operation, Kind | None]]:
    """All operations, those of the resource API once for each kind that has them."""
    for operation in OPERATIONS:
        yield operation, None
    for kind in KINDS:
        for operation in RESOURCES:
            if (kind.internal and operation.writes) or operation.only not in ("", kind.name):
                continue
            yield _of_kind(operation, kind), kind


def schemas() -> dict[str, Schema]:
    found = {**SHAPES, **training_shapes.SHAPES, **monitor_shapes.SHAPES, **LISTS, **CORE}
    found |= {name: {**found[name], "example": example} for name, example in examples.BODIES.items()}
    for kind in KINDS:
        found |= {
            kind.name: {
                "type": "object",
                "description": kind.about,
                "properties": {
                    "apiVersion": {"type": "string", "enum": [API_VERSION]},
                    "kind": {"type": "string", "enum": [kind.name]},
                    "metadata": ref("ObjectMeta"),
                    "spec": ref(f"{kind.name}Spec"),
                    "status": ref(f"{kind.name}Status"),
                },
                "required": ["apiVersion", "kind", "metadata"],
            },
            f"{kind.name}List": {
                "type": "object",
                "properties": {
                    "apiVersion": {"type": "string"},
                    "kind": {"type": "string"},
                    "metadata": ref("ListMeta"),
                    "items": many(ref(kind.name)),
                },
            },
            f"{kind.name}Spec": schema_of(kind.spec, long=True),
            f"{kind.name}Status": schema_of(kind.status, long=True),
        }
    return found


def failures(operation: Operation) -> tuple[int, ...]:
    """Codes of errors that the operation may answer."""
    codes = {401, 403, 429, 503}
    if operation.query or operation.body:
        codes.add(400)
    if "{" in operation.path:
        codes.add(404)
    if operation.conflicts:
        codes.add(409)
    if "continue" in operation.query:
        codes.add(410)
    if operation.body or "propagationPolicy" in operation.query:
        codes |= {413, 415, 422, 507}  # a deletion may have options in its body
    if "namespace" in operation.query or any(part in operation.path for part in ("{namespace}", "{digest}")):
        codes.add(422)
    return tuple(sorted(codes))


def _of_kind(operation: Operation, kind: Kind) -> Operation:
    return replace(
        operation,
        path=operation.path.replace("{plural}", kind.plural),
        id=operation.id.replace(KIND, f"{kind.name}Object"),
        tag=kind.plural,
    )


def _operation(operation: Operation, kind: Kind | None) -> dict[str, Any]:
    result: dict[str, Any] = {
        "operationId": operation.id,
        "summary": operation.summary,
        "tags": [operation.tag],
        **({"security": [{"bearer": []}]} if operation.needs_token else {}),
        "parameters": _parameters(operation),
        "responses": {str(code): _answer(operation, code, kind) for code in operation.answers}
        | {str(code): {"$ref": f"#/components/responses/{HTTPStatus(code).name}"} for code in failures(operation)},
    }
    if operation.body:
        bodies = {media: body for media, body in operation.body.items() if media not in ALIKE}
        content = {media: {"schema": _schema(body, kind)} for media, body in bodies.items()}
        result["requestBody"] = {"content": content, "required": operation.body_required}
    return result


def _parameters(operation: Operation) -> list[dict[str, Any]]:
    named = (
        *(("path", name) for name in re.findall(r"{(\w+)}", operation.path)),
        *(("query", name) for name in operation.query),
        *(("header", name) for name in operation.header),
    )
    return [{"$ref": f"#/components/parameters/{place}.{name}"} for place, name in named]


def _all_parameters() -> dict[str, Any]:
    word: Schema = {"type": "string"}
    rows = (
        *(("path", name, about, PATHS[name]) for name, about in PATH_PARAMETERS.items() if name != "plural"),
        *(("query", name, about, schema) for name, (schema, about) in PARAMETERS.items()),
        *(("header", name, about, word) for name, about in HEADERS.items()),
    )
    return {
        f"{place}.{name}": {
            "name": name, "in": place, "description": about, "schema": schema, "required": place == "path",
            **({"allowEmptyValue": True} if place == "query" else {}),
            **({"example": examples.PATHS[name]} if place == "path" and name in examples.PATHS else {}),
        }
        for place, name, about, schema in rows
    }  # fmt: skip


def _answer(operation: Operation, code: int, kind: Kind | None) -> dict[str, Any]:
    body = operation.answers[code]
    answer: dict[str, Any] = {"description": HTTPStatus(code).phrase}
    if operation.sends:
        answer["headers"] = {name: _header(name) for name in operation.sends}
    if code < HTTPStatus.MULTIPLE_CHOICES and operation.id in LINKS:
        answer["links"] = LINKS[operation.id]
    if body is not None:
        answer["content"] = {operation.media: {"schema": _schema(body, kind)}}
    if "watch" in operation.query:
        answer["content"]["application/json;stream=watch"] = {"schema": ref("WatchEvent")}
    return answer


def _header(name: str) -> dict[str, Any]:
    schema, about = SENT[name]
    return {"description": about, "required": True, "schema": schema}


def _schema(body: str | Schema, kind: Kind | None) -> Schema:
    if not isinstance(body, str):
        return body
    if "|" in body:
        return {"anyOf": [_schema(name, kind) for name in body.split("|")]}
    return ref(body.replace(KIND, kind.name) if kind else body)


def text_of(value: Any, depth: int) -> str:
    """JSON with a line for each path and each schema: a change is seen where it is."""
    if not depth or not isinstance(value, dict) or not value:
        return json.dumps(value, ensure_ascii=False)
    return "{\n" + ",\n".join(f"{json.dumps(key)}: {text_of(item, depth - 1)}" for key, item in value.items()) + "\n}"


def answers_of_failures(status: str) -> dict[str, Any]:
    """One for each code, with all the reasons that have it. `status`: what the document calls their shape."""
    found: dict[int, list[str]] = {HTTPStatus.METHOD_NOT_ALLOWED: ["`MethodNotAllowed`: nobody does this here."]}
    for reason, cls in FAMILY.items():
        code = next(STATUS[base] for base in cls.__mro__ if base in STATUS)
        found.setdefault(code, []).append(f"`{reason}`: {meaning(cls)}")
    return {
        HTTPStatus(code).name: {"description": " ".join(texts), "content": {JSON: {"schema": ref(status)}}}
        for code, texts in sorted(found.items())
    }
