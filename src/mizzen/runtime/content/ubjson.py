"""Universal Binary JSON, as XGBoost writes it. Arrays of one type of number become arrays of numpy."""

from __future__ import annotations

import struct
from typing import Any, Final

import numpy as np

from mizzen.runtime.content.findings import DamagedFile, Unproven, quote

_NUMBERS: Final = {
    b"i": (">i1", "b"), b"U": (">u1", "B"), b"I": (">i2", "h"), b"l": (">i4", "i"), b"L": (">i8", "q"),
    b"d": (">f4", "f"), b"D": (">f8", "d"),
}  # fmt: skip
_INTEGERS: Final = (b"i", b"U", b"I", b"l", b"L")
_WORDS: Final = {b"Z": None, b"T": True, b"F": False}
_DEEPEST: Final = 50


def parse(data: bytes) -> Any:
    """Return the document. Raises DamagedFile, or Unproven if a key occurs twice in an object."""
    reader = _Reader(data)
    try:
        value = reader.value(reader.take(1), 0)
    except (struct.error, UnicodeDecodeError, ValueError) as error:
        raise DamagedFile(f"it is not valid UBJSON: {error}") from error
    if reader.at != len(data):
        raise DamagedFile("it continues after the end of its UBJSON")
    return value


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, size: int) -> bytes:
        part = self.data[self.at : self.at + size]
        if size < 0 or len(part) < size:
            raise DamagedFile("its UBJSON is cut off")
        self.at += size
        return part

    def value(self, marker: bytes, depth: int) -> Any:
        if depth > _DEEPEST:
            raise Unproven("its UBJSON is nested too deeply")
        if marker == b"{":
            return self._object(depth)
        if marker == b"[":
            return self._array(depth)
        if marker == b"S":
            return self._text()
        if marker in _WORDS:
            return _WORDS[marker]
        return self._number(marker)

    def _number(self, marker: bytes) -> int | float:
        if marker not in _NUMBERS:
            raise DamagedFile(f"its UBJSON has the unknown type {quote(marker)}")
        form = ">" + _NUMBERS[marker][1]
        number: int | float = struct.unpack(form, self.take(struct.calcsize(form)))[0]
        return number

    def _size(self) -> int:
        marker = self.take(1)
        if marker not in _INTEGERS:
            raise DamagedFile("its UBJSON has a size that is not a number")
        return int(self._number(marker))

    def _text(self) -> str:
        return self.take(self._size()).decode()

    def _object(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while (marker := self.take(1)) != b"}":
            if marker in (b"$", b"#"):
                raise Unproven("its UBJSON has an object with a declared size")
            self.at -= 1
            key = self._text()
            if key in found:
                raise Unproven(f"the key {quote(key)} occurs twice in an object")
            found[key] = self.value(self.take(1), depth + 1)
        return found

    def _array(self, depth: int) -> Any:
        marker = self.take(1)
        if marker == b"$":
            kind = self.take(1)
            if kind not in _NUMBERS or self.take(1) != b"#":
                raise Unproven("its UBJSON has an array of an unusual type")
            dtype = np.dtype(_NUMBERS[kind][0])
            return np.frombuffer(self.take(self._size() * dtype.itemsize), dtype)
        if marker == b"#":
            size = self._size()
            if not 0 <= size <= len(self.data):
                raise DamagedFile("its UBJSON is cut off")
            return [self.value(self.take(1), depth + 1) for _ in range(size)]
        items = []
        while marker != b"]":
            items.append(self.value(marker, depth + 1))
            marker = self.take(1)
        return items
