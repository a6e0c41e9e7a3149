"""Merge patch, RFC 7396: an object says what changes in an object, null takes a field away, all else replaces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def merged(document: Any, patch: Any) -> Any:
    """A new document; neither argument is changed."""
    if not isinstance(patch, Mapping):
        return patch
    result = dict(document) if isinstance(document, Mapping) else {}
    for name, change in patch.items():
        if change is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), change)
    return result
