"""Refuses JSON objects that have a key twice, as strict JSON does. Decoders silently take the last one. So a few
kilobytes of one key, repeated and compressed, would keep them busy for seconds, and two readers may see two values.

Each key is followed by one colon. If a text has as many colons as the decoded value has keys, no key is repeated; that
costs one search for a byte. Only a text with other colons, which are within strings or belong to keys that the decoder
ignores, is parsed a second time.
"""

from __future__ import annotations

import json
import re
from typing import Any

MAX_SHOWN = 200
"""Characters of a key that errors repeat."""
MAX_SEARCHED = 256 << 10
"""Longer texts are not parsed a second time: errors do not name the key."""

_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)


class RepeatedKey(ValueError):
    """Worded for the caller."""

    def __init__(self, key: str | None = None) -> None:
        shown = key if key is None or len(key) <= MAX_SHOWN else key[:MAX_SHOWN] + "..."
        super().__init__("an object has a repeated key" if shown is None else f"the key '{shown}' is repeated")


def require_unique(text: bytes, value: Any) -> None:
    """Raise RepeatedKey if an object in the text has a key twice. `value`: the text, decoded without a schema."""
    colons = text.count(b":")
    if isinstance(value, dict) and colons == len(value):  # the usual text: nothing in it has keys
        return
    if colons == count_keys(value) or _count_colons(text) == count_keys(value, every=True):
        return
    if len(text) > MAX_SEARCHED:
        raise RepeatedKey
    search(text)


def count_keys(value: Any, *, every: bool = False) -> int:
    """Return the number of keys in a decoded text; without `every`, or fewer: lists are then searched only if they
    begin with containers."""
    found, waiting = 0, [value]
    while waiting:
        inner = waiting.pop()
        if isinstance(inner, dict):
            found += len(inner)
            waiting += [each for each in inner.values() if each and isinstance(each, dict | list)]
        elif inner and isinstance(inner, list) and (every or isinstance(inner[0], dict | list)):
            waiting += [each for each in inner if each and isinstance(each, dict | list)]
    return found


def _count_colons(text: bytes) -> int:
    """Count the colons outside of strings: one for each key, repeated or not."""
    if len(text) <= MAX_SEARCHED:
        return _STRING.sub(b"", text).count(b":")
    from mizzen.protocol import json_size

    return json_size.count_outside(text, b":")


def search(text: bytes) -> None:
    """Parse a text, valid JSON, and raise RepeatedKey if an object has a key twice."""
    try:
        # `float`, because integers have a limit of digits, beyond which parsing would end early.
        json.loads(str(text, "utf-8"), object_pairs_hook=_demand_unique, parse_int=float)
    except RecursionError:
        raise ValueError("the body is nested too deeply") from None


def _demand_unique(pairs: list[tuple[str, Any]]) -> None:
    if len(pairs) > 1 and len(dict(pairs)) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise RepeatedKey(key)
            seen.add(key)
