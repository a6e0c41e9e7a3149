"""Strict conversion between V2 tensors and numpy arrays.

Invalid data raises a ValueError that says what was expected. JSON is read and written by msgspec if it is installed,
else by `json`; long lists of numbers are read by simdjson (`json_numbers`).

Elements of a BYTES tensor are `str` when they came as JSON and `bytes` when they came raw.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from types import GenericAlias
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mizzen.protocol import json_codec, json_numbers, json_size
from mizzen.protocol.plain_elements import LEAF_NAMES, MAX_RANK, Leaf, pack, split_lengths

Array = NDArray[Any]

_OPENING = re.compile(rb"[\s\[]*")
_POSITION = re.compile(r" - at `[^`]*`$| \(byte \d+\)$")
_SPACE = b" \t\r\n"
_NO_STRUCTURE = bytes(set(range(256)) - set(b"[],"))
_MAX_WHOLE = 2 << 20
"""Up to this many bytes, JSON is decoded to Python objects as a whole, which takes less time."""
_PIECE = 256 << 10
"""Bytes of JSON that are decoded to Python objects at a time, of a larger text."""
_WRAPS = np.lib.NumpyVersion(np.__version__) < "2.0.0"
"""A user's environment may have an old numpy, which silently converts 300 to 44 for 8 bits."""


@dataclass(frozen=True, slots=True)
class Datatype:
    name: str
    dtype: np.dtype[Any]
    """Little-endian, as on the wire."""
    leaf: Leaf
    """The type of an element in JSON."""

    @property
    def number(self) -> bool:
        return self.leaf is int or self.leaf is float


DATATYPES: dict[str, Datatype] = {
    name: Datatype(name, np.dtype(code), leaf)
    for name, code, leaf in (
        ("BOOL", "?", bool), ("BYTES", "O", str),
        ("INT8", "i1", int), ("INT16", "<i2", int), ("INT32", "<i4", int), ("INT64", "<i8", int),
        ("UINT8", "u1", int), ("UINT16", "<u2", int), ("UINT32", "<u4", int), ("UINT64", "<u8", int),
        ("FP16", "<f2", float), ("FP32", "<f4", float), ("FP64", "<f8", float),
    )
}  # fmt: skip
_BY_DTYPE = {datatype.dtype: datatype for datatype in DATATYPES.values() if datatype.name != "BYTES"}


def datatype_named(name: str) -> Datatype:
    try:
        return DATATYPES[name]
    except (KeyError, TypeError):
        raise ValueError(f"{name!r} is not a valid datatype; expected one of {', '.join(DATATYPES)}") from None


def widens(source: Datatype, target: Datatype) -> bool:
    """Whether a tensor of `source` may replace one of `target`: numbers only, and without loss."""
    return source.number and target.number and np.can_cast(source.dtype, target.dtype, casting="safe")


def decode_json(datatype: str, shape: Sequence[int], text: bytes) -> Array:
    """Return the array of this shape, from a flat list or lists nested exactly by the shape. Raises ValueError."""
    kind = datatype_named(datatype)
    count = _size(shape)
    opening = _OPENING.match(text)
    depth = opening[0].count(b"[") if opening else 0
    nesting = _nesting(shape)
    if depth != 1 and depth != len(nesting):
        raise ValueError(
            f"data must be a list of {count} {LEAF_NAMES[kind.leaf]}, or nested as its shape {list(shape)}"
        )
    levels = (count,) if depth == 1 else nesting
    whole = len(text) <= _MAX_WHOLE
    if whole and kind.name == "FP64" and depth == 1 and (long := json_numbers.parse_doubles(text, count)) is not None:
        return long.reshape(tuple(shape))
    if len(text) > json_size.LARGE and levels:
        _measure(kind, text, levels, shape)
        if not whole and kind.leaf is not str and 0 not in levels:
            return _decode_pieces(kind, text, levels, shape).reshape(tuple(shape))
    try:
        data = _read(text, kind.leaf, len(levels))
    except (ValueError, OverflowError, RecursionError) as error:
        raise ValueError(f"data must hold {LEAF_NAMES[kind.leaf]} for {datatype}: {error}") from None
    return _array(kind, _flat(data, levels, shape)).reshape(tuple(shape))


