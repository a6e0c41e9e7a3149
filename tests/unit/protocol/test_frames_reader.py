"""The Reader cuts frames out of a stream, however the stream was chopped."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mizzen.protocol.frames import framing

FRAMES = st.lists(
    st.tuples(st.integers(1, 4), st.integers(0, 2**32 - 1), st.binary(max_size=200), st.integers(0, 2**16 - 1)),
    max_size=8,
)


@given(sent=FRAMES, cuts=st.lists(st.integers(0, 2000), max_size=20))
def test_any_chopping_gives_the_frames_that_were_sent(sent: list[tuple[int, int, bytes, int]], cuts: list[int]) -> None:
    stream = b"".join(framing.encode(type_, id_, body, flags) for type_, id_, body, flags in sent)
    places = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    reader = framing.FrameReader()
    got = [
        (frame.type, frame.id, bytes(frame.body), frame.flags)
        for start, end in pairwise(places)
        for frame in reader.feed(stream[start:end])
    ]
    assert got == sent


def test_byte_by_byte() -> None:
    reader = framing.FrameReader()
    got = [frame for byte in framing.encode(framing.INFER, 7, b"abc") for frame in reader.feed(bytes([byte]))]
    assert [(frame.id, bytes(frame.body)) for frame in got] == [(7, b"abc")]


@pytest.mark.parametrize(
    "header",
    [
        framing.HEADER.pack(framing.HEADER.size, framing.VERSION + 1, framing.INFER, 0, 1),
        framing.HEADER.pack(framing.HEADER.size - 1, framing.VERSION, framing.INFER, 0, 1),
        framing.HEADER.pack(framing.MAX_FRAME + 1, framing.VERSION, framing.INFER, 0, 1),
    ],
)
def test_a_foreign_stream_is_refused(header: bytes) -> None:
    with pytest.raises(framing.FrameError):
        framing.FrameReader().feed(header)
