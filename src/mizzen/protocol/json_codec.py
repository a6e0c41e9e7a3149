"""JSON as it is, read and written by msgspec where it is installed, else by `json`: with the same strictness."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NoReturn


def parse_plainly(text: bytes) -> Any:
    """Any JSON. Numbers out of range may come as infinite ones."""
    value = loads(text)
    json.dumps(value, ensure_ascii=False).encode()  # half a surrogate pair is no text
    return value


def loads(text: bytes) -> Any:
    """Of UTF-8 only, and without NaN and Infinity."""
    return json.loads(str(text, "utf-8"), parse_constant=_no_constant)


def write_plainly(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _fastest() -> tuple[Callable[[bytes], Any], Callable[[Any], bytes]]:
    try:
        import msgspec
    except ImportError:  # a runtime needs no more than numpy
        return parse_plainly, write_plainly
    return msgspec.json.Decoder().decode, msgspec.json.Encoder().encode


parse, write = _fastest()
