"""Splits large V2 messages in JSON before decoding them. A body with a few bytes per object would grow many times in
memory, and block all other requests meanwhile.

Tensor data stays bytes: the split reads the keys of the message and of its tensors one by one, and skips their values.
It ends at the first repeated key, and beyond limits of tensors, keys, and bytes that are not data; so its work has a
bound, whatever a body of any size repeats. The rest of the message is reassembled as a short JSON text, which the
decoder of small ones reads.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import msgspec

from mizzen.protocol import v2
from mizzen.protocol.json_keys import RepeatedKey

LARGE = 16 << 10
"""Texts from this size on are split; smaller ones cannot grow large."""
MAX_METADATA_BYTES = 256 << 10
"""Maximum bytes of a message without the data of its tensors."""
MAX_KEYS = 8 * v2.MAX_TENSORS
"""Maximum keys of a message and of its tensors together."""

_SPACE = rb"[ \t\r\n]*+"
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_KEY = re.compile(rb"%b(%b)%b:%b" % (_SPACE, _STRING, _SPACE, _SPACE), re.DOTALL)
_SIMPLE = re.compile(rb"%b|\[[^\"\[\]{}]{0,256}+\]|[^\"\[\]{},: \t\r\n]{1,4096}+" % _STRING, re.DOTALL)
"""A string, a short list of numbers, or a number."""
_OPENING = re.compile(rb"%b\{%b" % (_SPACE, _SPACE))
_LIST = re.compile(rb"\[%b" % _SPACE)
_NEXT = re.compile(rb"%b([,}\]])%b" % (_SPACE, _SPACE))
_TRAILING = re.compile(r"trailing characters \(byte (\d+)\)$")
_OPEN_LIST, _OPEN_OBJECT, _CLOSED_LIST, _CLOSED_OBJECT = ord("["), ord("{"), ord("]"), ord("}")

_skip = msgspec.json.Decoder(msgspec.Raw).decode


def placeholder_of(place: int) -> bytes:
    """Return the text that replaces the data of a tensor."""
    return b"[%d]" % place


def split_large(text: bytes, tensors: bytes = b"inputs") -> tuple[bytes, list[memoryview]]:
    """Return the message as JSON with a placeholder for each list of data, and the data of each tensor, empty if there
    is none. `tensors`: the key of their list. Raises ValueError for the caller if the rest is too large or invalid.
    """
    try:
        return _Splitter(text, tensors).split()
    except _Malformed:
        v2.decode_with(_skip, text)  # explains the fault, at the speed of reading
        raise ValueError("the body: expected an object") from None


class _Malformed(Exception):
    """The text is not JSON, or not an object."""


class _Splitter:
    """One pass over the keys of a message."""

    def __init__(self, text: bytes, tensors: bytes) -> None:
        self._text = text
        self._view = memoryview(text)
        self._name = tensors.decode()
        self._at = 0
        self._keys = self._bytes = 0
        self._datas: list[memoryview] = []

    def split(self) -> tuple[bytes, list[memoryview]]:
        opened = _OPENING.match(self._text)
        if opened is None:
            raise _Malformed
        self._at = opened.end()
        fields = []
        for key, raw in self._members():
            if key == self._name and self._starts_with(_OPEN_LIST):
                fields.append(b"%b:[%b]" % (raw, b",".join(self._tensors())))
            else:
                fields.append(b"%b:%b" % (raw, self._keep(key)))
        if self._text[self._at :].strip(b" \t\r\n"):
            raise _Malformed
        return b"{%b}" % b",".join(fields), self._datas

    def _tensors(self) -> Iterator[bytes]:
        opened = _LIST.match(self._text, self._at)
        assert opened is not None
        self._at = opened.end()
        if self._starts_with(_CLOSED_LIST):
            self._at += 1
            return
        for place in range(v2.MAX_TENSORS + 1):
            if place == v2.MAX_TENSORS:
                raise ValueError(f"{self._name}: expected a list of 1 to {v2.MAX_TENSORS} tensors")
            where = f"{self._name}[{place}]"
            if not self._starts_with(_OPEN_OBJECT):
                raise ValueError(f"{where}: expected an object")
            yield self._tensor(where)
            if self._step() == _CLOSED_LIST:
                return

    def _tensor(self, where: str) -> bytes:
        opened = _OPENING.match(self._text, self._at)
        assert opened is not None
        self._at = opened.end()
        data = memoryview(b"")
        fields = []
        for key, raw in self._members():
            if key != "data":
                fields.append(b"%b:%b" % (raw, self._keep(f"{where}.{key}")))
                continue
            start, is_list = self._at, self._starts_with(_OPEN_LIST)
            self._at = self._value_end()
            data = self._view[start : self._at]
            fields.append(b"%b:%b" % (raw, placeholder_of(len(self._datas)) if is_list else b"0"))
        self._datas.append(data)
        return b"{%b}" % b",".join(fields)

    def _members(self) -> Iterator[tuple[str, bytes]]:
        """Yield the keys of the object in which the position is, decoded and as they are written, each when the
        position is at its value. The caller moves behind the value."""
        if self._starts_with(_CLOSED_OBJECT):
            self._at += 1
            return
        seen = set()
        while True:
            found = _KEY.match(self._text, self._at)
            if found is None:
                raise _Malformed
            self._at = found.end()
            raw = found[1]
            key = v2.decode_with(json.loads, raw) if b"\\" in raw else str(raw[1:-1], "utf-8", "replace")
            if key in seen:
                raise RepeatedKey(key)
            seen.add(key)
            self._count(key, len(raw))
            yield key, raw
            if self._step() == _CLOSED_OBJECT:
                return

    def _step(self) -> int:
        """Move behind the sign that follows a value, and return it."""
        found = _NEXT.match(self._text, self._at)
        if found is None:
            raise _Malformed
        self._at = found.end() if found[1] == b"," else found.end(1)
        return found[1][0]

    def _keep(self, where: str) -> bytes:
        """Move behind a value, and return it."""
        start = self._at
        self._at = self._value_end()
        self._count(where, self._at - start, key=False)
        return self._text[start : self._at]

    def _count(self, where: str, size: int, *, key: bool = True) -> None:
        self._keys += key
        self._bytes += size
        if self._keys > MAX_KEYS:
            raise ValueError(f"the body has more than {MAX_KEYS} keys")
        if self._bytes > MAX_METADATA_BYTES:
            message = "a request" if self._name == "inputs" else "an answer"
            raise ValueError(
                f"{v2.shorten(where)}: {size} bytes are too many; apart from the data of its {self._name},"
                f" {message} may have at most {MAX_METADATA_BYTES} bytes"
            )

    def _starts_with(self, sign: int) -> bool:
        return self._at < len(self._text) and self._text[self._at] == sign

    def _value_end(self) -> int:
        """Return the end of the value at the position. Nothing is created for what the value contains."""
        text, at = self._text, self._at
        simple = _SIMPLE.match(text, at)
        if simple is not None:
            return simple.end()
        try:
            _skip(self._view[at:])
        except RecursionError:
            raise ValueError("the body is nested too deeply") from None
        except msgspec.DecodeError as error:
            # The decoder accepts one value only, so it names the byte of the next one, counted from 1.
            trailing = _TRAILING.search(str(error))
            if trailing is not None:
                closing = b"}" if text[at] == _OPEN_OBJECT else b"]"
                return text.rfind(closing, at, at + int(trailing[1]) - 1) + 1
        raise _Malformed
