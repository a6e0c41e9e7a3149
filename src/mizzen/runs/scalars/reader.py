"""All scalars of a model: finding its files, reading them incrementally, and joining their series.

    events/<namespace>/<model>/<version>/<job>[/<replica>][/<folders of the code>]/<file>

Folders that the code created, such as Keras' `train` and `validation`, become part of the tags. So they are also
compared across versions and jobs.
"""

from __future__ import annotations

import os
import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from mizzen.runs.paths import METRICS_FILE, UNVERSIONED, JobPlace, events_of_model
from mizzen.runs.scalars.curve import Curve, Point, thin_out
from mizzen.runs.scalars.growing_file import SOURCES, GrowingFile, Source

BUDGET = 4 << 20
"""Bytes that are read for one response; the next one continues."""
MOST_FILES = 5000
"""Maximum number of files of one model."""
MOST_POINTS = 2_000_000
"""Maximum number of points in memory, over all files: 24 bytes each."""
MOST_SERIES = 500
"""Maximum number of series in one response: those of the jobs with the latest data."""
MOST_WORDS = 20
DEEPEST = 6
"""Maximum depth of folders within that of a job."""

_REPLICA = re.compile(r"(?:chief|master|worker|ps|evaluator)-\d{1,5}")
_WRITTEN_AT = re.compile(r"tfevents\.(\d{1,12})")


@dataclass(frozen=True, slots=True)
class MonitoredJob:
    """A job whose progress reports are read, too."""

    name: str
    uid: str
    version: str


@dataclass(frozen=True, slots=True, order=True)
class Run:
    """The version and job that scalars belong to."""

    version: str
    job: str
    replica: str = ""


@dataclass(frozen=True, slots=True)
class Series:
    run: Run
    tag: str
    source: Source
    points: Sequence[Point]


@dataclass(frozen=True, slots=True)
class Read:
    tags: tuple[str, ...] = ()
    """All tags that exist, not only the requested ones."""
    series: tuple[Series, ...] = ()
    left_out: int = 0
    """The number of series left out beyond the maximum."""
    behind: bool = False
    """There is more to read: ask again."""
    words: tuple[str, ...] = ()
    """Problems, with their files."""


@dataclass(frozen=True, slots=True)
class ScalarQuery:
    """Empty: all."""

    tag: str = ""
    version: str = ""
    job: str = ""
    points: int = 500
    """Maximum number of points of each series."""

    def covers(self, run: Run) -> bool:
        return self.version in ("", run.version) and self.job in ("", run.job)


@dataclass(frozen=True, slots=True)
class _MetricFile:
    path: Path
    source: Source
    run: Run
    prefix: str = ""
    """The prefix of its tags."""


@dataclass(slots=True)
class Scalars:
    """Caches what it read. Blocking; callable from several threads."""

    data_dir: Path
    _files: OrderedDict[Path, GrowingFile] = field(default_factory=OrderedDict)
    """Least recently used first."""
    _lock: Lock = field(default_factory=Lock)

    def read(self, namespace: str, model: str, wanted: ScalarQuery, jobs: Iterable[MonitoredJob] = ()) -> Read:
        folder = events_of_model(self.data_dir, namespace, model)
        files = (*_find_files(folder), *self._find_reports(jobs))
        found = [each for each in files if wanted.covers(each.run)][:MOST_FILES]
        with self._lock:
            grown, behind = self._read_growth(found)
            words = [f"{each.path.name} of {_run_name(each.run)} {grown[each.path].word}" for each in found
                     if grown[each.path].word]  # fmt: skip
            tags, series = _join_series(found, grown, wanted)
            self._forget()
        chosen = _choose_series(series)
        return Read(tags, chosen, len(series) - len(chosen), behind, tuple(words[:MOST_WORDS]))

    def _read_growth(self, found: Sequence[_MetricFile]) -> tuple[Mapping[Path, GrowingFile], bool]:
        left, behind = BUDGET, False
        grown = {}
        for each in found:
            file = self._files.setdefault(each.path, GrowingFile(each.path, each.source, self.data_dir))
            self._files.move_to_end(each.path)
            if left > 0:
                left -= file.read(left)
            behind = behind or (left <= 0 and file.behind())
            grown[each.path] = file
        return grown, behind

    def _forget(self) -> None:
        kept = sum(file.points for file in self._files.values())
        while kept > MOST_POINTS or len(self._files) > 2 * MOST_FILES:
            _, file = self._files.popitem(last=False)
            kept -= file.points

    def _find_reports(self, jobs: Iterable[MonitoredJob]) -> Iterator[_MetricFile]:
        for job in jobs:
            places = JobPlace(self.data_dir, job.uid).replicas()
            for place in places:
                replica = place.name if len(places) > 1 else ""
                if place.past_progress.exists():
                    yield _MetricFile(
                        place.past_progress, "progress", Run(job.version or UNVERSIONED, job.name, replica)
                    )


