"""docs/reference/http.md, from the same table of operations as the OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterable

from mizzen.gateway.request.url_paths import NAMESPACE
from mizzen.kinds.catalog import KINDS
from tools.derived import inference
from tools.derived.operations import (
    HEADERS,
    KUBERNETES,
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
The control API returns JSON and accepts JSON or YAML. `GET /openapi.json` describes it for programs, with the schemas
of all requests and responses. Callers send `Authorization: Bearer <token>`; on a loopback plane, callers without a
token may read. Unknown query parameters are rejected with 400. Errors are `Status` objects: see [Errors](errors.md).
Warnings are sent as `Warning` headers.

The inference API has its own port and also serves `/openapi.json`. `make clients` generates typed Python clients of
both in `build/clients/python`, and TypeScript types in `build/clients/typescript`; other generators can read the
documents, too."""

SECTIONS: tuple[tuple[str, str, tuple[Operation, ...]], ...] = (
    ("The plane", "", PLANE),
    ("Models", "These use the namespace `default`, unless `?namespace=` names another.", MODELS),
    (
        "Training",
        "A job set is a TrainingJob; its id is the name of that object. For job sets without a version, use "
        "`unversioned` in its place.",
        TRAINING,
    ),
    (
        "Monitors",
        "A model has at most one monitor. Readers always need a token, even on a loopback plane. Browsers use further "
        "paths below `/model/{model}/monitor/`, or `/ns/{namespace}/model/{model}/monitor/`: `login`, `logout`, `page` "
        "(the built-in viewer) and `tool/` (the tool itself).",
        MONITORS,
    ),
    ("People and secrets", "", PEOPLE),
    (
        "Resources",
        "Every kind, by the conventions of Kubernetes; `{plural}` is one of "
        + ", ".join(markdown.code(kind.plural) for kind in KINDS)
        + ". Internal kinds are read-only. Writing needs the right `write`, and `admin` if the spec decides which code "
        "runs: see [RoleBinding](kinds/rolebinding.md).",
        RESOURCES,
    ),
    ("Kubernetes", "Further paths that kubectl and other Kubernetes clients need.", KUBERNETES),
    (
        "Inference",
        "On the port of the inference API. Paths that begin with `/v2` may have the prefix `/ns/{namespace}`; without "
        'it, the namespace is `default`. Errors are `{"error": text}`.',
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
        "In the headers:",
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
