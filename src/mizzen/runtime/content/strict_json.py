"""JSON without ambiguity: parsers differ about which of two equal keys counts, so such text is refused."""

from __future__ import annotations

import json
from typing import Any

from mizzen.runtime.content.findings import DamagedFile, Unproven, quote


def parse(data: bytes, name: str) -> Any:
    """Return the document. Raises DamagedFile if it is not JSON, Unproven if a key occurs twice in an object."""
    try:
        return json.loads(data.decode(), object_pairs_hook=_to_dict)
    except RecursionError as error:
        raise Unproven(f"{name} is nested too deeply") from error
    except ValueError as error:
        raise DamagedFile(f"{name} is not valid JSON: {error}") from error


def _to_dict(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise Unproven(f"the key {quote(twice)} occurs twice in an object")
    return found