def version_order(version: str) -> tuple[bool, int, str]:
    """Sort key: numbers first, in their order."""
    number = version if version.isascii() and version.isdecimal() and len(version) <= 18 else ""
    return not number, int(number or 0), version


def _find_files(folder: Path) -> Iterator[_MetricFile]:
    """Yield metric files in their order within a run."""
    for version in _list_folder(folder)[1]:
        for job in _list_folder(version)[1]:
            yield from _find_job_files(job, Run(version.name, job.name))


def _find_job_files(folder: Path, run: Run) -> Iterator[_MetricFile]:
    waiting: list[tuple[Path, Run, tuple[str, ...]]] = [(folder, run, ())]
    while waiting:
        place, run_of_place, within = waiting.pop()
        files, folders = _list_folder(place)
        prefix = "/".join((*within, ""))
        yield from (_MetricFile(path, source, run_of_place, prefix) for path, source in _list_sources(files))
        for inner in folders:
            if not within and run_of_place is run and _REPLICA.fullmatch(inner.name):
                waiting.append((inner, Run(run.version, run.job, inner.name), ()))
            elif len(within) < DEEPEST:
                waiting.append((inner, run_of_place, (*within, inner.name)))


def _list_sources(files: Iterable[Path]) -> Iterator[tuple[Path, Source]]:
    def sort_key(file: Path) -> tuple[int, str]:
        match = _WRITTEN_AT.search(file.name)
        return int(match[1]) if match else 0, file.name

    listed = list(files)
    for file in sorted((file for file in listed if "tfevents" in file.name), key=sort_key):
        yield file, "events"
    names: dict[str, Source] = {METRICS_FILE: "metrics.jsonl", "metrics.csv": "metrics.csv"}
    yield from ((file, names[file.name]) for file in listed if file.name in names)


def _list_folder(folder: Path) -> tuple[list[Path], list[Path]]:
    """Return files and folders, by name. Links are neither."""
    files, folders = [], []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(Path(entry.path))
                elif entry.is_file(follow_symlinks=False):
                    files.append(Path(entry.path))
                if len(files) + len(folders) >= MOST_FILES:
                    break
    except OSError:
        return [], []
    return sorted(files), sorted(folders)


def _join_series(
    found: Sequence[_MetricFile], grown: Mapping[Path, GrowingFile], wanted: ScalarQuery
) -> tuple[tuple[str, ...], list[Series]]:
    """Concatenate the files of one run and source; of two sources of one tag the better one is used."""
    curves: dict[tuple[Run, str], dict[Source, list[Curve]]] = {}
    for each in found:
        for tag, curve in grown[each.path].curves.items():
            curves.setdefault((each.run, f"{each.prefix}{tag}"), {}).setdefault(each.source, []).append(curve)
    series = []
    for (run, tag), sources in curves.items():
        if wanted.tag in ("", tag):
            source = next(source for source in SOURCES if source in sources)
            series.append(Series(run, tag, source, thin_out(_concatenate(sources[source]), wanted.points)))
    return tuple(sorted({tag for _, tag in curves})), series


def _concatenate(curves: Sequence[Curve]) -> list[Point]:
    if len(curves) == 1:
        return list(curves[0])
    whole = Curve()
    for curve in curves:
        whole.extend(curve)
    return list(whole)


def _choose_series(series: Sequence[Series]) -> tuple[Series, ...]:
    def last_time(each: Series) -> float:
        return each.points[-1][2] if each.points else 0.0

    newest = sorted(series, key=last_time, reverse=True)[:MOST_SERIES]
    return tuple(sorted(newest, key=lambda each: (version_order(each.run.version), each.run, each.tag)))


def _run_name(run: Run) -> str:
    return "/".join(part for part in (run.version, run.job, run.replica) if part)
