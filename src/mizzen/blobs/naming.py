"""Which files the objects of a store name: what garbage collection keeps and a backup takes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from mizzen.blobs.content import DIGEST, named

NAMING = ("ModelVersion", "Workload")
"""Kinds whose specs keep files alive: a workload may still run what a version no longer names."""
_HEX = re.compile(r"[0-9a-f]{64}")


def digests(value: Any) -> Iterator[str]:
    """In a spec, wherever they stand; `sha256sum` names a file by the digits alone."""
    match value:
        case dict():
            for item in value.values():
                yield from digests(item)
        case list() | tuple():
            for item in value:
                yield from digests(item)
        case str():
            if DIGEST.fullmatch(value):
                yield value
            elif _HEX.fullmatch(value):
                yield named(value)
