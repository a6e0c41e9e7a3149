"""Answers within a number of bytes: which are kept, which go, and what they really take."""

from __future__ import annotations

import gc
import os
import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from mizzen.gateway.cache.entries import BODY_OVERHEAD, OVERHEAD, CacheEntries

ROOM = OVERHEAD + 2
"""Of an answer of one byte with a key of one."""


def keep(kept: CacheEntries, *keys: str) -> None:
    for key in keys:
        kept.add(key.encode(), key.encode())


def names(kept: CacheEntries) -> str:
    return "".join(sorted(key.decode() for key in kept.entries))


def test_the_hand_spares_once_what_was_asked_for() -> None:
    kept = CacheEntries(3 * ROOM)
    keep(kept, "a", "b", "c")
    kept.entries[b"a"].used = True
    keep(kept, "d")
    assert (names(kept), kept.evicted) == ("acd", 1)
    keep(kept, "e")
    assert names(kept) == "ade", "the hand goes on behind where it was"
    keep(kept, "f")
    assert names(kept) == "def", "a was spared once, and not asked for since"


def test_what_is_larger_than_all_is_not_kept() -> None:
    kept = CacheEntries(2 * ROOM)
    keep(kept, "a")
    kept.add(b"b", b"x" * 2 * ROOM)
    assert (names(kept), kept.evicted) == ("a", 0)
    kept.add(b"b", b"x" * (ROOM + 1))
    assert (names(kept), kept.bytes) == ("b", 2 * ROOM)


def test_another_limit_holds_at_once() -> None:
    kept = CacheEntries(4 * ROOM)
    keep(kept, "a", "b", "c", "d")
    kept.set_limit(2 * ROOM)
    assert (names(kept), kept.bytes) == ("cd", 2 * ROOM)
    kept.set_limit(0)
    assert (names(kept), kept.bytes) == ("", 0)


def test_a_body_goes_with_its_answer() -> None:
    kept = CacheEntries(2 * ROOM + BODY_OVERHEAD + 1)
    keep(kept, "a", "b")
    kept.index_body(kept.entries[b"a"], b"A")
    kept.index_body(kept.entries[b"a"], b"other")
    kept.index_body(kept.entries[b"b"], b"B")
    assert (names(kept), list(kept.bodies), kept.bytes) == ("b", [b"B"], ROOM + BODY_OVERHEAD + 1)
    kept.index_body(kept.entries[b"b"], b"longer" * 1000)
    kept.set_limit(0)
    assert (kept.bodies, kept.bytes) == ({}, 0)


sizes = st.integers(0, 3000)


@given(sizes, st.lists(st.tuples(st.integers(0, 20), sizes, st.booleans())))
def test_never_more_bytes_than_allowed_and_never_another_answer(most: int, steps: list[tuple[int, int, bool]]) -> None:
    kept = CacheEntries(most)
    given: dict[bytes, bytes] = {}
    for number, size, used in steps:
        key = b"%d" % number
        if key in kept.entries:
            kept.entries[key].used |= used
            kept.index_body(kept.entries[key], b"body of " + key)
        else:
            given[key] = b"%d " % number * size
            kept.add(key, given[key])
        assert kept.bytes <= most
        assert kept.bytes == sum(each.size for each in kept.entries.values())
        assert kept.bodies == {each.body: each for each in kept.entries.values() if each.body is not None}
        assert all(each.payload == given[each.key] and each.key == key for key, each in kept.entries.items())


def test_the_bytes_that_are_counted_are_not_less_than_what_is_taken() -> None:
    most = 4 << 20
    payloads = [os.urandom(size) for size in (1, 40, 300)]
    gc.collect()
    tracemalloc.start()
    try:
        kept = CacheEntries(most)
        for number in range(40_000):
            kept.add(b"key %d" % number, bytes(bytearray(payloads[number % 3])))
            if not number % 2:
                kept.index_body(kept.entries[b"key %d" % number], b"the body of %d" % number)
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert kept.evicted > 0
    assert 0.6 * kept.bytes <= taken <= most
