"""Propagation of a graph's labels and annotations to its children: additions, changes and removals. Pure.

An annotation lists the propagated keys, so that a key which the graph no longer has is removed from the child. Keys
that other writers set on the child stay unchanged. Mizzen's own keys are not propagated and stay as well.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

from mizzen.kinds.schema.resource import API_GROUP, Resource

PROPAGATED: Final = f"{API_GROUP}/propagated"
"""Annotation: the labels and annotations that came from the owner."""
ENDS_AFTER: Final = f"{API_GROUP}/ends-after"
"""Annotation: the child is no longer needed and ends at this time, once no gateway routes to it."""

_OWN = frozenset({PROPAGATED, ENDS_AFTER})
_NOT_PROPAGATED = (f"{API_GROUP}/", "kubectl.kubernetes.io/")
"""Keys of kubectl say how the graph itself was applied."""


def propagate(graph: Resource, wanted: Resource, there: Resource | None, *, ends: str = "") -> Resource:
    """`wanted`, with the graph's labels and annotations, and those that others have set on the existing child."""
    before = _read_propagated(there)
    own = wanted.meta
    set_labels = own.labels if there is None else {**there.meta.labels, **own.labels}
    set_annotations = own.annotations if there is None else {**there.meta.annotations, **own.annotations}
    labels, passed_labels = _merge(graph.meta.labels, set_labels, before["labels"])
    annotations, passed_annotations = _merge(graph.meta.annotations, set_annotations, before["annotations"])
    annotations = {key: value for key, value in annotations.items() if key not in _OWN}
    if passed_labels or passed_annotations:
        annotations[PROPAGATED] = json.dumps({"labels": passed_labels, "annotations": passed_annotations})
    if ends:
        annotations[ENDS_AFTER] = ends
    return replace(wanted, meta=replace(own, labels=labels, annotations=annotations))


def _merge(
    own: Mapping[str, str], there: Mapping[str, str], before: Collection[str]
) -> tuple[dict[str, str], list[str]]:
    others = {key: value for key, value in there.items() if key not in before}
    passed = {key: value for key, value in own.items() if not key.startswith(_NOT_PROPAGATED) and key not in others}
    return {**others, **passed}, sorted(passed)


def _read_propagated(there: Resource | None) -> dict[str, frozenset[str]]:
    """The keys that were propagated to it. If they cannot be read, all keys count as set by others."""
    try:
        noted = json.loads(there.meta.annotations.get(PROPAGATED, "{}")) if there is not None else {}
    except ValueError:
        noted = {}
    found = {}
    for field in ("labels", "annotations"):
        keys = noted.get(field) if isinstance(noted, dict) else None
        found[field] = frozenset(key for key in keys if isinstance(key, str)) if isinstance(keys, list) else frozenset()
    return found
