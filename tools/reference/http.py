"""docs/reference/http.md, from the table of operations that the OpenAPI document is made from."""

from __future__ import annotations

from collections.abc import Iterable

from mizzen.gateway.request.url_paths import NAMESPACE
from mizzen.kinds.catalog import KINDS
from tools.derived import inference
from tools.derived.operations import (
    DOOR,
    HEADERS,
    MODELS,
    MONITORS,
    PARAMETERS,
    PATH_PARAMETERS,
    PEOPLE,
    PLANE,
    RESOURCES,
    TRAINING,
    Operation,
)
from tools.reference import markdown

INTRO = """\
The control API answers JSON and takes JSON or YAML. `GET /openapi.json` says the same for programs, with the
shape of every body and answer. Callers send `Authorization: Bearer <token>`; on a loopback plane, those without one may
read. A query parameter that a path does not know is refused with 400. Errors are `Status` objects: see
[Errors](errors.md). Warnings come as `Warning` headers.

The inference API, on a port of its own, has an `/openapi.json`, too. `make clients` writes typed Python clients of both
into `build/clients/python`, and types for TypeScript into `build/clients/typescript`; other generators may read the
documents just as well."""

SECTIONS: tuple[tuple[str, str, tuple[Operation, ...]], ...] = (
    ("The plane", "", PLANE),
    ("Models", "These act in the namespace `default`, unless `?namespace=` names another.", MODELS),
    (
        "Training",
        "A job set is a TrainingJob, and its id is that object's name. Those that name no version have `unversioned` "
        "in its place.",
        TRAINING,
    ),
    (
        "Monitors",
        "A model has one. Whoever reads it needs a token, however open the plane is. For browsers there is more below "
        "`/model/{model}/monitor/`, or `/ns/{namespace}/model/{model}/monitor/`: `login`, `logout`, `page`, our own "
        "comparison, and `tool/`, the tool itself.",
        MONITORS,
    ),
    ("People and secrets", "", PEOPLE),
    (
        "Resources",
        "Every kind in the Kubernetes conventions; `{plural}` is one of "
        + ", ".join(markdown.code(kind.plural) for kind in KINDS)
        + ". Kinds that are internal can only be read. To write needs `write`, and `admin` where the spec says which "
        "code runs: see [RoleBinding](kinds/rolebinding.md).",
        RESOURCES,
    ),
    ("Kubernetes", "What kubectl and other clients of Kubernetes ask beside objects.", DOOR),
    (
        "Inference",
        "On the port of the inference API. What begins with `/v2` may stand behind `/ns/{namespace}`; without that, "
        'the namespace is `default`. Errors are `{"error": text}`.',
        tuple(operation for operation, _ in inference.operations() if not operation.path.startswith(NAMESPACE)),
    ),
)


def page() -> str:
    return markdown.page(
        "HTTP",
        INTRO,
        *(block for title, text, operations in SECTIONS for block in (f"## {title}", text, _table(operations))),
        "## Parameters",
        "In the path:",
        markdown.table(("Name", "Meaning"), _rows(PATH_PARAMETERS.items())),
        "In the query:",
        markdown.table(("Name", "Meaning"), _rows((name, about) for name, (_, about) in PARAMETERS.items())),
        "In the head:",
        markdown.table(("Name", "Meaning"), _rows((HEADERS | inference.HEADERS).items())),
    )


def _table(operations: Iterable[Operation]) -> str:
    rows = [
        (
            markdown.code(f"{operation.method} {operation.path}"),
            operation.summary,
            ", ".join(map(markdown.code, operation.query)),
            ", ".join(str(code) for code in operation.answers),
        )
        for operation in operations
    ]
    return markdown.table(("Request", "What it does", "Query", "Answers"), rows)


def _rows(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(markdown.code(name), about) for name, about in pairs]
