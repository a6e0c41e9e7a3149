"""Request bodies: bounded, JSON or YAML by media type, with values that plain JSON can express."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request

from mizzen.errors import BadRequest, TooLarge, UnsupportedMediaType
from mizzen.manifests import strict_parse
from mizzen.manifests.strict_parse import Unreadable
from mizzen.patches import json_patch
from mizzen.server.http.context import context_of

T = TypeVar("T")

RESOURCE_LIMIT = 3 << 20
YAML_LIMIT = 512 * 1024
"""YAML takes a hundred times as long to parse as JSON does."""
SMALL, SMALL_YAML = 32 * 1024, 2 * 1024
"""Bodies up to this many bytes are parsed in the event loop."""

JSON_TYPES = frozenset({"", "application/json"})
YAML_TYPES = frozenset({"application/yaml", "application/x-yaml", "text/yaml"})

_TOO_LARGE = (
    "send less at once, or send JSON, which has a higher limit than YAML; for the files of a version, send an archive"
    " to POST /model/<name>/version"
)


@dataclass(frozen=True, slots=True)
class PatchBody:
    """A patch as the caller sent it."""

    media_type: str
    body: Any
    size: int
    """Its bytes; or the most that it may produce, if it copies."""


async def read_object(request: Request, limit: int = RESOURCE_LIMIT) -> dict[str, Any]:
    """Returns the body as an object; {} for no body. Raises TooLarge, UnsupportedMediaType, BadRequest."""
    type_ = media_type(request)
    if type_ not in JSON_TYPES | YAML_TYPES:
        hint = "send application/json or application/yaml"
        raise UnsupportedMediaType(f"cannot read a body of type '{type_}'", hint=hint)
    as_yaml = type_ in YAML_TYPES
    data = await read_bytes(request, min(limit, YAML_LIMIT) if as_yaml else limit)
    if not data.strip():
        return {}
    value = await _parse(request, data, as_yaml=as_yaml)
    if not isinstance(value, dict):
        raise BadRequest(f"the body must be an object, not {strict_parse.type_name(value)}")
    return value


async def read_patch(request: Request, types: Collection[str]) -> PatchBody:
    """Returns a patch of one of these media types. Raises TooLarge, UnsupportedMediaType, BadRequest."""
    type_ = media_type(request)
    if type_ not in types:
        hint = f"supported: {', '.join(types)}"
        raise UnsupportedMediaType(f"cannot patch with a body of type '{type_}'", hint=hint)
    data = await read_bytes(request, RESOURCE_LIMIT)
    # Programs send JSON as YAML, too, which is valid.
    as_yaml = type_.endswith("+yaml") and data.lstrip()[:1] != b"{"
    if as_yaml and len(data) > YAML_LIMIT:
        raise TooLarge(f"the body has more than {YAML_LIMIT:,} bytes", hint=_TOO_LARGE)
    if not data.strip():
        raise BadRequest("the body is empty")
    body = await _parse(request, data, as_yaml=as_yaml)
    return PatchBody(type_, body, json_patch.MOST_COPIED if json_patch.copies(body) else len(data))


async def _parse(request: Request, data: bytes, *, as_yaml: bool) -> Any:
    small = SMALL_YAML if as_yaml else SMALL
    return await run_in_worker(request, len(data), lambda: parse(data, as_yaml=as_yaml), small=small)


async def run_in_worker(request: Request, size: int, work: Callable[[], T], *, small: int = SMALL) -> T:
    """Returns the result of `work` on this many bytes; runs it in the body worker unless that is small."""
    if size <= small:
        return work()
    return await context_of(request).body_workers.run(request.state.caller.actor.name, work)


def size_hint(value: Any) -> int:
    """Returns about the size of the value as JSON. Stops counting once it is clear that the value is not small."""
    total, waiting = 0, [value]
    while waiting and total <= SMALL:
        inner = waiting.pop()
        total += len(inner) + 2 if isinstance(inner, str) else 4
        if isinstance(inner, Mapping):
            waiting += (*inner, *inner.values())
        elif isinstance(inner, list | tuple):
            waiting += inner
    return total


def media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def read_bytes(request: Request, limit: int, *, hint: str = _TOO_LARGE) -> bytes:
    declared = request.headers.get("content-length", "0")
    if declared.isdecimal() and int(declared[:20]) > limit:
        raise TooLarge(f"the body has {declared[:20]} bytes; the limit is {limit:,}", hint=hint)
    chunks, size = [], 0
    try:
        async for chunk in request.stream():
            size += len(chunk)
            if size > limit:
                raise TooLarge(f"the body has more than {limit:,} bytes", hint=hint)
            chunks.append(chunk)
    except ClientDisconnect as error:
        raise BadRequest("the connection closed before the whole body arrived") from error
    return b"".join(chunks)


def parse(data: bytes, *, as_yaml: bool) -> Any:
    """Returns plain JSON data. Raises BadRequest with the position of the fault."""
    try:
        return strict_parse.read_yaml(data) if as_yaml else strict_parse.read_json(data)
    except Unreadable as error:
        raise BadRequest(f"the body is {error}") from error
