"""Names of frameworks in specs. Which there are, and what serves them, is in `mizzen/frameworks.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import AfterValidator

from mizzen import frameworks
from mizzen.kinds.schema.findings import Warn, suggestion

FRAMEWORKS: tuple[str, ...] = frameworks.NAMES
"""Those that are part of Mizzen; plug-ins bring more."""


def _word(text: str) -> str:
    if not frameworks.WORD.fullmatch(text):
        raise ValueError(f"{text[:100]!r} is no framework: a lower-case word such as {', '.join(FRAMEWORKS[:3])}")
    return text


Framework = Annotated[str, AfterValidator(_word)]


def framework_warning(framework: str | None, at: str) -> Iterator[Warn]:
    if framework is not None and frameworks.find(framework) is None:
        known = tuple(frameworks.known())
        yield Warn(at, f"unknown framework '{framework}'; {suggestion(framework, known, 'known')}")
