"""Durations as people write them: `30s`, `5m`, `1h30m`. Pure."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
_PART = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(ms|s|m|h|d)")
PATTERN = re.compile(rf"(?:{_PART.pattern})+")


def seconds(text: str) -> float:
    """Raises ValueError with a message for the author of `text`."""
    if not PATTERN.fullmatch(text):
        raise ValueError(f"{text[:100]!r} is not a valid duration; expected a text such as 30s, 5m, 1h30m or 2d")
    return float(sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text)))


def _check(text: str) -> str:
    if seconds(text) == 0:
        raise ValueError("must be above 0")
    return text


Duration = Annotated[str, AfterValidator(_check)]
"""A field with a duration above 0, stored as written."""
