"""Cuts long lists of numbers out of large V1 bodies, and decodes them without a Python object per number.

The rest of a body is then small, and is parsed as any other. Lists that contain strings or objects are not cut out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from math import prod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mizzen.protocol.tensors import Array

MIN_BYTES = 4 << 10
"""Shorter lists are not cut out."""
MAX_LISTS = 1024
MAX_REST = 64 << 10
"""Maximum bytes of a body without its long lists."""

_MARK = b"7310528190046"
_VALUE = re.compile(rb":[ \t\r\n]*\[")
_MAX_RANK = 32


class LongList:
    """A list of numbers or booleans, or evenly nested lists of them, as JSON."""

    __slots__ = ("text",)

    def __init__(self, text: bytes) -> None:
        self.text = text

    @property
    def flat(self) -> bool:
        return self.text[1:65].lstrip()[:1] != b"["

    def read(self, datatype: str | None) -> tuple[str, list[int], Array]:
        """Return datatype, shape and array. Without a datatype, it is derived from the text. Raises ValueError."""
        from mizzen.protocol import tensors

        if datatype == "BYTES":
            raise ValueError("expected only strings")
        datatype = datatype or self._find_datatype()
        shape = self._find_shape()
        return datatype, shape, tensors.decode_json(datatype, shape, self.text)

    def _find_datatype(self) -> str:
        signs = set(self.text.translate(None, b"0123456789-[], \t\r\n"))
        if not signs:
            return "INT64"
        if signs <= set(b".eE+"):
            return "FP64"
        if signs <= set(b"truefals"):
            return "BOOL"
        raise ValueError("expected only numbers, only booleans or only strings")

    def _find_shape(self) -> list[int]:
        """Return the shape, from the first list of each level and the number of elements."""
        opening = re.match(rb"[ \t\r\n\[]*", self.text)
        assert opening is not None
        depth = opening[0].count(b"[")
        if depth > _MAX_RANK:
            raise ValueError(f"its lists are nested too deeply; a tensor has at most {_MAX_RANK} dimensions")
        if self.text.count(b"]") != self.text.count(b"["):
            raise ValueError("the body is not JSON: lists do not end")
        sizes: list[int] = []
        for level in range(1, depth):
            closed = re.search(rb"(?:\][ \t\r\n]*){%d}" % level, self.text)
            count = self.text.count(b",", 0, closed.end() if closed else None) + 1
            sizes.append(count // (prod(sizes) or 1))
        found = self.text.count(b",") + 1
        shape = [found // (prod(sizes) or 1), *reversed(sizes)]
        if prod(shape) != found:
            raise ValueError(f"lists must have the same length and depth everywhere; the first ones give shape {shape}")
        return shape


def cut(body: bytes) -> tuple[bytes, list[LongList]] | None:
    """Return the rest of a body, with a placeholder for each long list, and the lists. None: it has none, or they
    cannot be found with certainty."""
    kept: list[bytes] = []
    lists: list[LongList] = []
    at = found = 0
    while len(lists) < MAX_LISTS and (opened := _VALUE.search(body, found)) is not None:
        start = opened.end() - 1
        found = _run_end(body, start)
        end = body.rfind(b"]", start, found) + 1
        if end - start < MIN_BYTES:
            if found - start > MIN_BYTES:
                return None
            continue
        # An even number of quotes: the list is not within a string.
        if start - at > MAX_REST or body.count(b'"', at, start) % 2:
            return None
        kept += (body[at:start], b"[%b%04d]" % (_MARK, len(lists)))
        lists.append(LongList(body[start:end]))
        at = found = end
    if not lists or len(body) - at > MAX_REST or sum(map(len, kept)) > MAX_REST:
        return None
    rest = b"".join((*kept, body[at:]))
    return None if b"\\" in rest or rest.count(_MARK) != len(lists) else (rest, lists)


def restore(document: dict[str, Any], lists: list[LongList]) -> dict[str, Any]:
    """Return the parsed rest of a body with its lists in place of their placeholders. Raises ValueError if one of them
    is neither a value of the body, nor of an object in it."""
    left = {int(b"%b%04d" % (_MARK, place)): each for place, each in enumerate(lists)}
    restored = {
        name: dict(_restore(value.items(), left)) if isinstance(value, dict) else value
        for name, value in _restore(document.items(), left)
    }
    if left:
        raise ValueError("expected lists of numbers in instances, in inputs, or in an object in inputs")
    return restored


def _restore(values: Iterable[tuple[str, Any]], left: dict[int, LongList]) -> Iterable[tuple[str, Any]]:
    for name, value in values:
        mark = value[0] if isinstance(value, list) and len(value) == 1 else None
        yield name, left.pop(mark, value) if type(mark) is int else value


def _run_end(body: bytes, start: int) -> int:
    """Return the place of the next string, or of the next beginning or end of an object."""
    end = len(body)
    for sign in (b'"', b"}", b"{"):
        found = body.find(sign, start, end)
        end = end if found < 0 else found
    return end
