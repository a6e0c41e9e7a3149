"""What clients may do to a public port, and how little comes of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hpack import Encoder
from hypothesis import given
from hypothesis import strategies as st

from mizzen.web.http2 import frames
from mizzen.web.http2.connection import MAX_STREAMS
from mizzen.web.http2.frames import ErrorCode
from mizzen.web.http2.headers import (
    MAX_CACHED,
    MAX_CACHED_BLOCK,
    MAX_CACHED_BYTES,
    MAX_LIST_BYTES,
    HeaderDecoder,
    encode_headers,
)
from mizzen.web.http2.writer import NOISE
from tests.unit.web.http2.peer import EchoHost, Peer

PING = frames.encode_frame(frames.PING, 0, 0, bytes(8))


def sent_until_sent_away(peer: Peer, next_: Callable[[int], bytes], most: int) -> int:
    for count in range(most):
        peer.send(next_(count))
        if (code := peer.sent_away()) is not None:
            assert code == ErrorCode.ENHANCE_YOUR_CALM
            return count
    raise AssertionError("never")


@pytest.mark.parametrize("whole", [False, True])
def test_calls_that_are_cancelled_as_fast_as_they_are_made(whole: bool) -> None:
    """CVE-2023-44487: also where each is complete."""
    peer = Peer(EchoHost(prompt=False))

    def rapid(count: int) -> bytes:
        id_ = 2 * count + 1
        return (peer.call(id_) if whole else peer.head(id_)) + frames.encode_reset(id_, ErrorCode.CANCEL)

    assert sent_until_sent_away(peer, rapid, NOISE) < NOISE // 10
    assert all(call.gone for call in peer.host.calls)


def test_calls_that_we_are_made_to_cancel() -> None:
    """CVE-2025-8671: the client breaks a rule of the stream, so that it does not count as one of its own."""
    peer = Peer(EchoHost(prompt=False))
    faults = sent_until_sent_away(
        peer, lambda count: peer.call(2 * count + 1) + frames.encode_window_update(2 * count + 1, 0), NOISE
    )
    assert faults < NOISE // 10


def test_who_cancels_now_and_then_is_left_alone() -> None:
    peer = Peer(EchoHost(prompt=False))
    for count in range(2000):
        peer.send(peer.call(2 * count + 1), frames.encode_reset(2 * count + 1, ErrorCode.CANCEL))
        if not count % 20:
            peer.later(1)
    assert peer.sent_away() is None


def test_nor_who_has_waited_before() -> None:
    peer = Peer(EchoHost(prompt=False))
    peer.host.patient = True
    for count in range(2000):
        peer.send(peer.call(2 * count + 1), frames.encode_reset(2 * count + 1, ErrorCode.CANCEL))
    assert peer.sent_away() is None


def test_a_head_without_an_end() -> None:
    """CVE-2024-27316."""
    peer = Peer()
    peer.send(frames.encode_frame(frames.HEADERS, 0, 1, b""))
    pieces = sent_until_sent_away(peer, lambda _: frames.encode_frame(frames.CONTINUATION, 0, 1, b""), 100)
    assert pieces <= MAX_LIST_BYTES >> 10
    peer = Peer()
    peer.send(frames.encode_frame(frames.HEADERS, 0, 1, b""))
    assert sent_until_sent_away(peer, lambda _: frames.encode_frame(frames.CONTINUATION, 0, 1, bytes(16_000)), 6) < 6


def test_a_small_head_that_stands_for_a_large_one() -> None:
    peer = Peer()
    value = b"x" * 4000
    block = b"\x40" + encode_headers([(b"name", value)])[1:]  # which goes into the table
    peer.send(frames.encode_frame(frames.HEADERS, frames.END_HEADERS, 1, block + b"\xbe" * 3))
    assert len(peer.host.calls) == 1
    peer.send(frames.encode_frame(frames.HEADERS, frames.END_HEADERS, 3, b"\xbe" * 100))
    assert peer.sent_away() == ErrorCode.COMPRESSION_ERROR


def test_a_head_that_is_too_large_is_its_own_calls_matter() -> None:
    peer = Peer(EchoHost(prompt=False))
    peer.send(peer.call(1), peer.call(3, b"", (b"large", b"x" * 4000)))
    assert [head.oversized for head in peer.host.heads] == [False, False]
    block = encode_headers([(b"large", b"x" * (MAX_LIST_BYTES + 1))])
    size = frames.FRAME_BYTES
    peer.send(
        frames.encode_frame(frames.HEADERS, 0, 5, block[:size]),
        frames.encode_frame(frames.CONTINUATION, frames.END_HEADERS, 5, block[size:]),
    )
    assert (peer.host.heads[2].oversized, peer.host.heads[2].fields) == (True, ())
    assert not peer.host.calls[0].gone
    assert peer.sent_away() is None


@pytest.mark.parametrize(
    "noise",
    [
        PING,
        frames.encode_settings({}),
        frames.encode_settings({frames.INITIAL_WINDOW_SIZE: 65_535}),
        frames.encode_frame(frames.PRIORITY, 0, 1, bytes(5)),
        frames.encode_frame(99, 0, 0),
        frames.encode_frame(frames.DATA, 0, 1),
        frames.encode_frame(frames.DATA, frames.PADDED, 1, b"\0"),
        frames.encode_window_update(1, 1),
        frames.encode_window_update(0, 1),
        frames.encode_window_update(0, 1025),
    ],
)
def test_frames_that_bring_nothing(noise: bytes) -> None:
    peer = Peer(EchoHost(prompt=False))
    peer.send(peer.head(1))
    assert sent_until_sent_away(peer, lambda _: noise * 10, NOISE) <= NOISE // 10 + 1


def test_windows_that_grow_by_a_byte_for_many_who_wait() -> None:
    peer = Peer(EchoHost(prompt=False))
    peer.send(frames.encode_settings({frames.INITIAL_WINDOW_SIZE: 0}))
    for id_ in range(MAX_STREAMS):
        peer.send(peer.call(2 * id_ + 1))
        peer.host.calls[id_].answer()
    peer.came()
    assert sent_until_sent_away(peer, lambda _: frames.encode_window_update(0, 1), NOISE) <= NOISE // 3 + 1


def test_pings_that_are_not_too_many_are_forgotten() -> None:
    peer = Peer()
    for _ in range(100):
        peer.send(PING * 500)
        peer.later(1)
        peer.send(peer.call(2 * _ + 1))
    assert peer.sent_away() is None


def test_many_heads_are_not_all_remembered() -> None:
    peer = Peer()
    for count in range(1000):
        block = encode_headers([(b":method", b"POST"), (b"x-count", b"%d" % count)])
        peer.send(frames.encode_frame(frames.HEADERS, frames.END_HEADERS | frames.END_STREAM, 2 * count + 1, block))
        long = encode_headers([(b"x-long", b"%d" % count + b"x" * MAX_CACHED_BLOCK)])
        peer.protocol._heads.decode(long)
    assert len(peer.host.heads) == 1000
    assert len(peer.protocol._heads._known) <= MAX_CACHED
    assert all(len(block) <= MAX_CACHED_BLOCK for block in peer.protocol._heads._known)


def test_nor_are_those_that_stand_for_much() -> None:
    heads, encoder = HeaderDecoder(), Encoder()
    large = [(b"x-%d" % each, b"v" * 1000) for each in range(3)]
    heads.decode(encoder.encode(large))
    for count in range(100):
        block = encoder.encode(large) + encode_headers([(b"x-count", b"%d" % count)])
        assert len(block) < 50
        assert heads.decode(block).size > 3000
        assert heads.decode(block) is heads.decode(block)
    assert sum(head.size for head in heads._known.values()) <= MAX_CACHED_BYTES


KINDS = st.integers(0, 11)


@given(
    st.lists(
        st.one_of(
            st.builds(frames.encode_frame, KINDS, st.integers(0, 255), st.integers(0, 9), st.binary(max_size=40)),
            st.sampled_from([1, 3, 5, 7]).map(lambda id_: id_),
        ),
        max_size=30,
    ),
    st.binary(max_size=60),
    st.booleans(),
)
def test_whatever_comes_it_is_answered_or_sent_away_and_nothing_is_left(
    sent: list[bytes | int], junk: bytes, prompt: bool
) -> None:
    peer = Peer(EchoHost(prompt=prompt))
    for each in sent:
        peer.send(peer.call(each) if isinstance(each, int) else each)
        peer.came()  # whole frames, whatever they are
    peer.send(junk)
    peer.came()
    peer.later(1000)
    peer.lose()
    assert not peer.protocol._streams
    assert peer.limiter.open == 0
    for call in peer.host.calls:
        assert call.gone != call.stream._done or call.stream._done