def decode_raw(datatype: str, shape: Sequence[int], data: bytes | memoryview) -> Array:
    """Return the array of this shape from little-endian bytes; each BYTES element follows its u32 length."""
    kind = datatype_named(datatype)
    count = _size(shape)
    if kind.name == "BYTES":
        _demand_few(count)
        return _array(kind, split_lengths(data, count)).reshape(tuple(shape))
    wanted = count * kind.dtype.itemsize
    if len(data) != wanted:
        raise ValueError(f"data must be {wanted} bytes for {datatype} of shape {list(shape)}, not {len(data)}")
    if kind.name == "BOOL" and np.any(np.frombuffer(data, np.uint8) > 1):
        raise ValueError("data must hold bytes 0 and 1 for BOOL")
    # Copied, because a view would be read-only, and a model may work in place.
    return np.frombuffer(bytearray(data), kind.dtype).reshape(tuple(shape))


def from_elements(datatype: str, shape: Sequence[int], values: list[Any]) -> Array:
    """Return an array from as many elements as the shape has, all of the datatype's leaf type."""
    array = _array(datatype_named(datatype), values).reshape(tuple(shape))
    if not is_finite(array):
        raise ValueError("number out of range")
    return array


def encode_raw(kind: Datatype, plain: Array) -> bytes:
    """Return the raw bytes of an array from `as_datatype`."""
    return pack(kind.name, plain.reshape(-1).tolist()) if kind.name == "BYTES" else plain.tobytes()


def encode_json(array: Array) -> tuple[str, list[int], bytes]:
    """Return datatype, shape and the JSON text of the flat data. Raises ValueError if JSON cannot carry it."""
    kind, plain = as_datatype(array)
    if not is_finite(plain):
        raise ValueError("NaN or Infinity, which JSON cannot carry")
    return kind.name, list(plain.shape), write_list(plain.reshape(-1).tolist())


def as_datatype(array: Array, *, text: bool = True) -> tuple[Datatype, Array]:
    """Return the V2 datatype of an array, and the array in that type. Raises ValueError if there is none.

    With `text`, bytes must be UTF-8, as JSON requires; without it, they may be anything.
    """
    kind = _BY_DTYPE.get(array.dtype)
    if kind is not None:
        return kind, array
    if array.dtype.kind in "USTO":
        return _from_objects(array, text=text)
    if array.dtype.kind in "iuf":
        native = array.astype(array.dtype.newbyteorder("<") if array.dtype.itemsize <= 8 else np.float64)
        return _BY_DTYPE[native.dtype], native
    raise ValueError(f"an array of {array.dtype} has no V2 datatype")


def is_finite(array: Array) -> bool:
    return array.dtype.kind != "f" or bool(np.isfinite(array).all())


def _from_objects(array: Array, *, text: bool) -> tuple[Datatype, Array]:
    """Convert strings, bytes, or objects that are all of one plain type."""
    elements = [one.item() if isinstance(one, np.generic) else one for one in array.reshape(-1).tolist()]
    kinds = set(map(type, elements))
    if kinds <= {str, bytes}:
        texts = _texts(elements) if text and bytes in kinds else elements
        return DATATYPES["BYTES"], _array(DATATYPES["BYTES"], texts).reshape(array.shape)
    if kinds <= {bool} or kinds <= {int} or kinds <= {int, float}:
        plain = _array(DATATYPES["BOOL" if bool in kinds else "FP64" if float in kinds else "INT64"], elements)
        return _BY_DTYPE[plain.dtype], plain.reshape(array.shape)
    names = ", ".join(sorted(kind.__name__ for kind in kinds))
    raise ValueError(f"an array of objects ({names}) has no V2 datatype")


def _texts(elements: list[Any]) -> list[str]:
    try:
        return [element.decode() if isinstance(element, bytes) else element for element in elements]
    except UnicodeDecodeError:
        raise ValueError("bytes that are not valid UTF-8, which JSON cannot carry") from None


