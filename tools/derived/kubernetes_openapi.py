"""src/mizzen/server/kubernetes/openapi/: the documents of `/openapi/v3`, one for each group and version.

They follow Kubernetes' conventions, and are generated from the same rows as openapi.json. kubectl reads the kind of
each operation in `x-kubernetes-group-version-kind`. From the parameters of PATCH it learns whether the server itself
rejects unknown fields; it follows no reference to a parameter, so they are written out each time. Read-only kinds also
have a PATCH: without one, kubectl gives up before it sends a request, and does not say why.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any

from mizzen.kinds import catalog
from mizzen.kinds.schema.resource import API_VERSION
from mizzen.server.kubernetes import access_reviews, crds, discovery
from mizzen.server.resources.routes import ROOT
from tools.derived import kubernetes_schemas, openapi
from tools.derived.kubernetes_schemas import META, SHARED
from tools.derived.operations import (
    EVERYWHERE,
    KIND,
    KIND_LIST,
    ONE,
    PARAMETERS,
    PATH_PARAMETERS,
    RESOURCES,
    WITHIN,
    Operation,
    one,
)
from tools.derived.shapes import Schema, ref

FOLDER = "src/mizzen/server/kubernetes/openapi"
NAMES = {
    "Status": f"{META}.Status",
    "Patch": f"{META}.Patch",
    "JsonPatch": f"{META}.JsonPatch",
    "Scale": "io.k8s.api.autoscaling.v1.Scale",
}
"""Kubernetes' names of the schemas that the rows refer to."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A kind in a document."""

    version: str
    """With its group, unless that is the core group."""
    kind: str
    plural: str
    schema: Schema
    prefix: str
    """Prefix of its schema names."""
    writable: bool = True
    namespaced: bool = True
    asked: bool = False
    """Clients only create it to read the response; it is never stored."""
    fixed: bool = False
    """It is read-only and never changes."""

    @property
    def name(self) -> str:
        return f"{self.prefix}.{self.kind}"

    @property
    def root(self) -> str:
        return f"/apis/{self.version}" if "/" in self.version else f"/api/{self.version}"


ENTRIES: tuple[Entry, ...] = (
    *(
        Entry(
            API_VERSION, kind.name, kind.plural, kubernetes_schemas.of_kind(kind), "dev.mizzen.v1alpha1",
            writable=not kind.internal,
        )
        for kind in catalog.KINDS
    ),
    Entry("v1", "Namespace", "namespaces", kubernetes_schemas.NAMESPACE, kubernetes_schemas.CORE, namespaced=False),
    Entry("v1", "Event", "events", kubernetes_schemas.EVENT, kubernetes_schemas.CORE, writable=False),
    Entry(discovery.AUTHORIZATION, "SelfSubjectAccessReview", "selfsubjectaccessreviews",
          kubernetes_schemas.ACCESS_REVIEW, kubernetes_schemas.AUTHORIZATION, namespaced=False, asked=True),
    Entry(discovery.AUTHORIZATION, "SelfSubjectRulesReview", "selfsubjectrulesreviews", kubernetes_schemas.RULES_REVIEW,
          kubernetes_schemas.AUTHORIZATION, namespaced=False, asked=True),
    Entry(discovery.AUTHENTICATION, "SelfSubjectReview", "selfsubjectreviews", kubernetes_schemas.SELF_REVIEW,
          kubernetes_schemas.AUTHENTICATION, namespaced=False, asked=True),
    Entry(discovery.DEFINITIONS, "CustomResourceDefinition", "customresourcedefinitions", kubernetes_schemas.DEFINITION,
          kubernetes_schemas.EXTENSIONS, writable=False, namespaced=False, fixed=True),
)  # fmt: skip


def pages() -> dict[str, str]:
    """Content by path, for each group and version."""
    roots = dict.fromkeys(entry.root for entry in ENTRIES)
    return {f"{FOLDER}{root}.json": openapi.text_of(document(root), 3) + "\n" for root in roots}


def document(root: str) -> dict[str, Any]:
    entries = [entry for entry in ENTRIES if entry.root == root]
    paths: dict[str, Any] = {}
    schemas: dict[str, Schema] = {}
    for entry in entries:
        for operation in operations_of(entry):
            paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, entry)
        schemas |= {entry.name: {**entry.schema, "x-kubernetes-group-version-kind": [_kind(entry, entry.kind)]}}
        if not entry.asked:
            name = f"{entry.kind}List"
            gvk = {"x-kubernetes-group-version-kind": [_kind(entry, name)]}
            schemas |= {f"{entry.name}List": {**kubernetes_schemas.listed(entry.name), **gvk}}
    failures = openapi.answers_of_failures(f"{META}.Status")
    return {
        "openapi": "3.0.0",
        "info": {"title": "Mizzen", "version": entries[0].version},
        "security": openapi.SECURITY,
        "paths": paths,
        "components": {
            "securitySchemes": openapi.SCHEMES,
            "responses": failures,
            "schemas": schemas | _shared({"paths": paths, "schemas": schemas, "failures": failures}),
        },
    }


