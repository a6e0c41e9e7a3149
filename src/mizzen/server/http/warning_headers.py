"""Warning headers: `Warning: 299 - "spec.route: …"`, one header per warning, as in Kubernetes."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.responses import Response

from mizzen.kinds.schema.findings import Warn

MOST_BYTES = 4096
"""The bound of all warnings of one response together: clients limit the headers they read."""
CUT = 256
"""If the warnings do not fit, each is first truncated to this length."""


def attach(response: Response, warnings: Iterable[Warn]) -> Response:
    texts = [_to_header_text(str(warning)) for warning in dict.fromkeys(warnings)]
    if sum(map(len, texts)) > MOST_BYTES:
        texts = [text[:CUT] for text in texts]
    left = MOST_BYTES
    for text in texts:
        left -= len(text)
        if left < 0:
            break
        quoted = text.replace("\\", "\\\\").replace('"', '\\"')
        response.headers.append("Warning", f'299 - "{quoted}"')
    return response


def _to_header_text(text: str) -> str:
    """A header value is one line of ASCII."""
    one_line = "".join(character if character.isprintable() else " " for character in text)
    return one_line.encode("ascii", "backslashreplace").decode()
