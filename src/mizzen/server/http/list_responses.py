"""List responses: encoded in a thread, one item after the other, so that other requests are not blocked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from starlette.responses import Response

T = TypeVar("T")


async def list_response(
    items: Iterable[T], render: Callable[[T], Mapping[str, Any]], metadata: Mapping[str, Any], **around: str
) -> Response:
    """Returns `{…around, "metadata": …, "items": […]}`. Calls `render` in the thread."""

    def encode() -> Response:
        # One by one: encoding all at once would hold the GIL, and all other requests up.
        inner = b",".join(_json(render(item)) for item in items)
        start = _json({**around, "metadata": metadata, "items": []}).removesuffix(b"]}")
        return Response(start + inner + b"]}", media_type="application/json")

    return await asyncio.to_thread(encode)


def _json(data: Mapping[str, Any]) -> bytes:
    return json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
