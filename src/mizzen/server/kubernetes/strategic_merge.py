"""Strategic merge patch for a Namespace: kubectl knows that kind, so it applies with this media type. Pure.

It works like a merge patch except for lists. The only list here, of finalizers, is extended. Only the directives that
kubectl sends for it are supported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mizzen.errors import BadRequest
from mizzen.patches import merge_patch

MEDIA_TYPE = "application/strategic-merge-patch+json"

DELETE, ORDER = "$deleteFromPrimitiveList/finalizers", "$setElementOrder/finalizers"


def merge(document: Mapping[str, Any], patch: Any) -> Any:
    """The patched document. Raises BadRequest for directives that a Namespace does not support."""
    if not isinstance(patch, Mapping):
        raise BadRequest("a strategic merge patch must be an object")
    metadata = patch.get("metadata")
    if not isinstance(metadata, Mapping):
        return merge_patch.merge(document, _refuse_directives(patch))
    held = document.get("metadata")
    there: list[Any] = held.get("finalizers") or [] if isinstance(held, Mapping) else []
    added, gone = metadata.get("finalizers"), metadata.get(DELETE)
    rest = {key: value for key, value in metadata.items() if key not in (DELETE, ORDER)}
    if isinstance(added, list) or isinstance(gone, list):
        kept = [name for name in there if name not in (gone or ())]
        rest["finalizers"] = [*kept, *(name for name in added or () if name not in kept)]
    return merge_patch.merge(document, _refuse_directives({**patch, "metadata": rest}))


def _refuse_directives(patch: Mapping[str, Any]) -> Mapping[str, Any]:
    directive = next(_iter_directives(patch), None)
    if directive is not None:
        raise BadRequest(
            f"the directive '{directive[:100]}' is not supported for a namespace", hint="send a merge patch"
        )
    return patch


def _iter_directives(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if str(key).startswith("$"):
                yield str(key)
            yield from _iter_directives(inner)
