"""A frame in pieces is byte for byte one that the runtime reads, and copies nothing that is large."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from mizzen.protocol.frames import framing, msgpack
from mizzen.protocol.frames.large_frames import encode_infer
from tests.support.examples import examples

names = st.text(max_size=40)
data = st.binary(max_size=300)
tensor = st.tuples(
    names, st.sampled_from(["FP64", "BYTES"]), st.lists(st.integers(0, 1 << 40)), st.integers(0, 1), data
)
inputs = st.lists(tensor, max_size=3)
outputs = st.none() | st.lists(names, max_size=3)
items = st.one_of(
    st.tuples(inputs, outputs), st.tuples(inputs, outputs, st.just(True) | st.lists(names)), st.tuples(data)
)


@settings(deadline=None, max_examples=examples(50))
@given(st.lists(items, max_size=4), st.integers(0, (1 << 32) - 1))
def test_it_reads_as_the_frame_that_it_is(items: list[Any], serial: int) -> None:
    [frame] = framing.FrameReader().feed(b"".join(encode_infer(serial, items)))
    assert (frame.type, frame.id, frame.flags) == (framing.INFER, serial, framing.LAST)
    read = msgpack.unpack(frame.body)
    assert read == msgpack.unpack(msgpack.pack(items))
    assert read == msgpack.unpack_with_stdlib(frame.body)


def test_what_is_large_is_handed_on_as_it_is() -> None:
    body = memoryview(bytes(1 << 20))
    pieces = encode_infer(1, [([("x", "FP64", [1], framing.RAW, body)], None), (body,)])
    assert sum(piece is body for piece in pieces) == 2
    assert sum(len(piece) for piece in pieces if piece is not body) < 200
