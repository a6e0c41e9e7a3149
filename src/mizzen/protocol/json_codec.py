"""Strict JSON, by msgspec if it is installed, else by `json` with the same strictness."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NoReturn


def parse_with_stdlib(text: bytes) -> Any:
    """Parse any JSON. Numbers out of range may become infinite."""
    value = loads(text)
    json.dumps(value, ensure_ascii=False).encode()  # rejects unpaired surrogates
    return value


def loads(text: bytes) -> Any:
    """Parse UTF-8 JSON without NaN and Infinity."""
    return json.loads(str(text, "utf-8"), parse_constant=_reject_constant)


def write_with_stdlib(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _pick_codec() -> tuple[Callable[[bytes], Any], Callable[[Any], bytes]]:
    try:
        import msgspec
    except ImportError:  # a runtime requires only numpy
        return parse_with_stdlib, write_with_stdlib
    return msgspec.json.Decoder().decode, msgspec.json.Encoder().encode


parse, write = _pick_codec()
