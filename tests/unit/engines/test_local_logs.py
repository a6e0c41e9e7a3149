from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mizzen.engines.local import logs
from mizzen.rotated_log import LogReader
from mizzen.supervisor.processes.log_rotation import rotate

LINES = [b"line %d\n" % number for number in range(10)]


def _drain(reader: LogReader) -> bytes:
    chunks = []
    while chunk := reader.read_lines():
        chunks.append(chunk)
    return b"".join(chunks)


@pytest.mark.parametrize("cut", range(11))
@pytest.mark.parametrize("tail", [None, 0, 1, 4, 9, 10, 11])
def test_tail_counts_over_the_rotated_file(tmp_path: Path, cut: int, tail: int | None) -> None:
    path = tmp_path / "x.log"
    path.write_bytes(b"".join(LINES[:cut]))
    rotate(path)
    path.write_bytes(b"".join(LINES[cut:]))
    expected = LINES if tail is None else LINES[len(LINES) - min(tail, len(LINES)) :]
    assert _drain(LogReader(path, tail)) == b"".join(expected)


def test_a_rotation_between_two_reads_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    with path.open("ab", buffering=0) as writer:
        writer.write(b"".join(LINES[:3]))
        reader = LogReader(path, None)
        assert _drain(reader) == b"".join(LINES[:3])
        writer.write(b"".join(LINES[3:8]))
        rotate(path)
        writer.write(LINES[8])
        assert _drain(reader) == b"".join(LINES[3:9])
        writer.write(b"half")
        assert _drain(reader) == b""
        writer.write(b" whole\n")
        assert _drain(reader) == b"half whole\n"


def test_a_last_line_without_an_end_gets_one(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"a\nb")

    async def body() -> bytes:
        found = logs.read(lambda: {0: tmp_path / "x", 1: tmp_path / "absent"}, tail=None, follow=lambda: False)
        return b"".join([chunk async for chunk in found])

    assert asyncio.run(body()) == b"[0] a\n[0] b\n"


def test_of_workloads_that_are_gone_the_newest_logs_are_kept(tmp_path: Path) -> None:
    names = [
        "a.0.log",
        "a.0.log.1",
        "a.1.log",
        "b.0.log",
        "c.0.log",
        "c.1.log",
        "lives.0.log",
        "plane.log",
        ".a.0.log.1",
    ]
    for time, name in enumerate(names):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (time, time))
    logs.prune(tmp_path, lives=lambda uid: uid == "lives", keep=1)
    assert {path.name for path in tmp_path.iterdir()} == {*names[4:]}


@given(st.binary(max_size=200), st.integers(0, 8))
def test_tail_is_what_splitting_says(tmp_path_factory: pytest.TempPathFactory, content: bytes, tail: int) -> None:
    path = tmp_path_factory.mktemp("logs") / "x"
    path.write_bytes(content)
    reader = LogReader(path, tail)
    lines = content.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    expected = b"".join(line + b"\n" for line in lines[len(lines) - min(tail, len(lines)) :])
    assert _drain(reader) + reader.read_rest() == expected


@given(
    pieces=st.lists(st.binary(max_size=30), max_size=6),
    broken_off=st.integers(0, 6),
    rotated=st.integers(0, 6),
)
def test_whoever_goes_on_at_a_place_gets_every_line_once(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], broken_off: int, rotated: int
) -> None:
    path = tmp_path_factory.mktemp("logs") / "x"
    path.touch()
    places: dict[int, str] = {}
    told = b""

    async def read(places: dict[int, str]) -> bytes:
        """All that one look finds; at the next it breaks off, as for a reader whose connection is lost."""
        looks = [{0: path}]
        text = b""
        with contextlib.suppress(IndexError):
            async for chunk in logs.read(looks.pop, tail=None, follow=lambda: True, places=places):
                text += chunk
        return text

    with path.open("ab", buffering=0) as writer, pytest.MonkeyPatch.context() as patch:
        patch.setattr(logs, "_POLL_INTERVAL", 0)
        for number, piece in enumerate(pieces):
            if number == broken_off:
                told += asyncio.run(read(places))
            if number == rotated > broken_off:
                rotate(path)
            writer.write(piece)
        told += asyncio.run(read(places))
    whole, end, _ = b"".join(pieces).rpartition(b"\n")
    assert told == whole + end


def test_a_replica_that_came_while_nobody_read_is_read_from_its_first_line(tmp_path: Path) -> None:
    for index, name in enumerate(("x", "y")):
        (tmp_path / name).write_bytes(b"old %d\n" % index)
    places = {0: "6-0"}

    async def body() -> bytes:
        files = {0: tmp_path / "x", 1: tmp_path / "y"}
        found = logs.read(lambda: files, tail=0, follow=lambda: False, places=places)
        return b"".join([chunk async for chunk in found])

    assert asyncio.run(body()) == b"[1] old 1\n"
    assert places == {0: "6-0", 1: "6-0"}


def test_a_renamed_log_is_read_to_its_end_even_if_the_new_one_is_longer(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_text("one\n")
    reader = LogReader.from_start(log)
    assert reader.read_lines() == b"one\n"
    with log.open("a") as file:
        file.write("two\n")
    log.rename(tmp_path / "x.log.1")
    log.write_text("three, which is longer than all before\n")
    assert [reader.read_lines(), reader.read_lines()] == [b"two\n", b"three, which is longer than all before\n"]
