"""Frame bodies: msgpack of None, bool, int, float, str, bytes, lists, and dicts with str keys.

msgspec is used if it is installed; otherwise `pack_with_stdlib` and `unpack_with_stdlib` read and write the same bytes
with the standard library alone. The standard-library reader is stricter: it rejects values outside this subset
(extension types, keys that are not str), which msgspec accepts.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

_F32 = struct.Struct(">f")
_F64 = struct.Struct(">d")
_LIMITS = ((1 << 8, 1), (1 << 16, 2), (1 << 32, 4))


def pack_with_stdlib(obj: Any) -> bytes:
    """Raises TypeError for a type outside the subset, OverflowError for an int beyond 64 bits."""
    out = bytearray()
    _write(obj, out)
    return bytes(out)


def unpack_with_stdlib(data: bytes | memoryview) -> Any:
    """Raises ValueError unless the data is exactly one msgpack value of the subset."""
    view = memoryview(data)
    try:
        value, end = read_at(view, 0)
    except RecursionError:
        raise ValueError("msgpack is nested too deeply") from None
    if end != len(view):
        raise ValueError(f"{len(view) - end} bytes follow the msgpack value")
    return value


def _write(obj: Any, out: bytearray) -> None:
    match obj:
        case None:
            out.append(0xC0)
        case bool():
            out.append(0xC3 if obj else 0xC2)
        case int():
            _write_int(obj, out)
        case float():
            out.append(0xCB)
            out += _F64.pack(obj)
        case str():
            raw = obj.encode()
            _write_head(len(raw), out, 0xA0, 32, (0xD9, 0xDA, 0xDB))
            out += raw
        case bytes() | bytearray() | memoryview():
            raw = bytes(obj)
            _write_head(len(raw), out, 0, 0, (0xC4, 0xC5, 0xC6))
            out += raw
        case list() | tuple():
            _write_head(len(obj), out, 0x90, 16, (0, 0xDC, 0xDD))
            for item in obj:
                _write(item, out)
        case dict():
            _write_head(len(obj), out, 0x80, 16, (0, 0xDE, 0xDF))
            for key, value in obj.items():
                if not isinstance(key, str):
                    raise TypeError(f"keys must be str, not {type(key).__name__}")
                _write(key, out)
                _write(value, out)
        case _:
            raise TypeError(f"cannot pack a {type(obj).__name__}")


def _write_int(value: int, out: bytearray) -> None:
    if -32 <= value < 128:
        out.append(value & 0xFF)
    elif value >= 0:
        width = next((width for limit, width in _LIMITS if value < limit), 8)
        out.append({1: 0xCC, 2: 0xCD, 4: 0xCE, 8: 0xCF}[width])
        out += value.to_bytes(width, "big")
    else:
        width = next((width for limit, width in _LIMITS if value >= -(limit >> 1)), 8)
        out.append({1: 0xD0, 2: 0xD1, 4: 0xD2, 8: 0xD3}[width])
        out += value.to_bytes(width, "big", signed=True)


def _write_head(size: int, out: bytearray, short: int, below: int, codes: tuple[int, int, int]) -> None:
    """Write the opcode and size of a string, bytes, list or dict; code 0 marks a width that msgpack lacks."""
    if size < below:
        out.append(short | size)
        return
    for (limit, width), code in zip(_LIMITS, codes, strict=True):
        if code and size < limit:
            out.append(code)
            out += size.to_bytes(width, "big")
            return
    raise OverflowError(f"{size} is more than msgpack can carry")


# opcode -> (what follows, width of the number that follows)
_SIZED: dict[int, tuple[str, int]] = {
    0xC4: ("bytes", 1), 0xC5: ("bytes", 2), 0xC6: ("bytes", 4),
    0xD9: ("str", 1), 0xDA: ("str", 2), 0xDB: ("str", 4),
    0xDC: ("list", 2), 0xDD: ("list", 4), 0xDE: ("dict", 2), 0xDF: ("dict", 4),
    0xCC: ("uint", 1), 0xCD: ("uint", 2), 0xCE: ("uint", 4), 0xCF: ("uint", 8),
    0xD0: ("int", 1), 0xD1: ("int", 2), 0xD2: ("int", 4), 0xD3: ("int", 8),
}  # fmt: skip
_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}


def read_at(view: memoryview, at: int) -> tuple[Any, int]:
    """Return one value and the offset behind it. Raises ValueError."""
    code = _take(view, at, 1)[0]
    at += 1
    if code < 0x80:
        return code, at
    if code >= 0xE0:
        return code - 256, at
    if code < 0x90:
        return _read_body(view, at, "dict", code & 0x0F)
    if code < 0xA0:
        return _read_body(view, at, "list", code & 0x0F)
    if code < 0xC0:
        return _read_body(view, at, "str", code & 0x1F)
    return _read_coded(view, at, code)


def _read_coded(view: memoryview, at: int, code: int) -> tuple[Any, int]:
    if code in _CONSTANTS:
        return _CONSTANTS[code], at
    if code in (0xCA, 0xCB):
        form = _F32 if code == 0xCA else _F64
        return form.unpack(_take(view, at, form.size))[0], at + form.size
    if code not in _SIZED:
        raise ValueError(f"msgpack code 0x{code:02x} is not supported")
    what, width = _SIZED[code]
    number = int.from_bytes(_take(view, at, width), "big", signed=what == "int")
    return _read_body(view, at + width, what, number)


def _read_body(view: memoryview, at: int, what: str, number: int) -> tuple[Any, int]:
    match what:
        case "bytes":
            return bytes(_take(view, at, number)), at + number
        case "str":
            return str(_take(view, at, number), "utf-8"), at + number
        case "list":
            return _read_list(view, at, number)
        case "dict":
            return _read_dict(view, at, number)
    return number, at


def _read_list(view: memoryview, at: int, size: int) -> tuple[list[Any], int]:
    items = []
    for _ in range(size):
        item, at = read_at(view, at)
        items.append(item)
    return items, at


def _read_dict(view: memoryview, at: int, size: int) -> tuple[dict[str, Any], int]:
    items: dict[str, Any] = {}
    for _ in range(size):
        key, at = read_at(view, at)
        if not isinstance(key, str):
            raise ValueError(f"msgpack key of type {type(key).__name__}, not str")  # noqa: TRY004 - bad data, not a bad call
        items[key], at = read_at(view, at)
    return items, at


def _take(view: memoryview, at: int, size: int) -> memoryview:
    if at + size > len(view):
        raise ValueError("msgpack ends too early")
    return view[at : at + size]


def _pick_codec() -> tuple[Callable[[Any], bytes], Callable[[bytes | memoryview], Any]]:
    try:
        import msgspec
    except ImportError:
        return pack_with_stdlib, unpack_with_stdlib

    decode = msgspec.msgpack.Decoder().decode

    def unpack_fast(data: bytes | memoryview) -> Any:
        try:
            return decode(data)
        except RecursionError:
            raise ValueError("msgpack is nested too deeply") from None

    return msgspec.msgpack.Encoder().encode, unpack_fast


pack, unpack = _pick_codec()