def operations_of(entry: Entry) -> Iterator[Operation]:
    """The rows that apply to it, with its own paths and names."""
    for row in RESOURCES:
        if row.only not in ("", entry.kind):
            continue
        refused = row.writes and not entry.writable
        if refused and (row.method, row.path) != ("PATCH", ONE):
            continue
        if (entry.asked and row.method != "POST") or (entry.fixed and row.method != "GET"):
            continue
        path = row.path.removeprefix(ROOT)
        if entry.root != ROOT and row.path not in (EVERYWHERE, WITHIN, ONE):
            continue
        if not entry.namespaced:
            if row.path == WITHIN and row.method in ("GET", "DELETE"):
                continue  # the list equals that of all namespaces, and there is no delete of all
            path = path.replace("/namespaces/{namespace}", "")
        said = replace(row, summary="Rejected: this kind is read-only.", answers={}) if refused else row
        if entry.asked:
            said = replace(row, query=access_reviews.QUERY, known=False)
        if entry.fixed:
            said = replace(row, query=crds.QUERY if row.path == ONE else crds.LIST_QUERY)
        yield replace(
            said, path=entry.root + path.replace("{plural}", entry.plural), id=row.id.replace(KIND, entry.kind)
        )


def _operation(operation: Operation, entry: Entry) -> dict[str, Any]:
    responses = {str(code): _answer(operation, code, entry) for code in operation.answers}
    codes = (*openapi.failures(operation), *(() if operation.answers else (HTTPStatus.METHOD_NOT_ALLOWED,)))
    failed = {str(int(code)): {"$ref": f"#/components/responses/{HTTPStatus(code).name}"} for code in sorted(codes)}
    result: dict[str, Any] = {
        "description": operation.summary,
        "operationId": operation.id,
        **({"security": [{"bearer": []}]} if operation.needs_token else {}),
        "parameters": list(_parameters(operation)),
        "responses": responses | failed,
        "x-kubernetes-action": _action(operation),
        "x-kubernetes-group-version-kind": _kind_of(operation, entry),
    }
    body = dict(operation.body)
    if operation.method == "DELETE":
        body = one(f"{META}.DeleteOptions")
    if body:
        content = {
            media: {"schema": _schema(name, entry)} for media, name in body.items() if media not in openapi.ALIKE
        }
        result["requestBody"] = {"content": content, "required": operation.method != "DELETE"}
    return result


def _action(operation: Operation) -> str:
    if KIND_LIST in operation.answers.values():
        return "deletecollection" if operation.method == "DELETE" else "list"
    return operation.method.lower()


def _kind_of(operation: Operation, entry: Entry) -> dict[str, str]:
    if "Scale" in operation.answers.values():
        return {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    return _kind(entry, entry.kind)


def _kind(entry: Entry, kind: str) -> dict[str, str]:
    group, _, version = entry.version.rpartition("/")
    return {"group": group, "version": version, "kind": kind}


def _parameters(operation: Operation) -> Iterator[dict[str, Any]]:
    for name in re.findall(r"{(\w+)}", operation.path):
        schema: Schema = {"type": "string"}
        yield {"name": name, "in": "path", "description": PATH_PARAMETERS[name], "required": True, "schema": schema}
    for name in operation.query:
        schema, about = PARAMETERS[name]
        yield {"name": name, "in": "query", "description": about, "schema": schema}


def _answer(operation: Operation, code: int, entry: Entry) -> dict[str, Any]:
    body = operation.answers[code]
    answer: dict[str, Any] = {"description": HTTPStatus(code).phrase}
    if body is not None:
        answer["content"] = {operation.media: {"schema": _schema(body, entry)}}
    if "watch" in operation.query:
        answer["content"]["application/json;stream=watch"] = {"schema": ref(f"{META}.WatchEvent")}
    return answer


def _schema(body: str | Schema, entry: Entry) -> Schema:
    if not isinstance(body, str):
        return body
    if "|" in body:
        return {"anyOf": [_schema(name, entry) for name in body.split("|")]}
    return ref(NAMES.get(body) or body.replace(KIND, entry.name))


def _shared(node: Any) -> dict[str, Schema]:
    """The shared schemas that are referred to, directly or by each other."""
    found: dict[str, Schema] = {}
    wanted = list(_references(node))
    while wanted:
        name = wanted.pop()
        if name in SHARED and name not in found:
            found[name] = SHARED[name]
            wanted += _references(SHARED[name])
    return dict(sorted(found.items()))


def _references(node: Any) -> Iterable[str]:
    match node:
        case {"$ref": str(target)}:
            yield target.rpartition("/")[2]
        case dict():
            for inner in node.values():
                yield from _references(inner)
        case list():
            for inner in node:
                yield from _references(inner)
