"""What a gateway writes down of its refusals: at once, counted when equal, and bounded."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mizzen.access import refusal_lines
from mizzen.access.policy import NEEDS_TOKEN
from mizzen.access.refusal_lines import Refusal
from mizzen.gateway.access.refusal_log import MAX_DISTINCT, MAX_FILES, WINDOW, RefusalLog


class Clock:
    """Time, and what is to be called when."""

    def __init__(self) -> None:
        self.time = 1000.0
        self._due: list[tuple[float, Callable[[], None]]] = []

    def __call__(self) -> float:
        return self.time

    def call_later(self, delay: float, work: Callable[[], None]) -> None:
        self._due.append((self.time + delay, work))

    def pass_(self, seconds: float) -> None:
        self.time += seconds
        due, self._due = [one for one in self._due if one[0] <= self.time], [x for x in self._due if x[0] > self.time]
        for _, work in due:
            work()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def book(tmp_path: Path, clock: Clock) -> Iterator[RefusalLog]:
    book = RefusalLog(tmp_path / "refusals", "gateway-3", wall=clock, call_later=clock.call_later, file_bytes=4096)
    yield book
    book.close()


def note(book: RefusalLog, name: str = "iris", **more: Any) -> None:
    book.note(403, "no", **{"actor": "ann", "verb": "predict", "kind": "Model", "name": name, **more})


def files(folder: Path) -> list[Path]:
    return sorted((folder / "refusals").iterdir())


def written(folder: Path) -> list[Refusal]:
    return [refusal_lines.parse_line(line) for file in files(folder) for line in file.read_bytes().splitlines()]


def test_the_first_is_written_at_once_and_its_like_counted_later(
    book: RefusalLog, clock: Clock, tmp_path: Path
) -> None:
    for number in range(10):
        note(book, path=f"/{number}")
    note(book, "rose")
    assert [(one.name, one.count) for one in written(tmp_path)] == [("iris", 1), ("rose", 1)]
    clock.pass_(WINDOW)
    assert [(one.name, one.count) for one in written(tmp_path)] == [("iris", 1), ("rose", 1), ("iris", 9)]
    note(book)
    clock.pass_(WINDOW)
    assert [(one.name, one.count, one.time) for one in written(tmp_path)[3:]] == [("iris", 1, 1001.0)]
    clock.pass_(WINDOW)
    assert len(written(tmp_path)) == 4


def test_what_is_only_counted_is_written_at_the_end(book: RefusalLog, tmp_path: Path) -> None:
    for _ in range(5):
        note(book)
    book.close()
    assert sum(one.count for one in written(tmp_path)) == 5


def test_many_different_ones_become_one(tmp_path: Path, clock: Clock) -> None:
    book = RefusalLog(tmp_path / "refusals", "gateway-0", wall=clock, call_later=clock.call_later)
    for number in range(5 * MAX_DISTINCT):
        note(book, f"name-{number}")
    clock.pass_(WINDOW)
    found = written(tmp_path)
    assert sum(one.count for one in found) == 5 * MAX_DISTINCT
    assert len(found) <= MAX_DISTINCT + 2
    book.close()


def test_refusals_of_strangers_are_counted_whatever_they_name(book: RefusalLog, clock: Clock, tmp_path: Path) -> None:
    for number in range(1000):
        reason = f"to predict Model/n{number} in namespace default {NEEDS_TOKEN}"
        book.note(401, reason, actor="anonymous", verb="predict", kind="Model", name=f"n{number}", path=f"/{number}")
    clock.pass_(WINDOW)
    first, others = written(tmp_path)
    assert (first.name, first.path, first.count) == ("n0", "/0", 1)
    assert (others.name, others.path, others.reason, others.count) == ("", "", NEEDS_TOKEN, 999)


def test_texts_are_cut(book: RefusalLog, tmp_path: Path) -> None:
    note(book, "n" * 100_000, path="p" * 100_000, method="m" * 100_000, namespace="s" * 100_000)
    assert files(tmp_path)[0].stat().st_size < 4096


def test_a_full_file_is_left_and_another_begun(book: RefusalLog, tmp_path: Path) -> None:
    for number in range(100):
        note(book, f"name-{number}")
    assert len(files(tmp_path)) > 1
    assert all(file.stat().st_size <= 4096 for file in files(tmp_path))
    assert [one.name for one in written(tmp_path)] == [f"name-{number}" for number in range(100)]
    held = []
    for file in files(tmp_path):
        with file.open("rb") as opened:
            try:
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                held.append(file)
    assert held == files(tmp_path)[-1:], "the lock tells which one is being written"


def test_what_finds_no_room_is_counted_and_told_when_there_is(book: RefusalLog, clock: Clock, tmp_path: Path) -> None:
    total = 0
    while len(files(tmp_path)) < MAX_FILES if total else True:
        note(book, f"name-{total}")
        clock.pass_(WINDOW)
        total += 1
    for number in range(500):
        note(book, f"more-{number}")
        clock.pass_(WINDOW)
    total += 500
    assert len(files(tmp_path)) == MAX_FILES
    kept = sum(one.count for one in written(tmp_path))
    assert kept < total
    for file in files(tmp_path)[:8]:
        file.unlink()
    before = sum(one.count for one in written(tmp_path))
    note(book)
    assert sum(one.count for one in written(tmp_path)) == before + (total - kept) + 1
    assert any(one.count == total - kept for one in written(tmp_path))


def test_a_folder_that_cannot_be_written_fails_no_refusal(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / "refusals").write_text("in the way")
    book = RefusalLog(tmp_path / "refusals", "gateway-0", wall=clock, call_later=clock.call_later)
    for _ in range(3):
        note(book)
        clock.pass_(WINDOW)
    os.unlink(tmp_path / "refusals")
    note(book)
    assert [(one.name, one.count) for one in written(tmp_path)] == [("", 3), ("iris", 1)]
    book.close()
