"""Names of frameworks in specs. Which there are, and what serves them, is in `mizzen/frameworks.py`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated

from pydantic import AfterValidator

from mizzen import frameworks
from mizzen.kinds.findings import Warn, suggestion

FRAMEWORKS: tuple[str, ...] = frameworks.NAMES
SERVED_FRAMEWORKS: tuple[str, ...] = frameworks.SERVED
"""Those the runtime that comes with Mizzen can serve."""
WORD = re.compile(r"[a-z][-_.a-z0-9]{0,62}")


def _word(text: str) -> str:
    if not WORD.fullmatch(text):
        raise ValueError(f"{text[:100]!r} is no framework: a lower-case word such as {', '.join(FRAMEWORKS[:3])}")
    return text


Framework = Annotated[str, AfterValidator(_word)]


def framework_warning(framework: str | None, at: str) -> Iterator[Warn]:
    if framework is not None and framework not in FRAMEWORKS:
        yield Warn(at, f"unknown framework '{framework}'; {suggestion(framework, FRAMEWORKS, 'known')}")
