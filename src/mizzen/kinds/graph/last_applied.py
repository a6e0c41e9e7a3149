"""What kubectl says was applied last: the file as it was written, with the nulls that it left out on the way. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"


def spec(annotations: Mapping[str, Any]) -> Mapping[str, Any]:
    """The spec in the annotation; empty when there is none that can be read."""
    text = annotations.get(ANNOTATION)
    try:
        written = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return {}
    found = written.get("spec") if isinstance(written, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def objects(value: Any) -> Iterator[Mapping[str, Any]]:
    """The named objects of a list that may be anything."""
    if isinstance(value, list):
        yield from (item for item in value if isinstance(item, Mapping) and "name" in item)


def restored(arrived: Any, written: Any) -> Any:
    """What was written, if it is what arrived once its nulls are left out; otherwise what arrived."""
    try:
        return written if without_nulls(written) == arrived else arrived
    except RecursionError:
        return arrived


def without_nulls(value: Any) -> Any:
    """As a Kubernetes keeps it: a null is as if it were not there."""
    match value:
        case Mapping():
            return {key: without_nulls(item) for key, item in value.items() if item is not None}
        case list():
            return [without_nulls(item) for item in value]
    return value
