"""Finds the digests that objects and documents reference. Garbage collection keeps them; backups include them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from mizzen.blobs.fs.content import DIGEST, digest_name

NAMING = ("ModelVersion", "Workload")
"""Kinds whose specs keep files alive: a workload may still run files that its version no longer names."""
_HEX = re.compile(r"[0-9a-f]{64}")
_ANYWHERE = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")


def digests(value: Any) -> Iterator[str]:
    """Yields all digests in a spec, at any depth; `sha256sum` gives the hex digits alone."""
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
    """Yields digests in a document. In a damaged one, everything that may be a digest: better keep too much."""
    try:
        yield from digests(json.loads(document))
    except (ValueError, RecursionError):
        yield from (digest_name(found.decode()) for found in _ANYWHERE.findall(document))
