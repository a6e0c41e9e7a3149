"""Which files the objects of a store, and documents, name: what garbage collection keeps and a backup takes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from mizzen.blobs.fs.content import DIGEST, digest_name

NAMING = ("ModelVersion", "Workload")
"""Kinds whose specs keep files alive: a workload may still run what a version no longer names."""
_HEX = re.compile(r"[0-9a-f]{64}")
_ANYWHERE = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")


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
                yield digest_name(value)


def digests_in(document: bytes) -> Iterator[str]:
    """In a document. Of a damaged one, all that may be one: too much is kept rather than too little."""
    try:
        yield from digests(json.loads(document))
    except (ValueError, RecursionError):
        yield from (digest_name(found.decode()) for found in _ANYWHERE.findall(document))
