"""docs/reference/errors.md, from the exception family and the one table of HTTP numbers."""

from __future__ import annotations

import inspect

from mizzen.errors import FAMILY, MizzenError
from mizzen.server.http.errors import STATUS
from tools.reference import markdown

INTRO = """\
The control API answers every error with a Kubernetes `Status` object: `code` is the HTTP number, `reason` one of the
words below, `message` for people, `details.causes` every fault with its field path, `details.hint` what to do next. The
SDK raises the class from `mizzen.errors`, with `message`, `hint` and `faults`."""

ROUTER = """\
A path that takes other methods answers 405 with the reason `MethodNotAllowed` and the header `Allow`. A request whose
head is too long gets 431 without a body, and the connection ends. 401 names the scheme in `WWW-Authenticate`; 503 comes
with `Retry-After`."""

INFERENCE = 'The inference API answers `{"error": "<text>"}`, as its protocol demands.'

GATEWAY: dict[int, str] = {
    400: "The request cannot be read, or does not fit the model's inputs.",
    401: "A token is needed, or the one that came is wrong, expired or revoked.",
    403: "The caller may not predict with this; or a page of another site asks.",
    404: "Nothing is served under this name, or there is no such path.",
    405: "The path takes another method, which `Allow` names.",
    408: "The request took too long to come in.",
    409: "Other feedback was given for this request before.",
    413: "The body is larger than the limit that the message names.",
    415: "The body is packed in a way that cannot be read; `Accept-Encoding` names those that can.",
    422: "Feedback says what cannot be, or does not fit what is known of the request.",
    429: "The caller's limit (`mizzen limit`) is used up for now; `Retry-After` says when to come again.",
    431: "The head of the request is too long.",
    499: "In metrics only: the client left before it was answered.",
    500: "The model raised while it predicted.",
    501: "The body comes in a `Transfer-Encoding` other than chunked.",
    502: "The replica died while it had the request, and it must not be sent again.",
    503: "Nothing is served or ready, too much waits, or the gateway is stopping. With `Retry-After`: worth a new try.",
    504: "No answer within the deadline.",
}
"""Of the inference API. A test compares them with the numbers in the gateway's code."""


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
    """The class's own words, in one paragraph; empty when it has none."""
    text = inspect.cleandoc(cls.__doc__) if "__doc__" in vars(cls) and cls.__doc__ else ""
    return " ".join(text.partition("\n\n")[0].split())


def _code(cls: type[MizzenError]) -> int:
    return next(STATUS[base] for base in cls.__mro__ if base in STATUS)
