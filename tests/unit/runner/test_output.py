"""The bounded log of a command."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mizzen.runner.output import BoundedLog
from tests.support.examples import examples

MOST = 100_000


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


def written(path: Path, parts: list[bytes], most: int = MOST) -> bytes:
    handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
    try:
        kept = BoundedLog(handle, most)
        for part in parts:
            kept.write(part)
            assert path.stat().st_size <= most
        kept.finish()
    finally:
        os.close(handle)
    return path.read_bytes()


def test_output_within_the_bound_is_kept_as_it_is(log: Path) -> None:
    parts = [b"one\n", b"two", b" and a half\n", b"three"]
    assert written(log, parts) == b"".join(parts)


def test_a_flood_keeps_its_beginning_samples_and_its_end(log: Path) -> None:
    lines = [b"line %d\n" % number for number in range(500_000)]
    text = written(log, [b"".join(lines[at : at + 1000]) for at in range(0, len(lines), 1000)])
    assert len(text) <= MOST
    kept = text.splitlines(keepends=True)
    assert kept[:5000] == lines[:5000]
    assert kept[-500:] == lines[-500:]
    marks = [line for line in kept if line.startswith(b"[mizzen: ")]
    assert len(marks) > 5, "samples, ever rarer"
    left_out = sum(int(line.split()[1].replace(b",", b"")) for line in marks)
    assert left_out + len(text) - sum(map(len, marks)) == sum(map(len, lines)), "each byte is there, or counted"


def test_a_later_start_of_the_attempt_continues(log: Path) -> None:
    written(log, [b"x" * 999 + b"\n"] * 500)
    text = written(log, [b"again\n", b"y" * 999 + b"\n"])
    assert len(text) <= MOST


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.binary(max_size=700), max_size=60), st.integers(min_value=400, max_value=5000))
def test_no_output_exceeds_the_bound(tmp_path_factory: pytest.TempPathFactory, parts: list[bytes], most: int) -> None:
    text = written(tmp_path_factory.mktemp("log") / "log", parts, most)
    whole = b"".join(parts)
    assert len(text) <= most
    if len(whole) <= most * 3 // 4:
        assert text == whole
