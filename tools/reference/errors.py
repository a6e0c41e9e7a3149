"""docs/reference/errors.md, from the exceptions and the table of HTTP status codes."""

from __future__ import annotations

import inspect

from mizzen.errors import FAMILY, MizzenError
from mizzen.server.http.errors import STATUS
from tools.reference import markdown

INTRO = """\
The control API returns every error as a Kubernetes `Status` object. `code` is the HTTP status, `reason` one of the
words below, and `message` is for people. `details.causes` lists every fault with its field path, and `details.hint`
says what to do next. The SDK raises the class from `mizzen.errors`, with `message`, `hint` and `faults`."""

ROUTER = """\
A path that does not support the method returns 405 with the reason `MethodNotAllowed` and the header `Allow`. A request
whose headers are too long gets 431 without a body, and the connection is closed. 401 names the scheme in
`WWW-Authenticate`; 429 and 503 have a `Retry-After` header."""

INFERENCE = 'The inference API returns `{"error": "<text>"}`, as its protocol requires.'

GATEWAY: dict[int, str] = {
    400: "The request cannot be parsed, or does not match the model's inputs.",
    401: "A token is required, or the token is wrong, expired or revoked.",
    403: "The caller may not predict with this model, or a web page of another origin sent the request.",
    404: "Nothing is served under this name, or the path does not exist.",
    405: "The path does not support this method; `Allow` lists those it does.",
    408: "The request took too long to arrive.",
    409: "Different feedback was already given for this request.",
    413: "The body is larger than the limit that the message names.",
    415: "The content encoding of the body is not supported; `Accept-Encoding` lists those that are.",
    422: "The feedback is invalid, or does not match the record of the request.",
    429: "The caller's rate limit (`mizzen limit`) is exceeded; `Retry-After` says when to retry.",
    431: "The headers of the request are too long.",
    499: "In metrics only: the client disconnected before the response.",
    500: "The model raised an exception during the prediction.",
    501: "The `Transfer-Encoding` of the body is not supported; expected `chunked`.",
    502: "The replica died while it handled the request, and `spec.idempotent` does not allow a retry.",
    503: "Nothing is ready, too many requests are waiting, or the gateway is stopping. With `Retry-After`, retry "
    "later.",
    504: "No response within the deadline.",
}
"""Status codes of the inference API. A test compares them with the gateway's code."""


def page() -> str:
    family = [
        (markdown.code(reason), str(_code(cls)), markdown.code(cls.__name__), meaning(cls))
        for reason, cls in FAMILY.items()
    ]
    return markdown.page(
        "Errors",
        "## Control API",
        INTRO,
        markdown.table(("Reason", "HTTP", "Class", "Meaning"), family),
        ROUTER,
        "## Inference API",
        INFERENCE,
        markdown.table(("HTTP", "Meaning"), [(str(code), text) for code, text in GATEWAY.items()]),
    )


def meaning(cls: type[MizzenError]) -> str:
    """The first paragraph of the class's own docstring; empty if it has none."""
    text = inspect.cleandoc(cls.__doc__) if "__doc__" in vars(cls) and cls.__doc__ else ""
    return " ".join(text.partition("\n\n")[0].split())


def _code(cls: type[MizzenError]) -> int:
    return next(STATUS[base] for base in cls.__mro__ if base in STATUS)
