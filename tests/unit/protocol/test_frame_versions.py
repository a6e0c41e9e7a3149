"""Frames of other releases: which version two sides speak, and that of those in use no byte changes."""

from __future__ import annotations

import pytest

from mizzen.protocol.frames import framing, msgpack
from mizzen.protocol.frames.large_frames import encode_infer

GOLDEN = {
    "hello": "2f000000020101000000000083a57374617465a57265616479a370696405a96672616d65776f726ba6707974686f6e",
    "infer": "20000000020201000700000091929195a178a446503634910100c4035b315dc0",
    "reply": "1d0000000203010007000000922a919200c40a5b7b2279223a317d5d0a",
    "drain": "0c0000000204010000000000",
}
"""Recorded. A change that makes one of these tests fail needs a new version."""

HELLO = {"state": "ready", "pid": 5, "framework": "python"}
INFER = [[[["x", "FP64", [1], framing.JSON, b"[1]"]], None]]


@pytest.mark.parametrize(
    ("told", "seen", "spoken"),
    [(None, 2, 2), ((2, 2), 2, 2), ((2, 3), 2, 2), ((1, 2), 1, 2), ((1, 9), 1, 2), ([2, 3], 2, 2)],
)
def test_the_newest_that_both_speak(told: tuple[int, int] | None, seen: int, spoken: int) -> None:
    assert framing.negotiate_version(told, seen) == spoken


@pytest.mark.parametrize(("told", "seen"), [(None, 1), (None, 3), ((3, 4), 3), ((1, 1), 1)])
def test_none_in_common(told: tuple[int, int] | None, seen: int) -> None:
    with pytest.raises(framing.UnsupportedVersion, match="this side speaks 2"):
        framing.negotiate_version(told, seen)


def test_one_release_apart() -> None:
    """The rule: a release speaks its own version and the one before."""
    assert framing.VERSION - framing.OLDEST <= 1


@pytest.mark.parametrize("version", [1, 2, 3, 200])
def test_a_hello_is_read_whatever_its_version(version: int) -> None:
    reader = framing.FrameReader()
    [frame] = reader.feed(framing.encode(framing.HELLO, 0, msgpack.pack(HELLO), version=version))
    assert (msgpack.unpack(frame.body), reader.version) == (HELLO, version)
    if version != 2:
        for type_ in (framing.INFER, framing.REPLY, framing.DRAIN, framing.RELOAD):
            with pytest.raises(framing.UnsupportedVersion):
                framing.FrameReader().feed(framing.encode(type_, 1, b"", version=version))


def test_version_2_byte_by_byte() -> None:
    written = {
        "hello": framing.encode(framing.HELLO, 0, msgpack.pack(HELLO), version=2),
        "infer": framing.encode(framing.INFER, 7, msgpack.pack(INFER), version=2),
        "reply": framing.encode(framing.REPLY, 7, msgpack.pack([42, [[framing.OK, b'[{"y":1}]\n']]]), version=2),
        "drain": framing.encode(framing.DRAIN, 0, version=2),
    }
    assert {name: data.hex() for name, data in written.items()} == GOLDEN
    for name, type_ in (("hello", 1), ("infer", 2), ("reply", 3), ("drain", 4)):
        [frame] = framing.FrameReader().feed(bytes.fromhex(GOLDEN[name]))
        assert frame.type == type_
    large = b"".join(encode_infer(7, [[[("x", "FP64", [1], framing.RAW, bytes(8))], None]], 2))
    assert framing.HEADER.unpack_from(large)[1:] == (2, framing.INFER, framing.LAST, 7)
