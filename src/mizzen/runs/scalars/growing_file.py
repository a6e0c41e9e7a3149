"""Incremental reading of one growing file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from mizzen.runs import safe_read
from mizzen.runs.scalars import metric_files, tfevents
from mizzen.runs.scalars.curve import Curve
from mizzen.runs.scalars.tfevents import Damaged, Scalar

Source = Literal["events", "metrics.jsonl", "metrics.csv", "progress"]
SOURCES: tuple[Source, ...] = ("events", "metrics.jsonl", "metrics.csv", "progress")
"""Best first: if two sources have the same scalar of the same run, the first is shown."""

CHUNK = 2 << 20
"""Bytes of one read: a record that is parsed fits."""
HEAD = 256
"""Bytes at the beginning that identify the file."""
MOST_TAGS = 500
"""Maximum number of tags in one file."""
LONGEST_TAG = 200


@dataclass(slots=True)
class GrowingFile:
    path: Path
    source: Source
    root: Path
    """A folder above it; users' code may write to what is between them."""
    curves: dict[str, Curve] = field(default_factory=dict)
    word: str = ""
    """The problem with the file, if any."""
    modified: float = 0.0
    _offset: int = 0
    _head: bytes = b""
    _columns: tuple[str, ...] = ()
    _in_long_line: bool = False

    @property
    def points(self) -> int:
        return sum(map(len, self.curves.values()))

    def read(self, budget: int) -> int:
        """Read at most `budget` more bytes; return how many were read. Never raises because of the file's content."""
        try:
            file = safe_read.open_beneath(self.root, str(self.path.relative_to(self.root)))
        except safe_read.NoFile:
            self.word = "is not a regular file"
            return 0
        except OSError as error:
            self.word = f"cannot be opened: {error.strerror}"
            return 0
        with file:
            handle = file.fileno()
            found = os.fstat(handle)
            self.modified = found.st_mtime
            self._reset_if_replaced(file.read(HEAD), found.st_size)
            return self._read_on(handle, found.st_size, budget)

    def behind(self) -> bool:
        """Return whether there is more to read."""
        try:
            return not self.word and self.path.stat(follow_symlinks=False).st_size > self._offset
        except OSError:
            return False

    def _reset_if_replaced(self, head: bytes, size: int) -> None:
        if size < self._offset or not head.startswith(self._head):
            self.curves, self.word, self._offset, self._columns, self._in_long_line = {}, "", 0, (), False
        self._head = head

    def _read_on(self, handle: int, size: int, budget: int) -> int:
        spent = 0
        while not self.word and self._offset < size and spent < budget:
            data = os.pread(handle, CHUNK, self._offset)
            if not data:
                break
            used = self._read_events(data) if self.source == "events" else self._read_lines(data)
            if not used:
                break  # the last record or line is not complete yet
            self._offset += used
            spent += len(data)
        return spent

    def _read_events(self, data: bytes) -> int:
        try:
            scalars, used = tfevents.read(data)
        except Damaged as error:
            self.word = f"is damaged from byte {self._offset} on: {error.args[0]}"
            scalars, used = error.args[1], 0
        self._keep(scalars)
        return used

    def _read_lines(self, data: bytes) -> int:
        end = data.rfind(b"\n") + 1
        if not end:
            # A line longer than one read is not a metric.
            self._in_long_line = len(data) == CHUNK or self._in_long_line
            return len(data) if self._in_long_line else 0
        begin = data.find(b"\n") + 1 if self._in_long_line else 0
        self._in_long_line = False
        self._keep(self._scalars_of(data[begin:end].splitlines()))
        return end

    def _scalars_of(self, whole: Iterable[bytes]) -> Iterator[Scalar]:
        for line in whole:
            if self.source != "metrics.csv":
                yield from metric_files.of_json(line)
            elif self._columns:
                yield from metric_files.of_csv(self._columns, line)
            else:
                self._columns = metric_files.header(line)
                if not self._columns:
                    self.word = f"has none of the columns {', '.join(metric_files.STEPS)}"
                    return

    def _keep(self, scalars: Iterable[Scalar]) -> None:
        for scalar in scalars:
            curve = self.curves.get(scalar.tag)
            if curve is None:
                if len(self.curves) >= MOST_TAGS or not _is_valid(scalar.tag):
                    continue
                curve = self.curves[scalar.tag] = Curve()
            curve.add(scalar.step, scalar.value, scalar.time)


def _is_valid(tag: str) -> bool:
    return 0 < len(tag) <= LONGEST_TAG and tag.isprintable()
