"""Both codecs read and write the same bytes, and refuse the same nonsense."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mizzen.protocol.frames import msgpack

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=300)
    | st.binary(max_size=300)
)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.text(max_size=40), inner, max_size=20)
)
BOTH = pytest.mark.parametrize("unpack", [msgpack.unpack, msgpack.unpack_with_stdlib], ids=["fast", "plain"])


def test_msgspec_is_what_is_compared_with() -> None:
    assert msgpack.unpack is not msgpack.unpack_with_stdlib


@given(VALUES)
def test_the_codecs_agree(value: Any) -> None:
    packed = msgpack.pack(value)
    assert msgpack.pack_with_stdlib(value) == packed
    assert repr(msgpack.unpack_with_stdlib(packed)) == repr(msgpack.unpack(packed)) == repr(value)
    assert repr(msgpack.unpack_with_stdlib(memoryview(packed))) == repr(msgpack.unpack(memoryview(packed)))


@pytest.mark.parametrize("size", [0, 15, 16, 31, 32, 255, 256, 65535, 65536])
def test_the_codecs_agree_where_widths_change(size: int) -> None:
    for value in ("x" * size, b"x" * size, [0] * size, {str(number): None for number in range(size)}):
        assert msgpack.pack_with_stdlib(value) == msgpack.pack(value)
        assert msgpack.unpack_with_stdlib(msgpack.pack(value)) == value


@given(st.binary(max_size=60))
def test_the_plain_codec_accepts_nothing_that_msgspec_refuses(data: bytes) -> None:
    fast, plain = _outcome(msgpack.unpack, data), _outcome(msgpack.unpack_with_stdlib, data)
    if plain != "refused":
        assert plain == fast


@BOTH
@given(value=VALUES, data=st.data())
def test_a_message_cut_short_is_refused(unpack: Callable[[bytes], Any], value: Any, data: st.DataObject) -> None:
    packed = msgpack.pack(value)
    with pytest.raises(ValueError, match=r"\w"):
        unpack(packed[: data.draw(st.integers(0, len(packed) - 1))])


@BOTH
@pytest.mark.parametrize(
    "data",
    [b"", b"\xc1", b"\x01\x01", b"\xa2a", b"\xa1\xff", b"\xdd\xff\xff\xff\xff", b"\x91" * 100_000 + b"\xc0"],
    ids=["empty", "no code", "two values", "short text", "no utf-8", "absurd length", "too deep"],
)
def test_malformed_input_is_a_value_error(unpack: Callable[[bytes], Any], data: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        unpack(data)


@pytest.mark.parametrize("value", [object(), {1: 2}, 1j], ids=["object", "key", "complex"])
def test_the_plain_codec_refuses_types_outside_the_subset(value: Any) -> None:
    with pytest.raises(TypeError):
        msgpack.pack_with_stdlib(value)


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1])
def test_ints_beyond_64_bits_are_refused(value: int) -> None:
    for pack in (msgpack.pack, msgpack.pack_with_stdlib):
        with pytest.raises(OverflowError):
            pack(value)


def _outcome(unpack: Callable[[bytes], Any], data: bytes) -> str:
    try:
        return repr(unpack(data))
    except ValueError:
        return "refused"
