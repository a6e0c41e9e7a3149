"""Validators for texts that must match a pattern, or that a parser must accept. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable

from pydantic import AfterValidator


def matching(pattern: str | re.Pattern[str], expected: str) -> AfterValidator:
    """Rejects a text that does not match as a whole: it `is not <expected>`."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(f"{text[:100]!r} is not {expected}")
        return text

    return AfterValidator(check)


def accepted_by(parse: Callable[[str], object]) -> AfterValidator:
    """Rejects a text for which `parse` raises ValueError; it is stored as written."""

    def check(text: str) -> str:
        parse(text)
        return text

    return AfterValidator(check)
