"""The last-applied annotation of kubectl: the file as written, with the nulls that kubectl removes. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"


def spec(annotations: Mapping[str, Any]) -> Mapping[str, Any]:
    """The spec in the annotation; empty if there is no readable one."""
    text = annotations.get(ANNOTATION)
    try:
        written = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return {}
    found = written.get("spec") if isinstance(written, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def objects(value: Any) -> Iterator[Mapping[str, Any]]:
    """The named objects in `value`, if it is a list."""
    if isinstance(value, list):
        yield from (item for item in value if isinstance(item, Mapping) and "name" in item)


def restore(arrived: Any, written: Any) -> Any:
    """`written`, if it equals `arrived` once its nulls are removed; otherwise `arrived`."""
    try:
        return written if without_nulls(written) == arrived else arrived
    except RecursionError:
        return arrived


def without_nulls(value: Any) -> Any:
    """As Kubernetes stores it: a null counts as absent."""
    match value:
        case Mapping():
            return {key: without_nulls(item) for key, item in value.items() if item is not None}
        case list():
            return [without_nulls(item) for item in value]
    return value
