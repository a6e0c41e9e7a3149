"""Lists as answers: written down in a thread, one item after the other, so that other requests go on meanwhile."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from starlette.responses import Response

T = TypeVar("T")


async def listed(
    items: Iterable[T], shown: Callable[[T], Mapping[str, Any]], metadata: Mapping[str, Any], **around: str
) -> Response:
    """`{…around, "metadata": …, "items": […]}`. `shown` is called in the thread."""

    def written() -> Response:
        # One by one: to write it all at once would hold Python's lock for as long, and all others up.
        inner = b",".join(_json(shown(item)) for item in items)
        start = _json({**around, "metadata": metadata, "items": []}).removesuffix(b"]}")
        return Response(start + inner + b"]}", media_type="application/json")

    return await asyncio.to_thread(written)


def _json(data: Mapping[str, Any]) -> bytes:
    return json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
