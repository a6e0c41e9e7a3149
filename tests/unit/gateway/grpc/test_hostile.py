"""Callers who send what no library would, or in pieces that none would make, and how little comes of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mizzen.gateway.grpc import service, streaming
from mizzen.gateway.grpc.streaming import WAITING, Talks
from mizzen.gateway.intake import Intake, Share
from mizzen.web.http2 import frames
from mizzen.web.http2.frames import Code
from tests.support.grpcs import SERVICE, request_of
from tests.support.http2 import Raw, message
from tests.unit.gateway.harness import Gateway, until

STREAM_INFER, INFER = f"/{SERVICE}/ModelStreamInfer", f"/{SERVICE}/ModelInfer"


@pytest.fixture
def intakes(monkeypatch: pytest.MonkeyPatch) -> list[Intake]:
    """Of the gateway, once there was a call of many messages."""
    seen: list[Intake] = []

    class Seen(Share):
        def __init__(self, intake: Intake) -> None:
            seen.append(intake)
            super().__init__(intake)

    monkeypatch.setattr(streaming, "Share", Seen)
    return seen


@pytest.fixture
def talks(monkeypatch: pytest.MonkeyPatch) -> Talks:
    """The gateway's."""
    ours = Talks()
    monkeypatch.setattr(service, "Talks", lambda: ours)
    return ours


@pytest.fixture
def raw(talks: Talks, intakes: list[Intake], both: Gateway) -> Iterator[Raw]:
    """Who takes nothing of an answer until it says so."""
    with Raw(both.grpc_port, window=0) as client:
        yield client


def test_a_call_whose_end_waits_takes_nothing_more(raw: Raw, talks: Talks, intakes: list[Intake]) -> None:
    raw.open(1, STREAM_INFER)
    raw.bring(1, message(request_of("none", [[1, 2]], "x").SerializeToString()) + b"\x07" + bytes(9))
    raw.heard()
    assert talks.count == 0
    raw.bring(1, bytes(900_000))
    raw.heard()
    assert intakes[0].bytes == 0
    raw.send(frames.window_update(1, 1 << 20))
    assert raw.code(1) == 3
    assert (intakes[0].bytes, talks.count) == (0, 0)


def test_a_call_that_has_ended_is_not_counted_off_again_when_it_is_cancelled(raw: Raw, talks: Talks) -> None:
    for stream in range(1, 20, 2):
        raw.open(stream, STREAM_INFER)
        raw.bring(stream, message(request_of("none", [[1, 2]], "x").SerializeToString()) + b"\x07" + bytes(9))
        raw.send(frames.reset(stream, Code.CANCEL))
    raw.heard()
    assert talks.count == 0


def test_a_stream_goes_on_once_its_answers_are_taken(raw: Raw, both: Gateway) -> None:
    wanted = request_of("m", [[1, 2]] * 1000, "x")
    wanted.outputs.add(name="sum")
    wanted.outputs.add(name="text")
    count = 2 * WAITING
    raw.open(1, STREAM_INFER)
    for _ in range(count):
        raw.bring(1, message(wanted.SerializeToString()))
    # All that is taken is answered, and more waits to be taken than may be.
    seen = [0.0]

    def settled() -> bool:
        seen.append(both.figure("mizzen_requests_total"))
        return seen[-1] == seen[-2] > 0 and not both.figure("mizzen_requests_in_flight")

    until(settled, "no more is answered")
    raw.send(frames.window_update(1, 1 << 30))
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
