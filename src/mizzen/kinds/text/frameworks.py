"""Names of frameworks in specs. `mizzen/frameworks.py` lists the frameworks and what serves them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from mizzen import frameworks
from mizzen.kinds.schema.findings import Warn, suggestion
from mizzen.kinds.text.patterns import matching

FRAMEWORKS: tuple[str, ...] = frameworks.NAMES
"""The built-in frameworks; plug-ins add more."""


Framework = Annotated[
    str,
    matching(frameworks.WORD, f"a framework name; expected a lower-case word such as {', '.join(FRAMEWORKS[:3])}"),
]


def framework_warning(framework: str | None, at: str) -> Iterator[Warn]:
    if framework is not None and frameworks.find(framework) is None:
        known = tuple(frameworks.known())
        yield Warn(at, f"unknown framework '{framework}'; {suggestion(framework, known, 'known')}")
