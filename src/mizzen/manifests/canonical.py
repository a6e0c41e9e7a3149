"""The user-written part of an object in a canonical form, to compare a file with a live object. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, Final

from mizzen.kinds.schema.resource import ACTOR_ANNOTATION

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
NOT_WRITTEN: Final = frozenset({ACTOR_ANNOTATION, LAST_APPLIED})
"""Annotations that tools set, and that files do not contain."""


def user_fields(data: Mapping[str, Any]) -> dict[str, Any]:
    """Labels, annotations and spec, without empty ones."""
    metadata = data.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    kept = {key: value for key, value in annotations.items() if key not in NOT_WRITTEN}
    shown = {"labels": metadata.get("labels") or {}, "annotations": kept}
    return {"metadata": {key: value for key, value in shown.items() if value}, "spec": data.get("spec") or {}}


def text(data: Mapping[str, Any]) -> str:
    """As YAML with sorted keys, so that equal objects have equal texts."""
    import yaml

    parts = {key: value for key, value in user_fields(data).items() if value}
    return yaml.safe_dump(parts, sort_keys=True, allow_unicode=True, width=120) if parts else ""


def difference(live: Mapping[str, Any] | None, wanted: Mapping[str, Any], *, source: str) -> str:
    """A unified diff from the live object to the file; empty if applying the file would change nothing."""
    name = f"{wanted['kind']}/{wanted['metadata']['name']}"
    before = text(live).splitlines(keepends=True) if live is not None else []
    after = text(wanted).splitlines(keepends=True)
    if live is None and not after:
        after = ["{}\n"]
    start = f"live {name}" if live is not None else "/dev/null"
    return "".join(difflib.unified_diff(before, after, start, f"{source} {name}"))
