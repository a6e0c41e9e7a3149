"""Merge patch, RFC 7396: an object changes members of an object, null removes a field, any other value replaces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def merge(document: Any, patch: Any) -> Any:
    """A new document; neither argument is changed."""
    if not isinstance(patch, Mapping):
        return patch
    result = dict(document) if isinstance(document, Mapping) else {}
    for name, change in patch.items():
        if change is None:
            result.pop(name, None)
        else:
            result[name] = merge(result.get(name), change)
    return result
