"""Labels and annotations of a graph, passed on to what is made for it: those that are added, changed and removed. Pure.

Which ones were passed on is written down beside them, so that one which the graph has no longer is taken back. Keys
that somebody else set on the child stay as they are, and so do those of Mizzen itself, which are not passed on either.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

from mizzen.kinds.schema.resource import API_GROUP, Resource

PASSED: Final = f"{API_GROUP}/propagated"
"""Annotation: which labels and annotations came from the owner."""
ENDS: Final = f"{API_GROUP}/ends-after"
"""Annotation: nobody needs it any more, and it ends then, when nobody sends to it."""

_OWN = frozenset({PASSED, ENDS})
_NOT_PASSED = (f"{API_GROUP}/", "kubectl.kubernetes.io/")
"""The second says how the graph itself was applied."""


def passed_on(graph: Resource, wanted: Resource, there: Resource | None, *, ends: str = "") -> Resource:
    """`wanted`, with all that the graph passes on, and what others have set on the one that is there."""
    before = _before(there)
    own = wanted.meta
    set_labels = own.labels if there is None else {**there.meta.labels, **own.labels}
    set_annotations = own.annotations if there is None else {**there.meta.annotations, **own.annotations}
    labels, passed_labels = _merged(graph.meta.labels, set_labels, before["labels"])
    annotations, passed_annotations = _merged(graph.meta.annotations, set_annotations, before["annotations"])
    annotations = {key: value for key, value in annotations.items() if key not in _OWN}
    if passed_labels or passed_annotations:
        annotations[PASSED] = json.dumps({"labels": passed_labels, "annotations": passed_annotations})
    if ends:
        annotations[ENDS] = ends
    return replace(wanted, meta=replace(own, labels=labels, annotations=annotations))


def _merged(
    given: Mapping[str, str], there: Mapping[str, str], before: Collection[str]
) -> tuple[dict[str, str], list[str]]:
    others = {key: value for key, value in there.items() if key not in before}
    passed = {key: value for key, value in given.items() if not key.startswith(_NOT_PASSED) and key not in others}
    return {**others, **passed}, sorted(passed)


def _before(there: Resource | None) -> dict[str, frozenset[str]]:
    """What was passed on to it. Should that be unreadable, all counts as set by others."""
    try:
        noted = json.loads(there.meta.annotations.get(PASSED, "{}")) if there is not None else {}
    except ValueError:
        noted = {}
    found = {}
    for field in ("labels", "annotations"):
        keys = noted.get(field) if isinstance(noted, dict) else None
        found[field] = frozenset(key for key in keys if isinstance(key, str)) if isinstance(keys, list) else frozenset()
    return found
