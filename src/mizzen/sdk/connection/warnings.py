"""What a plane found odd, and took nevertheless: `Warning` headers, as Python's warnings."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

Warned: TypeAlias = Callable[[str], None]
"""Told each warning of an answer."""

_HEADER: Final = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')


class MizzenWarning(UserWarning):
    """A plane took what was sent and found something odd with it: `spec.route: …`."""


def as_python(text: str) -> None:
    warnings.warn(text, MizzenWarning, stacklevel=2)


def texts(headers: Iterable[str]) -> list[str]:
    """The warnings in the values of `Warning` headers, several of which may stand in one."""
    found = (match for header in headers for match in _HEADER.findall(header))
    return list(dict.fromkeys(re.sub(r"\\(.)", r"\1", text) for text in found))
