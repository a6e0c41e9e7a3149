"""Request bodies: bounded, JSON or YAML by media type, and nothing that plain JSON could not say."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.requests import ClientDisconnect, Request

from mizzen.errors import BadRequest, TooLarge, UnsupportedMediaType
from mizzen.manifests import parsing
from mizzen.manifests.parsing import Unreadable

RESOURCE_LIMIT = 3 << 20

JSON_TYPES = frozenset({"", "application/json"})
YAML_TYPES = frozenset({"application/yaml", "application/x-yaml", "text/yaml"})

_TOO_LARGE = "send less at once; the files of a version go to POST /model/<name>/version as an archive"


async def read_object(request: Request, limit: int = RESOURCE_LIMIT) -> dict[str, Any]:
    """The body as an object; an absent body is an empty one. TooLarge, UnsupportedMediaType, BadRequest."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type not in JSON_TYPES | YAML_TYPES:
        raise UnsupportedMediaType(
            f"cannot read a body of type '{media_type}'", hint="send application/json or application/yaml"
        )
    data = await read_bytes(request, limit)
    if not data.strip():
        return {}
    # Large YAML takes seconds: in a thread the other requests go on.
    value = await asyncio.to_thread(parse, data, as_yaml=media_type in YAML_TYPES)
    if not isinstance(value, dict):
        raise BadRequest(f"the body must be an object, not {parsing.type_name(value)}")
    return value


async def read_bytes(request: Request, limit: int) -> bytes:
    declared = request.headers.get("content-length", "0")
    if declared.isdecimal() and int(declared[:20]) > limit:
        raise TooLarge(f"the body has {declared[:20]} bytes; the limit is {limit:,}", hint=_TOO_LARGE)
    chunks, size = [], 0
    try:
        async for chunk in request.stream():
            size += len(chunk)
            if size > limit:
                raise TooLarge(f"the body has more than {limit:,} bytes", hint=_TOO_LARGE)
            chunks.append(chunk)
    except ClientDisconnect as error:
        raise BadRequest("the connection ended before the body did") from error
    return b"".join(chunks)


def parse(data: bytes, *, as_yaml: bool) -> Any:
    """Plain JSON data, or BadRequest with the place of the fault."""
    try:
        return parsing.read_yaml(data) if as_yaml else parsing.read_json(data)
    except Unreadable as error:
        raise BadRequest(f"the body is {error}") from error
