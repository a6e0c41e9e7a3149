"""Conversion between resources and row bytes. Values that cannot be stored exactly are rejected, never changed."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import Any

import msgspec

from mizzen.errors import Fault, Invalid
from mizzen.kinds.schema.resource import Ref, Resource, parse_time
from mizzen.stores.pages import Unread


def encode(resource: Resource) -> bytes:
    """Raises Invalid for values that JSON cannot hold: NaN, lone surrogates, Python objects, cycles."""
    return encode_data(resource.wire(), resource)


def encode_data(data: object, of: Resource, *, sort_keys: bool = False) -> bytes:
    try:
        return _json(data, sort_keys=sort_keys)
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid.of(str(of.ref), (Fault("", f"not plain JSON data: {error}"),)) from error


def canonical(data: object) -> bytes:
    """Returns the same bytes for equal data in any key order. Expects stored data, which is plain JSON."""
    return _json(data, sort_keys=True)


def decode(body: bytes) -> Resource:
    return Resource.from_wire(msgspec.json.decode(body))


def unread(body: bytes) -> Unread[Resource]:
    return Unread(len(body), partial(decode, body))


def decode_data(body: bytes | None) -> Mapping[str, Any] | None:
    return None if body is None else msgspec.json.decode(body)


def moment(text: str) -> datetime:
    """Parses a required time column."""
    time = parse_time(text)
    assert time is not None
    return time


def same(old: object, new: object, of: Resource) -> bool:
    """Whether both are equal as JSON: key order does not matter, 1 is neither 1.0 nor true. Raises as `encode`."""
    return encode_data(old, of, sort_keys=True) == encode_data(new, of, sort_keys=True)


def find(connection: sqlite3.Connection, ref: Ref) -> Resource | None:
    # fetchall, not fetchone: a statement not read to its end keeps its read transaction open, and the connection
    # would keep seeing that moment.
    found = connection.execute(
        "SELECT body FROM objects WHERE kind = ? AND namespace = ? AND name = ?", (ref.kind, ref.namespace, ref.name)
    ).fetchall()
    return decode(found[0][0]) if found else None


def exists(connection: sqlite3.Connection, ref: Ref) -> bool:
    query = "SELECT 1 FROM objects WHERE kind = ? AND namespace = ? AND name = ?"
    return bool(connection.execute(query, (ref.kind, ref.namespace, ref.name)).fetchall())


def _json(data: object, *, sort_keys: bool) -> bytes:
    # The standard library's encoder, because msgspec's writes NaN as null and dates as text.
    # Strict UTF-8: an escaped lone surrogate could be written but not read back.
    text = json.dumps(data, allow_nan=False, ensure_ascii=False, separators=(",", ":"), sort_keys=sort_keys)
    return text.encode()
