"""Request bodies: bounded, JSON or YAML by media type, and nothing that plain JSON could not say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request

from mizzen.errors import BadRequest, TooLarge, UnsupportedMediaType
from mizzen.manifests import parsing
from mizzen.manifests.parsing import Unreadable
from mizzen.server.plane import plane_of

T = TypeVar("T")

RESOURCE_LIMIT = 3 << 20
YAML_LIMIT = 512 * 1024
"""YAML takes a hundred times as long to read as JSON does."""
SMALL, SMALL_YAML = 32 * 1024, 2 * 1024
"""Bytes that are read at once."""

JSON_TYPES = frozenset({"", "application/json"})
YAML_TYPES = frozenset({"application/yaml", "application/x-yaml", "text/yaml"})

_TOO_LARGE = (
    "send less at once, or JSON, of which more is taken than of YAML; the files of a version go to"
    " POST /model/<name>/version as an archive"
)


async def read_object(request: Request, limit: int = RESOURCE_LIMIT) -> dict[str, Any]:
    """The body as an object; an absent body is an empty one. TooLarge, UnsupportedMediaType, BadRequest."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type not in JSON_TYPES | YAML_TYPES:
        raise UnsupportedMediaType(
            f"cannot read a body of type '{media_type}'", hint="send application/json or application/yaml"
        )
    as_yaml = media_type in YAML_TYPES
    data = await read_bytes(request, min(limit, YAML_LIMIT) if as_yaml else limit)
    if not data.strip():
        return {}
    small = SMALL_YAML if as_yaml else SMALL
    value = await beside(request, len(data), lambda: parse(data, as_yaml=as_yaml), small=small)
    if not isinstance(value, dict):
        raise BadRequest(f"the body must be an object, not {parsing.type_name(value)}")
    return value


async def beside(request: Request, size: int, work: Callable[[], T], *, small: int = SMALL) -> T:
    """The result of `work` on a body of this size; what is not small is done beside everything else."""
    if size <= small:
        return work()
    return await plane_of(request).apart.run(request.state.known.actor.name, work)


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
