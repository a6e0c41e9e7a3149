"""Callers who send what no library would, or in pieces that none would make, and how little comes of it."""

from __future__ import annotations

import gzip
import time
from collections.abc import Iterator
from types import ModuleType
from typing import Any
from urllib.parse import unquote

import pytest

from mizzen.gateway.grpc import service, streaming, unary
from mizzen.gateway.grpc.message_framing import MessageReader
from mizzen.gateway.grpc.streaming import MAX_PENDING, StreamingCallLimit
from mizzen.gateway.grpc.wire import message_types, status
from mizzen.gateway.request.body_budget import BodyBudget, BodyReservation
from mizzen.gateway.request.grpc_status import GrpcStatus
from mizzen.web.http2 import frames
from mizzen.web.http2.frames import ErrorCode
from tests.support.gateway.harness import Gateway, until
from tests.support.golden import Golden
from tests.support.grpcs import SERVICE, request_of
from tests.support.http2 import Raw, message

STREAM_INFER, INFER = f"/{SERVICE}/ModelStreamInfer", f"/{SERVICE}/ModelInfer"


@pytest.fixture
def intakes(monkeypatch: pytest.MonkeyPatch) -> list[BodyBudget]:
    """Of the gateway, once there was a call of many messages."""
    return _seen(streaming, monkeypatch)


@pytest.fixture
def heads(monkeypatch: pytest.MonkeyPatch) -> list[BodyBudget]:
    """The same, once there was one that counts by itself."""
    return _seen(unary, monkeypatch)


