"""A plane's warnings: `Warning` headers of accepted requests, as Python warnings."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

Warned: TypeAlias = Callable[[str], None]
"""Called with each warning of a response."""

_HEADER: Final = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')


class MizzenWarning(UserWarning):
    """The plane accepted a request but warns about it: `spec.route: …`."""


def as_python(text: str) -> None:
    warnings.warn(text, MizzenWarning, stacklevel=2)


def texts(headers: Iterable[str]) -> list[str]:
    """Return the warnings in the values of `Warning` headers; one header may hold several."""
    found = (match for header in headers for match in _HEADER.findall(header))
    return list(dict.fromkeys(re.sub(r"\\(.)", r"\1", text) for text in found))
