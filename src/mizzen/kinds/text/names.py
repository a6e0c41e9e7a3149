"""Names in specs: DNS labels, like the names of objects. Pure."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

from mizzen.kinds.schema.resource import NAME
from mizzen.kinds.text.patterns import matching


def check_name(text: str) -> str:
    """Raises ValueError with a message for the author of `text`."""
    if not NAME.fullmatch(text):
        raise ValueError(f"{text[:100]!r} is not a valid name; expected lower-case letters, digits and '-', at most 63")
    return text


def _name_or_nothing(text: str) -> str:
    return check_name(text) if text else ""


BucketName = Annotated[
    str,
    matching(
        r"[a-z0-9][-.a-z0-9]{1,61}[a-z0-9]",
        "a bucket name; expected 3 to 63 lower-case letters, digits, '-' and '.', with a letter or digit at both ends",
    ),
]
"""Of an S3-compatible object store."""

Name = Annotated[str, AfterValidator(check_name)]

NameOrNothing = Annotated[str, AfterValidator(_name_or_nothing)]
"""Empty means not set, as in the source manifests' own types."""