def _seen(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[BodyBudget]:
    seen: list[BodyBudget] = []

    class Seen(BodyReservation):
        def __init__(self, intake: BodyBudget) -> None:
            seen.append(intake)
            super().__init__(intake)

    monkeypatch.setattr(module, "BodyReservation", Seen)
    return seen


@pytest.fixture
def talks(monkeypatch: pytest.MonkeyPatch) -> StreamingCallLimit:
    """The gateway's."""
    ours = StreamingCallLimit(100)
    monkeypatch.setattr(service, "StreamingCallLimit", lambda _: ours)
    return ours


@pytest.fixture
def raw(talks: StreamingCallLimit, intakes: list[BodyBudget], both: Gateway) -> Iterator[Raw]:
    """Who takes nothing of an answer until it says so."""
    with Raw(both.grpc_port, window=0) as client:
        yield client


def test_a_call_whose_end_waits_takes_nothing_more(
    raw: Raw, talks: StreamingCallLimit, intakes: list[BodyBudget]
) -> None:
    raw.open(1, STREAM_INFER)
    raw.bring(1, message(request_of("none", [[1, 2]], "x").SerializeToString()) + b"\x07" + bytes(9))
    raw.heard()
    assert talks.count == 0
    raw.bring(1, bytes(900_000))
    raw.heard()
    assert intakes[0].bytes == 0
    raw.send(frames.encode_window_update(1, 1 << 20))
    assert raw.code(1) == 3
    assert (intakes[0].bytes, talks.count) == (0, 0)


def test_a_call_that_has_ended_is_not_counted_off_again_when_it_is_cancelled(
    raw: Raw, talks: StreamingCallLimit
) -> None:
    for stream in range(1, 20, 2):
        raw.open(stream, STREAM_INFER)
        raw.bring(stream, message(request_of("none", [[1, 2]], "x").SerializeToString()) + b"\x07" + bytes(9))
        raw.send(frames.encode_reset(stream, ErrorCode.CANCEL))
    raw.heard()
    assert talks.count == 0


def test_a_stream_goes_on_once_its_answers_are_taken(raw: Raw, both: Gateway) -> None:
    wanted = request_of("m", [[1, 2]] * 1000, "x")
    wanted.outputs.add(name="sum")
    wanted.outputs.add(name="text")
    count = 2 * MAX_PENDING
    raw.open(1, STREAM_INFER)
    for _ in range(count):
        raw.bring(1, message(wanted.SerializeToString()))
    # All that is taken is answered, and more waits to be taken than may be.
    seen = [0.0]

    def settled() -> bool:
        seen.append(both.figure("mizzen_requests_total"))
        return seen[-1] == seen[-2] > 0 and not both.figure("mizzen_requests_in_flight")

    until(settled, "no more is answered")
    raw.send(frames.encode_window_update(1, 1 << 30))
    while len(raw.messages(1)) < count:
        raw.take()
    raw.bring(1, b"", end=True)
    assert raw.code(1) == 0


def test_a_name_is_no_place_for_megabytes(raw: Raw) -> None:
    for stream, given in ((1, {"model_version": "x" * 5000}), (3, {})):
        raw.open(stream, INFER)
        body = request_of("m" if given else "y" * 5000, [[1, 2]], "x", **given).SerializeToString()
        raw.bring(stream, message(body), end=True)
        assert raw.code(stream) == 3
        assert raw.heads[stream]["grpc-message"].endswith("is longer than 1024 characters")


def test_a_question_of_one_message_has_no_other(raw: Raw, intakes: list[BodyBudget]) -> None:
    """Nobody reads a second one of those who watch."""
    watch = "/grpc.health.v1.Health/Watch"
    raw.open(1, watch)
    raw.bring(1, message(b""))
    raw.heard()
    raw.bring(1, message(bytes(1000)))
    raw.send(frames.encode_window_update(1, 1000))
    assert raw.code(1) == 3
    assert intakes[0].bytes == 0


def test_messages_that_nobody_has_read_are_counted(raw: Raw, intakes: list[BodyBudget]) -> None:
    question = message_types.class_of("grpc.reflection.v1.ServerReflectionRequest")
    raw.open(1, "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo")
    large = message(question(list_services="x" * 60_000).SerializeToString())
    for _ in range(12):
        raw.bring(1, large)
    raw.heard()
    # Its answers are not taken, so most of them wait, taken from what came or not.
    until(lambda: intakes[0].bytes > 5 * len(large), "they are counted")
    raw.send(frames.encode_reset(1, ErrorCode.CANCEL))
    raw.heard()
    assert intakes[0].bytes == 0


def test_packed_messages_are_unpacked_in_turns(raw: Raw, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many come at once, and however large they become."""
    done: list[bool] = []
    unpack = MessageReader._unpack

    def seen(self: MessageReader, work: Any) -> bytes | None:
        assert not self.needs_yield
        whole = unpack(self, work)
        done.append(whole is not None)
        return whole

    monkeypatch.setattr(MessageReader, "_unpack", seen)
    body = request_of("m", [[1, 2]] * 40_000, "x").SerializeToString()
    raw.open(1, STREAM_INFER, (b"grpc-encoding", b"gzip"))
    raw.bring(1, message(gzip.compress(body), packed=True) * 5, end=True)
    raw.send(frames.encode_window_update(1, 1 << 30))
    assert raw.code(1) == 0
    assert len(raw.messages(1)) == 5
    assert len(done) >= 3 * 5
    assert sum(done) == 5


def test_what_is_packed_badly_is_said(raw: Raw) -> None:
    raw.send(frames.encode_settings({frames.INITIAL_WINDOW_SIZE: 1000}))
    for stream, packed, code in (
        (1, b"no gzip", 3), (3, gzip.compress(b"x")[:-3], 3), (5, gzip.compress(b"x") + b"more", 3),
        (7, gzip.compress(bytes(2 << 20)), 8),
    ):  # fmt: skip
        raw.open(stream, STREAM_INFER, (b"grpc-encoding", b"gzip"))
        raw.bring(stream, message(packed, packed=True), end=True)
        assert raw.code(stream) == code


def test_who_lets_deadlines_pass_makes_no_noise(raw: Raw) -> None:
    """As libraries do, which cancel what is late; a thousand of them at once would be an attack."""
    stream = -1
    for _ in range(6):
        began = []
        for _ in range(200):
            stream += 2
            raw.open(stream, INFER, (b"grpc-timeout", b"20m"))
            began.append(stream)
        raw.heard()
        time.sleep(0.03)
        raw.send(*(frames.encode_reset(each, ErrorCode.CANCEL) for each in began))
        raw.heard()


def test_a_head_that_is_too_large_ends_its_call_only(raw: Raw, golden: Golden) -> None:
    raw.open(1, STREAM_INFER)
    raw.open(3, INFER, *((b"large", b"x" * 5000) for _ in range(3)), (b"more", b"y" * 1000))
    assert raw.code(3) == 8
    golden.check(raw.heads[3]["grpc-message"])
    raw.bring(1, b"", end=True)
    assert raw.code(1) == 0


def test_large_heads_of_messages_that_do_not_come_are_counted(raw: Raw, heads: list[BodyBudget]) -> None:
    large = (b"authorization", b"Bearer " + b"x" * 10_000)
    for stream in (1, 3, 5):
        raw.open(stream, INFER, large)
    raw.open(7, INFER)
    raw.heard()
    assert 30_000 < heads[0].bytes < 32_000
    raw.bring(1, message(request_of("none", [[1, 2]], "x").SerializeToString()), end=True)
    assert raw.code(1)
    raw.send(frames.encode_reset(3, ErrorCode.CANCEL))
    raw.heard()
    assert 10_000 < heads[0].bytes < 11_000
    heads[0].limit = 20_000
    raw.open(9, f"/{SERVICE}/ServerLive", large)
    assert raw.code(9) == 14
    assert 10_000 < heads[0].bytes < 11_000, "what is refused takes no room"


def test_words_beyond_ascii_fit_into_a_head() -> None:
    for words in ("模型" * 1000, "x" * 1995 + "模型", "é" * 5000):
        coded = dict(status.trailers_of(GrpcStatus.INTERNAL, words))[b"grpc-message"]
        assert len(coded) <= 2000
        assert words.startswith(unquote(coded.decode(), errors="strict"))
