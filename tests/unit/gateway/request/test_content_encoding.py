"""Packed bodies, without a gateway around them: how much there may be at once, and that others have their turns."""

from __future__ import annotations

import asyncio
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mizzen.errors import TooLarge, UnsupportedMediaType
from mizzen.gateway.request import content_encoding
from mizzen.gateway.request.body_budget import BodyBudget, BodyReservation

LIMIT = 1 << 20


def unpack(body: bytes, intake: BodyBudget, most: int = LIMIT) -> bytes | None:
    share = BodyReservation(intake)
    try:
        return asyncio.run(content_encoding.decompress(body, b"deflate", share, most))
    finally:
        share.end()


@given(st.binary(max_size=2000), st.integers(1, 400))
def test_all_of_it_comes_out(data: bytes, times: int) -> None:
    intake = BodyBudget(LIMIT)
    assert unpack(zlib.compress(data * times), intake) == data * times
    assert intake.bytes == 0


@given(st.binary(max_size=300))
def test_garbage_is_a_fault_of_the_caller(data: bytes) -> None:
    try:
        zlib.decompress(data, -15)
    except zlib.error:
        with pytest.raises(ValueError, match="the body is not valid deflate"):
            unpack(data, BodyBudget(LIMIT))


def test_there_is_no_more_of_it_at_once_than_there_may_be() -> None:
    packed = zlib.compress(bytes(600_000))
    intake = BodyBudget(LIMIT)
    other = BodyReservation(intake)
    assert other.grow(500_000)
    assert unpack(packed, intake) is None
    assert intake.bytes == 500_000
    other.end()
    assert unpack(packed, intake) == bytes(600_000)


def test_a_bomb_is_put_out_before_it_has_grown() -> None:
    intake = BodyBudget(1 << 30)
    grown: list[int] = []

    class Watched(BodyReservation):
        def grow(self, size: int) -> bool:
            grown.append(size)
            return super().grow(size)

    packed = zlib.compress(bytes(16 << 20))
    with pytest.raises(TooLarge):
        asyncio.run(content_encoding.decompress(packed, b"deflate", Watched(intake), LIMIT))
    assert max(grown) <= LIMIT + len(packed)


def test_others_have_their_turns_meanwhile() -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def run() -> None:
        other = asyncio.create_task(count())
        await content_encoding.decompress(
            zlib.compress(bytes(LIMIT)), b"deflate", BodyReservation(BodyBudget(LIMIT * 2)), LIMIT
        )
        other.cancel()

    asyncio.run(run())
    assert turns >= LIMIT // content_encoding.STEP_BYTES


@pytest.mark.parametrize(
    ("values", "encoding"),
    [
        ([], b""),
        ([b"identity"], b""),
        ([b" GZip "], b"gzip"),
        ([b"identity, x-gzip"], b"gzip"),
        ([b"deflate"], b"deflate"),
    ],
)
def test_which_there_are(values: list[bytes], encoding: bytes) -> None:
    assert content_encoding.encoding_of(values) == encoding


@pytest.mark.parametrize("values", [[b"br"], [b"gzip", b"gzip"], [b"gzip, deflate"], [b"\xff"]])
def test_which_there_are_not(values: list[bytes]) -> None:
    with pytest.raises(UnsupportedMediaType, match="expected gzip or deflate"):
        content_encoding.encoding_of(values)
