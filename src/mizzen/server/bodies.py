"""Request bodies: bounded, JSON or YAML by media type, and nothing that plain JSON could not say.

Refused as unreadable: repeated keys, NaN, text that is no Unicode, deep nesting, and of YAML what JSON cannot say.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Iterable
from typing import Any

import yaml
from starlette.requests import ClientDisconnect, Request

from mizzen.errors import BadRequest, TooLarge, UnsupportedMediaType
from mizzen.server import plain_yaml
from mizzen.server.plain_yaml import DEPTH

RESOURCE_LIMIT = 3 << 20

JSON_TYPES = frozenset({"", "application/json"})
YAML_TYPES = frozenset({"application/yaml", "application/x-yaml", "text/yaml"})


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
        raise BadRequest(f"the body must be an object, not {_type_name(value)}")
    return value


async def read_bytes(request: Request, limit: int) -> bytes:
    declared = request.headers.get("content-length", "0")
    if declared.isdecimal() and int(declared) > limit:
        raise TooLarge(f"the body has {declared} bytes; the limit is {limit}")
    chunks, size = [], 0
    try:
        async for chunk in request.stream():
            size += len(chunk)
            if size > limit:
                raise TooLarge(f"the body has more than {limit} bytes")
            chunks.append(chunk)
    except ClientDisconnect as error:
        raise BadRequest("the connection ended before the body did") from error
    return b"".join(chunks)


def parse(data: bytes, *, as_yaml: bool) -> Any:
    """Plain JSON data, or BadRequest with the place of the fault."""
    language = "YAML" if as_yaml else "JSON"
    try:
        text = data.decode()
        value = plain_yaml.load(text) if as_yaml else json.loads(text, object_pairs_hook=_unique)
        _demand_plain(value, "", DEPTH)
    except RecursionError as error:
        raise BadRequest(f"the {language} is nested too deeply") from error
    except (ValueError, KeyError, yaml.YAMLError) as error:  # KeyError: PyYAML, for !!bool maybe
        raise BadRequest(f"the body is not readable {language}: {_one_line(error)}") from error
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        raise ValueError(f"key '{_first_repeated(key for key, _ in pairs)}' is repeated")
    return result


def _first_repeated(keys: Iterable[str]) -> str | None:
    seen: set[str] = set()
    for key in keys:
        if key in seen:
            return key
        seen.add(key)
    return None


def _demand_plain(value: Any, path: str, depth: int) -> None:
    if depth < 0:
        raise ValueError(f"more than {DEPTH} levels")
    match value:
        case dict():
            for key, item in value.items():
                _demand_plain(key, path, depth)
                _demand_plain(item, f"{path}.{key}" if path else key, depth - 1)
        case list():
            for index, item in enumerate(value):
                _demand_plain(item, f"{path}[{index}]", depth - 1)
        case str():
            value.encode()  # half a surrogate pair cannot be stored: UnicodeEncodeError is a ValueError
        case float() if not math.isfinite(value):
            raise ValueError(f"{value} at '{path}' is no JSON number")


def _type_name(value: Any) -> str:
    names = {list: "a list", str: "a text", bool: "true or false", int: "a number", float: "a number"}
    return "null" if value is None else names.get(type(value), f"a {type(value).__name__}")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
