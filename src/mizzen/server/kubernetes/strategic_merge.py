"""Strategic merge patch, as far as a Namespace needs it: kubectl knows the kind, and so sends this for an apply. Pure.

A merge patch, but for lists, which have their own ways: the one list here, of finalizers, is added to. Directives that
say otherwise are read where kubectl sends them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mizzen.errors import BadRequest
from mizzen.patches import merge_patch

MEDIA_TYPE = "application/strategic-merge-patch+json"

DELETE, ORDER = "$deleteFromPrimitiveList/finalizers", "$setElementOrder/finalizers"


def merged(document: Mapping[str, Any], patch: Any) -> Any:
    """BadRequest for what cannot be done with a Namespace."""
    if not isinstance(patch, Mapping):
        raise BadRequest("a strategic merge patch is an object")
    metadata = patch.get("metadata")
    if not isinstance(metadata, Mapping):
        return merge_patch.merged(document, _plain(patch))
    held = document.get("metadata")
    there: list[Any] = held.get("finalizers") or [] if isinstance(held, Mapping) else []
    added, gone = metadata.get("finalizers"), metadata.get(DELETE)
    rest = {key: value for key, value in metadata.items() if key not in (DELETE, ORDER)}
    if isinstance(added, list) or isinstance(gone, list):
        kept = [name for name in there if name not in (gone or ())]
        rest["finalizers"] = [*kept, *(name for name in added or () if name not in kept)]
    return merge_patch.merged(document, _plain({**patch, "metadata": rest}))


def _plain(patch: Mapping[str, Any]) -> Mapping[str, Any]:
    directive = next(_directives(patch), None)
    if directive is not None:
        raise BadRequest(f"a namespace cannot be patched with '{directive[:100]}'", hint="send a merge patch")
    return patch


def _directives(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if str(key).startswith("$"):
                yield str(key)
            yield from _directives(inner)
