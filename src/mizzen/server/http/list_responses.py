"""List responses: encoded piece by piece in threads, so that other requests are not blocked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any, TypeVar

from starlette.responses import Response

T = TypeVar("T")

FEW = 20
"""So many items are encoded at once: a thread would cost more."""
PIECE = 200
"""The most items to encode before a thread is free for others."""


async def list_response(
    items: Iterable[T], render: Callable[[T], Mapping[str, Any]], metadata: Mapping[str, Any], **around: str
) -> Response:
    """Returns `{…around, "metadata": …, "items": […]}`. Calls `render` in a thread if there are more than a few."""

    def encode(piece: Iterable[T]) -> bytes:
        # One by one: encoding all at once would hold the GIL, and all other requests up.
        return b",".join(_json(render(item)) for item in piece)

    left = iter(items)
    encoded: list[bytes] = []
    while piece := list(islice(left, PIECE)):
        is_short = not encoded and len(piece) <= FEW
        encoded.append(encode(piece) if is_short else await asyncio.to_thread(encode, piece))
    start = _json({**around, "metadata": metadata, "items": []}).removesuffix(b"]}")
    return Response(start + b",".join(encoded) + b"]}", media_type="application/json")


def _json(data: Mapping[str, Any]) -> bytes:
    return json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