def _size(shape: Sequence[int]) -> int:
    if len(shape) > MAX_RANK:
        raise ValueError(f"a tensor has at most {MAX_RANK} dimensions, not {len(shape)}")
    for dimension in shape:
        if type(dimension) is not int or dimension < 0:
            raise ValueError(f"shape must hold sizes of 0 or more, not {list(shape)}")
    return math.prod(shape)


def _nesting(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the list levels of this shape; there are none below an empty one."""
    return tuple(shape[: shape.index(0) + 1]) if 0 in shape else tuple(shape)


def _measure(kind: Datatype, text: bytes, levels: tuple[int, ...], shape: Sequence[int]) -> None:
    """Raises ValueError if a large text cannot fit its shape or has too many lists, before it is decoded."""
    wanted = 1
    for above in range(1, len(levels)):
        wanted += math.prod(levels[:above])
    lists = json_size.count_lists(text)
    if lists > json_size.MAX_LISTS + 1:
        raise ValueError(
            f"data has {lists - 1} inner lists, more than {json_size.MAX_LISTS}: send its elements as one flat list"
        )
    if kind.leaf is str:  # strings may contain brackets and commas
        if (given := json_size.count_strings(text)) != math.prod(levels):
            raise ValueError(f"data does not fit shape {list(shape)}: {given} elements, expected {math.prod(levels)}")
        _demand_few(given)
        return
    # Commas separate the items of each non-empty list: in total, one less than there are innermost items.
    places = math.prod(levels if levels[-1] else levels[:-1])
    given = text.count(b",") + 1
    if given != places or lists != wanted:
        found = f"{given} elements" + (f" in {lists} lists" if len(levels) > 1 or lists > 1 else "")
        says = f"{math.prod(levels)}" + (f" in {wanted}" if len(levels) > 1 or lists > 1 else "")
        raise ValueError(f"data does not fit shape {list(shape)}: {found}, expected {says}")


def _demand_few(strings: int) -> None:
    if strings > json_size.MAX_STRINGS:
        raise ValueError(
            f"data has {strings} strings, more than {json_size.MAX_STRINGS}; send them in several requests"
        )


def _decode_pieces(kind: Datatype, text: bytes, levels: tuple[int, ...], shape: Sequence[int]) -> Array:
    """Return the flat array of a large text that `_measure` accepted. Piece by piece, because a Python object per
    number takes many times the memory of the text.

    A text is cut between two items of its list. If each piece is a list of items, the text is one of all.
    """
    if len(levels) > 1:
        text = _flatten_text(text, levels, shape)
    made = np.empty(math.prod(levels), kind.dtype)
    at, end = text.find(b"[") + 1, text.rfind(b"]")
    filled = 0
    while True:
        comma = text.find(b",", min(at + _PIECE, end), end)
        piece = b"[%b]" % text[at : end if comma < 0 else comma]
        part = _decode_piece(kind, piece)
        if not len(part) or filled + len(part) > len(made):
            raise ValueError(f"data does not fit shape {list(shape)}: expected {len(made)} elements")
        made[filled : filled + len(part)] = part
        filled += len(part)
        if comma < 0:
            break
        at = comma + 1
    if filled != len(made) or text[end + 1 :].strip(_SPACE):
        raise ValueError(f"data does not fit shape {list(shape)}: {filled} elements, expected {len(made)}")
    return made


def _flatten_text(text: bytes, levels: tuple[int, ...], shape: Sequence[int]) -> bytes:
    """Return nested lists of numbers as the text of one flat list. Raises ValueError unless each list has its size.

    Everything but brackets and commas is removed, and what remains is compared with that of these sizes. Then each list
    must end next to a comma and the next list; so no bracket is next to a number on its outer side.
    """
    sizes = b"," * (levels[-1] - 1)
    for size in reversed(levels[:-1]):
        sizes = b",".join([b"[%b]" % sizes] * size)
    dense = text.translate(None, _SPACE)
    fits = dense.translate(None, _NO_STRUCTURE) == b"[%b]" % sizes
    del sizes
    for depth in range(len(levels) - 1, 0, -1):
        dense = dense.replace(b"%b,%b" % (b"]" * depth, b"[" * depth), b",")
    dense = dense.strip(b"[]")
    if not fits or b"[" in dense or b"]" in dense:
        raise ValueError(f"data does not fit shape {list(shape)}: lists of other sizes")
    del dense
    return b"[%b]" % text.translate(None, b"[]")


def _decode_piece(kind: Datatype, piece: bytes) -> Array:
    """Decode a flat list. Raises ValueError."""
    if kind.name == "FP64":
        found = json_numbers.parse_doubles(piece, piece.count(b",") + 1)
        if found is not None:
            return found
    try:
        return _array(kind, _read(piece, kind.leaf, 1))
    except (ValueError, OverflowError, RecursionError) as error:
        if str(error).startswith("data holds"):
            raise
        fault = _POSITION.sub("", str(error))  # in the piece
        raise ValueError(f"data must hold {LEAF_NAMES[kind.leaf]} for {kind.name}: {fault}") from None


def _flat(data: Any, levels: tuple[int, ...], shape: Sequence[int]) -> list[Any]:
    """Return the elements of nested lists; every list of a level must have exactly the level's length."""
    lists = [data]
    for size in levels:
        for one in lists:
            if len(one) != size:
                raise ValueError(f"data does not fit shape {list(shape)}: {len(one)} elements, expected {size}")
        lists = lists[0] if len(lists) == 1 else list(chain.from_iterable(lists))
    return lists


def _array(kind: Datatype, elements: list[Any]) -> Array:
    if kind.name == "BYTES":
        array = np.empty(len(elements), object)
        array[:] = elements
        return array
    if kind.leaf is float and kind.name != "FP64":
        with np.errstate(over="raise"):
            return _to_checked_array(kind, elements)
    return _to_checked_array(kind, elements)


def _to_checked_array(kind: Datatype, elements: list[Any]) -> Array:
    try:
        if kind.name == "FP64":
            return np.fromiter(elements, kind.dtype, len(elements))  # takes a fifth less than np.array
        if _WRAPS and kind.leaf is int and elements:
            _demand_range(kind, elements)
        return np.array(elements, kind.dtype)
    except (OverflowError, FloatingPointError):
        raise ValueError(f"data holds a number outside the range of {kind.name}") from None


def _demand_range(kind: Datatype, elements: list[Any]) -> None:
    limits = np.iinfo(kind.dtype)
    if min(elements) < limits.min or max(elements) > limits.max:
        raise OverflowError


def read_plainly(text: bytes, leaf: Leaf, depth: int) -> list[Any]:
    """Parse lists nested `depth` deep around elements of exactly this type. Raises ValueError otherwise."""
    value = json_codec.loads(text)
    level = [value]
    for _ in range(depth):
        if not all(type(item) is list for item in level):
            raise ValueError("expected a list at each level above the last")
        level = list(chain.from_iterable(level))
    allowed = {float, int} if leaf is float else {leaf}
    if not allowed.issuperset(map(type, level)):
        raise ValueError(f"expected only {LEAF_NAMES[leaf]}")
    if leaf is float and not all(map(math.isfinite, level)):
        raise ValueError("number out of range")
    if leaf is str:
        "".join(level).encode()  # rejects unpaired surrogates
    return value  # type: ignore[no-any-return]


def _fastest() -> Callable[[bytes, Leaf, int], list[Any]]:
    try:
        import msgspec
    except ImportError:
        return read_plainly

    readers: dict[tuple[Leaf, int], Callable[[bytes], list[Any]]] = {}

    def read_fast(text: bytes, leaf: Leaf, depth: int) -> list[Any]:
        reader = readers.get((leaf, depth))
        if reader is None:
            kind: Any = leaf
            for _ in range(depth):
                kind = GenericAlias(list, (kind,))
            reader = readers[leaf, depth] = msgspec.json.Decoder(kind).decode
        return reader(text)

    return read_fast


_read = _fastest()
write_list: Callable[[list[Any]], bytes] = json_codec.write
