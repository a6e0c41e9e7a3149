"""Warnings as HTTP carries them: `Warning: 299 - "spec.route: …"`, one header each, as Kubernetes does it."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.responses import Response

from mizzen.kinds.schema.findings import Warn

MOST_BYTES = 4096
"""Of all warnings of one answer together: clients bound the headers they read."""
CUT = 256
"""With more than fits, each is cut to this length first."""


def attach(response: Response, warnings: Iterable[Warn]) -> Response:
    texts = [_plain(str(warning)) for warning in dict.fromkeys(warnings)]
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


def _plain(text: str) -> str:
    """A header holds one line of ASCII."""
    one_line = "".join(character if character.isprintable() else " " for character in text)
    return one_line.encode("ascii", "backslashreplace").decode()
