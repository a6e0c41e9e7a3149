"""One connection by the rules of RFC 9113."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mizzen.web.connection_limits import MAX_INCOMING, MAX_UNREAD_BYTES, SHORT_TIMEOUT, Timeouts
from mizzen.web.http2 import frames, writer
from mizzen.web.http2.connection import MAX_STREAMS, STREAM_WINDOW, WINDOW
from mizzen.web.http2.frames import ErrorCode
from tests.unit.web.http2.peer import TAIL, EchoHost, Peer


def test_a_call_is_answered_with_head_data_and_trailers() -> None:
    peer = Peer()
    peer.send(peer.call(1, b"hello"))
    head, data, tail = peer.came()
    assert (head.kind, head.stream, head.flags) == (frames.HEADERS, 1, frames.END_HEADERS)
    assert (data.kind, data.stream, data.payload) == (frames.DATA, 1, b"hello")
    assert (tail.kind, tail.flags, tail.payload) == (frames.HEADERS, frames.END_HEADERS | frames.END_STREAM, TAIL)


@given(st.data())
def test_however_its_bytes_are_cut_and_its_data_is_framed(data: st.DataObject) -> None:
    peer = Peer(greet=False)
    body = data.draw(st.binary(max_size=200))
    cut = data.draw(st.integers(0, len(body)))
    pad = data.draw(st.integers(0, 5))
    padded = bytes((pad,)) + body[:cut] + bytes(pad)
    message = (
        frames.PREFACE + frames.encode_settings({}) + peer.head(1)
        + frames.encode_frame(frames.DATA, frames.PADDED, 1, padded)
        + frames.encode_frame(frames.DATA, frames.END_STREAM, 1, body[cut:]) + frames.encode_frame(99, 7, 3, b"unknown")
    )  # fmt: skip
    while message:
        size = data.draw(st.integers(1, len(message)))
        peer.send(message[:size])
        message = message[size:]
    assert b"".join(frame.payload for frame in peer.came() if frame.kind == frames.DATA) == body


def test_heads_that_repeat_themselves_are_the_same_head_and_others_are_not() -> None:
    peer = Peer()
    for id_, value in enumerate([b"a", b"a", b"a", b"b", b"b", b"a", b"a"]):
        peer.send(peer.call(2 * id_ + 1, b"", (b"x-name", value)))
    heads = peer.host.heads
    assert [dict(head.fields)[b"x-name"] for head in heads] == [b"a", b"a", b"a", b"b", b"b", b"a", b"a"]
    assert heads[1] is heads[2]
    assert heads[5] is heads[6]


def test_a_head_in_pieces_and_trailers_are_taken() -> None:
    peer = Peer()
    block = peer.encoder.encode([(b":method", b"POST"), (b":path", b"/")])
    peer.send(
        frames.encode_frame(frames.HEADERS, 0, 1, block[:2]),
        frames.encode_frame(frames.CONTINUATION, 0, 1, block[2:4]),
        frames.encode_frame(frames.CONTINUATION, frames.END_HEADERS, 1, block[4:]),
        frames.encode_frame(frames.DATA, 0, 1, b"x"),
        frames.encode_frame(
            frames.HEADERS, frames.END_HEADERS | frames.END_STREAM, 1, peer.encoder.encode([(b"t", b"1")])
        ),
    )
    assert [frame.payload for frame in peer.came() if frame.kind == frames.DATA] == [b"x"]


def test_answers_keep_to_the_windows_of_client_and_stream() -> None:
    peer = Peer(EchoHost(prompt=False))
    peer.send(
        frames.encode_settings({frames.INITIAL_WINDOW_SIZE: 10}), peer.call(1, b"x" * 25), peer.call(3, b"y" * 25)
    )
    for call in peer.host.calls:
        call.answer()

    def came() -> dict[int, int]:
        sizes: dict[int, int] = {}
        for frame in peer.came():
            if frame.kind == frames.DATA:
                sizes[frame.stream] = sizes.get(frame.stream, 0) + len(frame.payload)
        return sizes

    assert came() == {1: 10, 3: 10}
    peer.send(frames.encode_window_update(1, 2000))
    assert came() == {1: 15}
    peer.send(frames.encode_settings({frames.INITIAL_WINDOW_SIZE: 12}))
    assert came() == {3: 2}
    peer.send(frames.encode_settings({frames.INITIAL_WINDOW_SIZE: 5}), frames.encode_window_update(3, 7))
    assert came() == {}
    peer.send(frames.encode_window_update(3, 100))
    assert came() == {3: 13}
    assert not peer.protocol._streams


def test_a_connections_window_is_shared_in_turns() -> None:
    peer = Peer(EchoHost(prompt=False))
    peer.send(frames.encode_settings({frames.INITIAL_WINDOW_SIZE: 1 << 20}))
    for id_ in (1, 3):
        peer.send(peer.call(id_, b"z" * 10_000))
    for call in peer.host.calls:
        call.answer(8)
    peer.came()
    assert peer.protocol.window == 0
    peer.send(frames.encode_window_update(0, 1 << 20))
    assert sum(len(frame.payload) for frame in peer.came() if frame.kind == frames.DATA) == 160_000 - 65_535


def test_who_does_not_read_gets_no_data_whatever_windows_it_gives() -> None:
    peer = Peer(EchoHost(prompt=False))
    peer.send(frames.encode_settings({frames.INITIAL_WINDOW_SIZE: 1 << 30}), frames.encode_window_update(0, 1 << 30))
    peer.send(peer.call(1, b"x" * 1000), peer.call(3, b"y" * 1000))
    first, second = peer.host.calls
    peer.came()
    peer.protocol.pause_writing()
    first.answer()
    assert not [frame for frame in peer.came() if frame.kind == frames.DATA]
    assert first.stream.unsent == 1000
    peer.protocol.resume_writing()
    assert [len(frame.payload) for frame in peer.came() if frame.kind == frames.DATA] == [1000]
    # Nor is it found out only after all was made that there was to say in this turn.
    peer.transport.full = peer.protocol.pause_writing
    second.answer(10_000)
    assert second.stream.unsent > 9_000_000
    assert len(peer.transport.written) < 1 << 20
    peer.transport.full = None
    assert not second.moves
    peer.protocol.resume_writing()
    assert not peer.protocol._streams


def test_who_has_more_to_say_is_told_when_the_client_takes_it() -> None:
    peer = Peer(EchoHost(prompt=False))
    peer.send(frames.encode_settings({frames.INITIAL_WINDOW_SIZE: 0}), peer.call(1), peer.call(3))
    for call in peer.host.calls:
        call.stream.write(b"z" * 4000)
    peer.send(frames.encode_window_update(1, 2000))
    assert [call.moves for call in peer.host.calls] == [1, 0]
    peer.send(frames.encode_settings({frames.INITIAL_WINDOW_SIZE: 4000}))
    assert [call.moves for call in peer.host.calls] == [2, 1]
    peer.send(frames.encode_window_update(1, 2000))
    assert [call.moves for call in peer.host.calls] == [2, 1]


def test_who_had_no_turn_has_the_next_one() -> None:
    peer = Peer(EchoHost(prompt=False))
    peer.send(frames.encode_settings({frames.INITIAL_WINDOW_SIZE: 1 << 20}), peer.call(1), peer.call(3))
    for call in peer.host.calls:
        call.stream.write(b"z" * 100_000)
    peer.came()
    for _ in range(2):
        peer.send(frames.encode_window_update(0, 5000))
    assert [frame.stream for frame in peer.came() if frame.kind == frames.DATA] == [1, 3]


def test_who_sends_much_is_told_that_it_came() -> None:
    peer = Peer()
    piece = bytes(frames.FRAME_BYTES)
    peer.send(peer.head(1))
    for _ in range(4 * WINDOW // len(piece)):
        peer.send(frames.encode_frame(frames.DATA, 0, 1, piece))
    grown = {frame.stream for frame in peer.came() if frame.kind == frames.WINDOW_UPDATE}
    assert grown == {0, 1}
    assert peer.host.calls[0].data == bytes(4 * WINDOW)


def test_a_stream_that_is_held_gets_no_more_than_its_window() -> None:
    peer = Peer()
    piece = bytes(frames.FRAME_BYTES)
    peer.send(peer.head(1))
    stream = peer.host.calls[0].stream
    stream.hold(True)
    for _ in range(STREAM_WINDOW // len(piece)):
        peer.send(frames.encode_frame(frames.DATA, 0, 1, piece))
    assert not [frame for frame in peer.came() if frame.kind == frames.WINDOW_UPDATE and frame.stream]
    stream.hold(False)
    assert [(frame.stream, frame.number) for frame in peer.came()] == [(1, STREAM_WINDOW)]


def test_pings_are_answered_and_settings_acknowledged() -> None:
    peer = Peer()
    peer.send(
        frames.encode_frame(frames.PING, 0, 0, b"12345678"), frames.encode_settings({frames.MAX_FRAME_SIZE: 1 << 15})
    )
    assert [(frame.kind, frame.flags, frame.payload) for frame in peer.came()] == [
        (frames.PING, frames.ACK, b"12345678"),
        (frames.SETTINGS, frames.ACK, b""),
    ]


def test_who_gives_up_is_not_answered() -> None:
    peer = Peer(EchoHost(prompt=False))
    peer.send(peer.call(1), frames.encode_reset(1, ErrorCode.CANCEL))
    assert peer.host.calls[0].gone
    peer.host.calls[0].answer()
    assert peer.came() == []
    peer.send(peer.call(3))
    peer.lose()
    assert peer.host.calls[1].gone
    assert not peer.state.connections
    assert peer.limiter.open == 0


def test_a_stop_answers_what_was_asked_and_ignores_what_comes_after() -> None:
    peer = Peer(EchoHost(prompt=False))
    peer.send(peer.call(1))
    peer.protocol.shutdown()
    assert peer.host.calls[0].stopped
    # On their way when we said goodbye: the client knows that they are not answered.
    peer.send(peer.call(3), frames.encode_window_update(3, 5), frames.encode_reset(3, ErrorCode.CANCEL))
    assert len(peer.host.calls) == 1
    peer.host.calls[0].answer()
    goodbye, *answer = peer.came()
    assert (goodbye.kind, int.from_bytes(goodbye.payload[:4], "big")) == (frames.GOAWAY, 1)
    assert [frame.stream for frame in answer] == [1, 1, 1]
    peer.loop.run(late=True)
    assert peer.transport.closed
    assert not peer.transport.aborted


def test_more_calls_than_may_be_at_a_time_are_refused_each_by_itself() -> None:
    peer = Peer(EchoHost(prompt=False))
    for id_ in range(MAX_STREAMS + 2):
        peer.send(peer.call(2 * id_ + 1))
    refused = [frame for frame in peer.came() if frame.kind == frames.RST_STREAM]
    assert [(frame.stream, frame.number) for frame in refused[:1]] == [(2 * MAX_STREAMS + 1, ErrorCode.REFUSED_STREAM)]
    assert len(peer.host.calls) == MAX_STREAMS
    peer.host.calls[0].answer()
    peer.send(peer.call(9001))
    assert len(peer.host.calls) == MAX_STREAMS + 1


def test_somebody_who_speaks_http_1_is_told_so() -> None:
    peer = Peer(greet=False)
    peer.send(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
    assert peer.transport.written.startswith(b"HTTP/1.1 426 ")
    assert b"this port speaks gRPC" in peer.transport.written
    peer.loop.run(late=True)
    assert peer.transport.closed


def test_there_may_be_only_so_many_connections() -> None:
    peer = Peer()
    peer.limiter.max_open = 1
    second = Peer(greet=False)
    second.protocol._limiter = peer.limiter
    second.protocol.connection_made(second.transport)
    assert second.transport.aborted


class TestTime:
    def test_a_connection_that_is_not_used_is_left(self) -> None:
        peer = Peer(patience=Timeouts(idle=75))
        peer.later(74)
        assert peer.sent_away() is None
        peer.send(peer.call(1))
        peer.came()
        peer.later(74)
        assert peer.sent_away() is None
        peer.later(2)
        assert peer.sent_away() == ErrorCode.NO_ERROR

    def test_one_that_never_says_anything_sooner(self) -> None:
        peer = Peer(greet=False, patience=Timeouts(stalled=60, idle=75))
        peer.later(61)
        peer.loop.run(late=True)
        assert peer.transport.closed

    def test_a_request_that_does_not_come_to_its_end_is_given_up(self) -> None:
        peer = Peer(patience=Timeouts(stalled=60))
        peer.send(peer.head(1))
        peer.later(50)
        peer.send(frames.encode_frame(frames.DATA, 0, 1, b"some"))
        peer.later(50)
        assert [call.gone for call in peer.host.calls] == [False]
        peer.later(20)
        assert [call.gone for call in peer.host.calls] == [True]
        assert (frames.RST_STREAM, 1, ErrorCode.CANCEL) in [
            (came.kind, came.stream, came.number) for came in peer.came()
        ]

    def test_where_too_many_do_not_come_to_their_end_it_is_given_up_sooner(self) -> None:
        peer = Peer(patience=Timeouts(stalled=60))
        others = peer.limiter.incoming = MAX_INCOMING - 1
        peer.send(peer.head(1))
        peer.later(SHORT_TIMEOUT + 1)
        assert not peer.host.calls[0].gone
        peer.send(peer.head(3), peer.call(5))
        peer.later(1)
        assert peer.limiter.incoming == others + 2, "those that have ended are not counted"
        peer.later(1)
        assert [call.gone for call in peer.host.calls[:2]] == [True, False]
        assert peer.limiter.incoming == others + 1
        peer.later(SHORT_TIMEOUT + 1)
        assert not peer.host.calls[1].gone
        peer.lose()
        assert peer.limiter.incoming == others

    def test_nor_may_it_come_in_drops_for_ever(self) -> None:
        peer = Peer(patience=Timeouts(stalled=60, request=300))
        peer.send(peer.head(1))
        for _ in range(7):
            peer.later(50)
            peer.send(frames.encode_frame(frames.DATA, 0, 1, b"x"))
        assert peer.host.calls[0].gone

    def test_who_takes_nothing_of_one_answer_loses_it_and_only_it(self) -> None:
        peer = Peer(EchoHost(prompt=False), patience=Timeouts(unread=60))
        peer.send(frames.encode_settings({frames.INITIAL_WINDOW_SIZE: 1}), peer.call(1), peer.call(3))
        peer.host.calls[0].answer()
        peer.later(50)
        peer.send(frames.encode_frame(frames.PING, 0, 0, bytes(8)))
        peer.later(11)
        assert [call.gone for call in peer.host.calls] == [True, False]

    def test_the_sooner_the_more_waits(self) -> None:
        peer = Peer(EchoHost(prompt=False), patience=Timeouts(unread=60))
        others = peer.limiter.unsent = MAX_UNREAD_BYTES // 2
        peer.send(frames.encode_settings({frames.INITIAL_WINDOW_SIZE: 1}), peer.call(1), peer.call(3))
        peer.host.calls[0].answer()
        assert peer.limiter.unsent == others + len(b"hello") - 1
        peer.later(SHORT_TIMEOUT + 1)
        assert [call.gone for call in peer.host.calls] == [True, False]
        assert peer.limiter.unsent == others
        peer.host.calls[1].answer()
        peer.lose()
        assert peer.limiter.unsent == others

    def test_beyond_it_nothing_more_waits_and_what_need_not_is_answered(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(writer, "MAX_UNREAD_BYTES", 100)
        peer = Peer(EchoHost(prompt=False))
        peer.send(frames.encode_settings({frames.INITIAL_WINDOW_SIZE: 8}), peer.call(1), peer.call(3), peer.call(5))
        one, other, third = peer.host.calls
        one.answer(30)  # more than all may have, and alone
        assert peer.limiter.unsent > 100
        other.answer(2)
        third.answer()
        came = [(came.kind, came.stream) for came in peer.came() if came.kind in (frames.RST_STREAM, frames.DATA)]
        assert came == [(frames.DATA, 1), (frames.DATA, 3), (frames.RST_STREAM, 3), (frames.DATA, 5)]
        assert not other.gone, "it has answered, and need not hear of it"
        peer.send(frames.encode_reset(1, ErrorCode.CANCEL))
        assert peer.limiter.unsent == 0

    def test_who_reads_nothing_at_all_is_cut_off_and_not_read_meanwhile(self) -> None:
        peer = Peer(patience=Timeouts(unread=60))
        peer.protocol.pause_writing()
        assert not peer.transport.reading
        peer.transport.untaken = 5
        peer.later(1)
        peer.later(50)
        assert not peer.transport.aborted
        peer.later(11)
        assert peer.transport.aborted

    def test_who_is_silent_while_it_waits_is_asked_whether_it_lives(self) -> None:
        peer = Peer(EchoHost(prompt=False), patience=Timeouts(stalled=60))
        peer.send(peer.call(1))
        for answers in (True, False):
            peer.later(61)
            [ping] = peer.came()
            assert (ping.kind, ping.flags) == (frames.PING, 0)
            peer.later(59)
            assert not peer.transport.aborted
            if answers:
                peer.send(frames.encode_frame(frames.PING, frames.ACK, 0, ping.payload))
        peer.later(2)
        assert peer.transport.aborted


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (frames.encode_frame(frames.DATA, 0, 1, b"x"), ErrorCode.PROTOCOL_ERROR),
        (frames.encode_frame(frames.DATA, 0, 0, b"x"), ErrorCode.PROTOCOL_ERROR),
        (frames.encode_frame(frames.HEADERS, frames.END_HEADERS, 2, b"\x82"), ErrorCode.PROTOCOL_ERROR),
        (frames.encode_frame(frames.HEADERS, frames.END_HEADERS, 0, b"\x82"), ErrorCode.PROTOCOL_ERROR),
        (frames.encode_frame(frames.HEADERS, 0, 1, b"\x82") + frames.encode_settings({}), ErrorCode.PROTOCOL_ERROR),
        (
            frames.encode_frame(frames.HEADERS, 0, 1, b"\x82") + frames.encode_frame(frames.CONTINUATION, 4, 3),
            ErrorCode.PROTOCOL_ERROR,
        ),
        (frames.encode_frame(frames.CONTINUATION, 4, 1, b"\x82"), ErrorCode.PROTOCOL_ERROR),
        (
            frames.encode_frame(frames.HEADERS, frames.END_HEADERS | frames.PADDED, 1, b"\x09\x82"),
            ErrorCode.PROTOCOL_ERROR,
        ),
        (
            frames.encode_frame(frames.HEADERS, frames.END_HEADERS, 1, b"\xff\xff\xff\xff\xff"),
            ErrorCode.COMPRESSION_ERROR,
        ),
        (frames.encode_frame(frames.HEADERS, frames.END_HEADERS, 1, b"\xbf"), ErrorCode.COMPRESSION_ERROR),
        (frames.encode_reset(1, ErrorCode.CANCEL), ErrorCode.PROTOCOL_ERROR),
        (frames.encode_frame(frames.RST_STREAM, 0, 1, b"123"), ErrorCode.FRAME_SIZE_ERROR),
        (frames.encode_window_update(1, 5), ErrorCode.PROTOCOL_ERROR),
        (frames.encode_window_update(0, 0), ErrorCode.FLOW_CONTROL_ERROR),
        (frames.encode_window_update(0, frames.MAX_WINDOW), ErrorCode.FLOW_CONTROL_ERROR),
        (frames.encode_frame(frames.PING, 0, 0, b"1234567"), ErrorCode.FRAME_SIZE_ERROR),
        (frames.encode_frame(frames.PING, 0, 1, b"12345678"), ErrorCode.FRAME_SIZE_ERROR),
        (frames.encode_frame(frames.SETTINGS, 0, 0, b"12345"), ErrorCode.FRAME_SIZE_ERROR),
        (frames.encode_frame(frames.SETTINGS, 0, 1), ErrorCode.PROTOCOL_ERROR),
        (frames.encode_settings({frames.INITIAL_WINDOW_SIZE: 1 << 31}), ErrorCode.FLOW_CONTROL_ERROR),
        (frames.encode_settings({frames.MAX_FRAME_SIZE: 1}), ErrorCode.PROTOCOL_ERROR),
        (frames.encode_frame(frames.PUSH_PROMISE, 4, 1), ErrorCode.PROTOCOL_ERROR),
        (b"\x00\x40\x01\x00\x00\x00\x00\x00\x01", ErrorCode.FRAME_SIZE_ERROR),
    ],
)
def test_who_breaks_a_rule_is_told_and_sent_away(data: bytes, code: ErrorCode) -> None:
    peer = Peer()
    peer.send(data)
    assert peer.sent_away() == code
    peer.send(peer.call(5))
    assert peer.host.calls == []
    peer.loop.run(late=True)
    assert peer.transport.closed


def test_a_window_cannot_be_made_too_large_by_settings() -> None:
    peer = Peer(EchoHost(prompt=False))
    peer.send(peer.call(1), frames.encode_window_update(1, frames.MAX_WINDOW - 65_535))
    peer.send(frames.encode_settings({frames.INITIAL_WINDOW_SIZE: 65_536}))
    assert peer.sent_away() == ErrorCode.FLOW_CONTROL_ERROR
    assert peer.host.calls[0].gone


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (frames.encode_window_update(1, 0), ErrorCode.FLOW_CONTROL_ERROR),
        (frames.encode_window_update(1, frames.MAX_WINDOW), ErrorCode.FLOW_CONTROL_ERROR),
        (frames.encode_frame(frames.DATA, 0, 1, b"after the end"), ErrorCode.STREAM_CLOSED),
        (frames.encode_frame(frames.HEADERS, frames.END_HEADERS, 1, b"\x82"), ErrorCode.PROTOCOL_ERROR),
    ],
)
def test_who_breaks_one_for_a_stream_loses_that_stream(fault: bytes, code: ErrorCode) -> None:
    peer = Peer(EchoHost(prompt=False))
    peer.send(peer.call(1), peer.call(3), fault)
    assert [(frame.kind, frame.stream, frame.number) for frame in peer.came()] == [(frames.RST_STREAM, 1, code)]
    assert [call.gone for call in peer.host.calls] == [True, False]
