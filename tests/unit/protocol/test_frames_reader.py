"""The Reader cuts frames out of a stream, however the stream was chopped."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mizzen.protocol import frames

FRAMES = st.lists(
    st.tuples(st.integers(1, 4), st.integers(0, 2**32 - 1), st.binary(max_size=200), st.integers(0, 2**16 - 1)),
    max_size=8,
)


@given(sent=FRAMES, cuts=st.lists(st.integers(0, 2000), max_size=20))
def test_any_chopping_gives_the_frames_that_were_sent(sent: list[tuple[int, int, bytes, int]], cuts: list[int]) -> None:
    stream = b"".join(frames.encode(type_, id_, body, flags) for type_, id_, body, flags in sent)
    places = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    reader = frames.Reader()
    got = [
        (frame.type, frame.id, bytes(frame.body), frame.flags)
        for start, end in pairwise(places)
        for frame in reader.feed(stream[start:end])
    ]
    assert got == sent


def test_byte_by_byte() -> None:
    reader = frames.Reader()
    got = [frame for byte in frames.encode(frames.INFER, 7, b"abc") for frame in reader.feed(bytes([byte]))]
    assert [(frame.id, bytes(frame.body)) for frame in got] == [(7, b"abc")]


@pytest.mark.parametrize(
    "header",
    [
        frames.HEADER.pack(frames.HEADER.size, frames.VERSION + 1, frames.INFER, 0, 1),
        frames.HEADER.pack(frames.HEADER.size - 1, frames.VERSION, frames.INFER, 0, 1),
        frames.HEADER.pack(frames.MAX_FRAME + 1, frames.VERSION, frames.INFER, 0, 1),
    ],
)
def test_a_foreign_stream_is_refused(header: bytes) -> None:
    with pytest.raises(frames.FrameError):
        frames.Reader().feed(header)
