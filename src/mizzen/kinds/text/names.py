"""Names in specs: DNS labels, as the names of objects are. Pure."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

from mizzen.kinds.schema.resource import NAME


def checked_name(text: str) -> str:
    """Raises ValueError, in words for the author of `text`."""
    if not NAME.fullmatch(text):
        raise ValueError(f"{text[:100]!r} is not a name: lower-case letters, digits and '-', at most 63")
    return text


def _name_or_nothing(text: str) -> str:
    return checked_name(text) if text else ""


Name = Annotated[str, AfterValidator(checked_name)]

NameOrNothing = Annotated[str, AfterValidator(_name_or_nothing)]
"""Empty means not given, as the seeds' own types have it."""
