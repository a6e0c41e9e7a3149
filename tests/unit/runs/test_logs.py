"""Logs of several replicas and attempts, read as one: from files and from Blobs."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mizzen.blobs.file_store import FileBlobs
from mizzen.runs import log_segments, log_track, logs
from mizzen.runs.log_segments import LogUploader
from mizzen.runs.log_times import Mark, Times, TimesFile
from mizzen.runs.paths import JobPlace
from mizzen.runs.records import Task


@dataclass
class Logs:
    """Written as a runner does, at times that the test says."""

    blobs: FileBlobs
    job: JobPlace

    def write(self, replica: str, *pieces: tuple[float, bytes], attempt: int = 0) -> None:
        place = self.job.replica(replica)
        place.folder.mkdir(parents=True, exist_ok=True)
        times = TimesFile(place.times(attempt))
        with place.log(attempt).open("ab", buffering=0) as log:
            for when, data in pieces:
                log.write(data)
                times.note(when, log.tell())
                os.utime(place.log(attempt), (when, when))
        times.close()

    def keep(self, replica: str, attempt: int = 0) -> None:
        """In Blobs, and no longer here."""
        task = Task("default", "m", "1", "v", "m-1-x", self.job.uid, replica, attempt, ("python",))
        keeping = LogUploader(self.blobs, self.blobs.documents, self.job.replica(replica), task, attempt)
        keeping.finish()
        keeping.drop()

    def read(self, **options: Any) -> list[str]:
        return b"".join(self.blocks(**options)).decode(errors="replace").splitlines()

    def blocks(self, **options: Any) -> list[bytes]:
        async def all_of() -> list[bytes]:
            return [block async for block in logs.lines(self.blobs.documents, self.blobs, self.job, **options)]

        return asyncio.run(all_of())


@pytest.fixture
def written(tmp_path: Path) -> Logs:
    return Logs(FileBlobs(tmp_path / "blobs"), JobPlace(tmp_path, "uid"))


@pytest.fixture(params=["files", "blobs"])
def two(request: pytest.FixtureRequest, written: Logs) -> Logs:
    """Two replicas that take turns; one of them was tried again."""
    written.write("worker-0", (1, b"a1\n"), (3, b"a3\na3b\n"))
    written.write("worker-1", (2, b"b2\n"), (4, b"b4\n"))
    written.write("worker-0", (5, b"a5\n"), attempt=1)
    if request.param == "blobs":
        for replica, attempt in (("worker-0", 0), ("worker-0", 1), ("worker-1", 0)):
            written.keep(replica, attempt)
        assert not [*written.job.folder.rglob("*.log")]
    return written


ALL = ["[worker-0] a1", "[worker-1] b2", "[worker-0] a3", "[worker-0] a3b", "[worker-1] b4", "[worker-0] a5"]


def test_lines_of_all_replicas_and_attempts_come_in_the_order_of_time(two: Logs) -> None:
    assert two.read() == ALL


@pytest.mark.parametrize("tail", range(8))
def test_the_last_lines_are_those_of_the_whole(two: Logs, tail: int) -> None:
    assert two.read(tail=tail) == (ALL[-tail:] if tail else [])


@pytest.mark.parametrize(("since", "first"), [(0, 0), (1.5, 1), (2.5, 2), (3.5, 4), (5, 5), (6, 6)])
def test_since_leaves_out_what_was_there_before(two: Logs, since: float, first: int) -> None:
    assert two.read(since=since) == ALL[first:]
    assert two.read(since=since, tail=2) == ALL[max(first, 4) :]


def test_one_replica_alone(two: Logs) -> None:
    assert two.read(replicas=["worker-1"]) == ["[worker-1] b2", "[worker-1] b4"]
    assert two.read(replicas=["worker-7"]) == []


def test_a_job_that_printed_nothing_has_no_lines(written: Logs) -> None:
    assert written.read() == []
    assert written.read(tail=10, since=3.0) == []


def test_a_line_is_not_torn_by_those_of_others(written: Logs) -> None:
    written.write("worker-0", (1, b"begin"), (3, b"ning and end\nlast"))
    written.write("worker-1", (2, b"between\n"))
    assert written.read() == ["[worker-1] between", "[worker-0] beginning and end", "[worker-0] last"]
    assert written.read(tail=2) == ["[worker-0] beginning and end", "[worker-0] last"]
    assert written.read(since=2.5) == ["[worker-0] beginning and end", "[worker-0] last"]


def test_a_last_line_without_an_end_comes_before_the_next_attempt(written: Logs) -> None:
    written.write("worker-0", (1, b"no end"))
    written.write("worker-0", (2, b"next\n"), attempt=1)
    assert written.read() == ["[worker-0] no end", "[worker-0] next"]


def test_lines_that_nobody_told_the_time_of_are_read_all_the_same(written: Logs) -> None:
    written.write("worker-0", (1, b"told\n"))
    with written.job.replica("worker-0").log(0).open("ab") as log:
        log.write(b"untold\n")
    assert written.read() == ["[worker-0] told", "[worker-0] untold"]
    assert written.read(tail=1) == ["[worker-0] untold"]
    written.job.replica("worker-0").times(0).unlink()
    assert written.read() == ["[worker-0] told", "[worker-0] untold"]


def test_bytes_without_an_end_come_in_pieces(written: Logs) -> None:
    data = bytes(range(11, 256)) * 2000
    written.write("worker-0", (1, data))
    lines = b"".join(written.blocks()).split(b"\n")[:-1]
    assert b"".join(line.removeprefix(b"[worker-0] ") for line in lines) == data
    assert max(map(len, lines)) <= log_track.LONGEST + len(b"[worker-0] ")
    assert len(written.blocks(tail=2)[0]) <= 3 * log_track.LONGEST


def test_only_line_ends_end_lines(written: Logs) -> None:
    written.write("worker-0", (1, b"10%\r20%\x0b\x1c\n\n\0x\n"))
    assert b"".join(written.blocks()) == b"[worker-0] 10%\r20%\x0b\x1c\n[worker-0] \n[worker-0] \0x\n"


def test_reading_goes_on_where_it_was(written: Logs) -> None:
    written.write("worker-0", (1, b"one\ntwo"))
    written.write("worker-1", (2, b"other\n"))
    places: dict[str, str] = {}

    async def first() -> bytes:
        reading = logs.lines(written.blobs.documents, written.blobs, written.job, follow=lambda: True, places=places)
        block = b""
        while block.count(b"\n") < 2:
            block += await anext(reading)
        await reading.aclose()
        return block

    assert asyncio.run(first()).splitlines() == [b"[worker-0] one", b"[worker-1] other"]
    written.write("worker-0", (3, b" more\n"))
    written.write("worker-0", (4, b"again\n"), attempt=1)
    assert written.read(places=places) == ["[worker-0] two more", "[worker-0] again"]


def test_what_comes_is_read_as_it_comes_until_it_is_over(written: Logs) -> None:
    written.write("worker-0", (1, b"before\n"))
    seen: list[str] = []
    steps: list[Callable[[], None]] = [
        lambda: written.write("worker-0", (2, b"two\n")),
        lambda: written.write("worker-1", (3, b"another replica\n")),
        lambda: written.keep("worker-0"),
        lambda: written.write("worker-0", (4, b"another attempt\nlast"), attempt=1),
        lambda: written.keep("worker-0", 1),
    ]

    async def follow() -> None:
        going_on = True
        reading = logs.lines(written.blobs.documents, written.blobs, written.job, tail=1, follow=lambda: going_on)
        async with asyncio.timeout(60):
            async for block in reading:
                seen.extend(block.decode().splitlines())
                while steps:
                    steps.pop(0)()
                    if len(steps) in (3, 2):
                        break  # these are to be seen before it goes on
                going_on = bool(steps)

    asyncio.run(follow())
    assert seen == [
        "[worker-0] before", "[worker-0] two", "[worker-1] another replica", "[worker-0] another attempt",
        "[worker-0] last",
    ]  # fmt: skip


def test_while_it_is_followed_lines_wait_for_those_of_others_that_may_be_older(written: Logs) -> None:
    now = time.time()
    written.write("worker-0", (now + 0.3, b"later\n"))
    written.write("worker-1", (1, b"early\n"))
    reading = logs.Reading(written.blobs.documents, written.blobs, written.job)
    assert reading.more(live=True) == b"[worker-1] early\n"
    assert reading.more(live=True) == b""
    written.write("worker-1", (now, b"earlier\n"))
    assert reading.more(live=False) == b"[worker-1] earlier\n[worker-0] later\n"
    reading.close()


def test_a_large_log_is_kept_in_segments_and_read_in_small_blocks(
    written: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_segments, "SEGMENT", 1 << 16)
    lines = [b"line %06d %s\n" % (number, b"x" * (number % 90)) for number in range(20_000)]
    for start in range(0, len(lines), 500):
        written.write("worker-0", (float(start), b"".join(lines[start : start + 500])))
    written.keep("worker-0")
    kept = log_segments.read(written.blobs.documents, log_segments.name_of("uid", "worker-0", 0))
    assert kept is not None
    assert len(kept.segments) > 10
    blocks = written.blocks()
    assert b"".join(blocks) == b"".join(b"[worker-0] " + line for line in lines)
    assert max(map(len, blocks)) < 2 * logs.BLOCK
    assert written.read(tail=700) == [f"[worker-0] {line.decode()[:-1]}" for line in lines[-700:]]


@settings(deadline=None)
@example(pieces=[(1, 0, b"\n"), (0, 1, b"\n"), (1, 0, b"\n")], tail=1)
@given(
    pieces=st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 3), st.binary(max_size=12).map(lambda data: data + b"\n")),
        max_size=30,
    ),
    tail=st.integers(0, 40),
)
def test_whatever_was_printed_the_tail_is_the_end_of_the_whole(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[tuple[int, int, bytes]], tail: int
) -> None:
    folder = tmp_path_factory.mktemp("logs")
    written = Logs(FileBlobs(folder / "blobs"), JobPlace(folder, "uid"))
    now = 0.0
    for replica, wait, data in pieces:
        now += wait
        written.write(f"worker-{replica}", (now, data))
    whole = b"".join(written.blocks()).split(b"\n")[:-1]
    for replica in range(3):
        own = [
            line.removeprefix(b"[worker-%d] " % replica) for line in whole if line.startswith(b"[worker-%d]" % replica)
        ]
        assert b"".join(line + b"\n" for line in own) == b"".join(data for who, _, data in pieces if who == replica)
    last = b"".join(written.blocks(tail=tail)).split(b"\n")[:-1]
    assert last == (whole[-tail:] if tail else [])


def test_times_never_go_back_and_a_torn_record_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "0.times"
    times = TimesFile(path)
    times.note(5.0, 10)
    times.note(4.0, 20)
    times.note(6.0, 20)
    times.close()
    with path.open("ab") as file:
        file.write(b"torn")
    again = TimesFile(path)
    assert again.last == Mark(5.0, 20)
    again.note(7.0, 30)
    again.close()
    with path.open("rb") as file:
        read = Times(file.fileno())
        assert [read[index] for index in range(len(read))] == [Mark(5.0, 10), Mark(5.0, 20), Mark(7.0, 30)]
        assert [read.first_after(5.0), read.first_after(6.0), read.first_after(8.0)] == [0, 2, 3]
        assert [read.first_beyond(0), read.first_beyond(10), read.first_beyond(30)] == [0, 1, 3]


def test_what_is_put_away_goes_on_after_a_stop(written: Logs) -> None:
    written.write("worker-0", (1, b"one\n"))
    task = Task("default", "m", "1", "v", "m-1-x", "uid", "worker-0", 0, ("python",))

    def keeping() -> LogUploader:
        return LogUploader(written.blobs, written.blobs.documents, written.job.replica("worker-0"), task, 0)

    keeping().finish()
    written.write("worker-0", (2, b"two\n"))
    assert not keeping().complete
    keeping().finish()
    keeping().drop()
    assert written.read() == ["[worker-0] one", "[worker-0] two"]
    keeping().restore()
    assert written.job.replica("worker-0").log(0).read_bytes() == b"one\ntwo\n"
    assert written.read(since=1.5) == ["[worker-0] two"]
