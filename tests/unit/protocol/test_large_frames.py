"""INFER frames of large calls: written in pieces, read as views, and the same as any other frame."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mizzen.protocol.frames import framing, large_frames, msgpack

BIG = b"\x01" * framing.LARGE


def _frame(items: list[Any]) -> bytes:
    return b"".join(bytes(piece) for piece in large_frames.encode_infer(7, items))


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return bytes(value) if isinstance(value, memoryview) else value


def _items(data: bytes) -> list[Any]:
    tensor = ("x", "FP64", [2, 4], framing.RAW, memoryview(data))
    return [
        ([tensor], None), ([tensor, ("y", "BYTES", [1], framing.JSON, b"[]")], ["a"], True), (data,),
        {"ids": b"1\n2\n3", "traces": []},
    ]  # fmt: skip


def test_views_hold_what_was_sent() -> None:
    (frame,) = framing.FrameReader().feed(_frame(_items(BIG)))
    found = large_frames.decode_requests(memoryview(frame.body))
    assert found is not None
    assert isinstance(found[0][0][0][4], memoryview)
    assert _plain(found) == msgpack.unpack(frame.body) == _plain(_items(BIG))


def test_many_small_ones_are_left_to_the_decoder() -> None:
    (frame,) = framing.FrameReader().feed(_frame([([("x", "FP64", [1], framing.RAW, b"12345678")], None)] * 2000))
    assert large_frames.decode_requests(memoryview(frame.body)) is None
    assert large_frames.decode_requests(memoryview(msgpack.pack([1]))) is None


@given(st.integers(0, 200), st.integers(0, 255), st.booleans())
def test_what_is_broken_is_refused_and_nothing_else_happens(at: int, byte: int, short: bool) -> None:
    (frame,) = framing.FrameReader().feed(_frame(_items(BIG)))
    body = bytearray(frame.body)
    body[at] = byte
    with contextlib.suppress(ValueError):
        large_frames.decode_requests(memoryview(body[:-at] if short and at else body))


def test_an_end_that_is_none_is_refused() -> None:
    (frame,) = framing.FrameReader().feed(_frame(_items(BIG)))
    with pytest.raises(ValueError, match="follow"):
        large_frames.decode_requests(memoryview(bytes(frame.body) + b"\xc0"))


@given(
    st.lists(st.integers(1, 90_000), min_size=1, max_size=6), st.lists(st.integers(1, 70_000), min_size=1, max_size=9)
)
def test_a_reader_that_is_filled_finds_the_same_frames(bodies: list[int], cuts: list[int]) -> None:
    stream = b"".join(framing.encode(framing.INFER, n, bytes([n + 1]) * size) for n, size in enumerate(bodies))
    reader, found, at, turn = framing.FrameReader(), [], 0, 0
    while at < len(stream):
        room = reader.get_buffer()
        size = min(cuts[turn % len(cuts)], len(stream) - at, len(room) if room is not None else len(stream))
        if room is None:
            found += reader.feed(stream[at : at + size])
        else:
            room[:size] = stream[at : at + size]
            found += reader.buffer_updated(size)
        at += size
        turn += 1
    assert [(frame.id, bytes(frame.body)) for frame in found] == [
        (n, bytes([n + 1]) * size) for n, size in enumerate(bodies)
    ]
