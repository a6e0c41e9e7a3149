"""What was measured, and its medians: what tables and figures are made of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median

from bench.report import Window

MIZZEN = "mizzen"


@dataclass(frozen=True, slots=True)
class Sample:
    case: str
    window: Window


@dataclass(frozen=True, slots=True)
class Start:
    """Until the right answer, and the memory of all processes then."""

    case: str
    contestant: str
    seconds: float
    cpu_seconds: float
    rss_mb: float
    pss_mb: float


@dataclass(frozen=True, slots=True)
class Failure:
    case: str
    contestant: str
    reason: str


@dataclass(frozen=True, slots=True)
class Result:
    """One server in one configuration under one load: medians over rounds."""

    contestant: str
    cpu_us: float
    lowest_us: float
    highest_us: float
    per_second: float
    p50_ms: float
    p99_ms: float
    errors: int

    @property
    def peer(self) -> str:
        """The server without its configuration: `ray haproxy, batching` is `ray`."""
        return self.contestant.split(",")[0].split(" ")[0]


Load = tuple[str, int]
"""Case and connections."""


@dataclass(frozen=True, slots=True)
class Results:
    by_load: dict[Load, dict[str, Result]]
    """By the contestant's name, cheapest first."""
    silent: dict[Load, dict[str, int]] = field(default_factory=dict)
    """Who answered too little in every window to have a figure, and how many errors there were."""

    def at(self, case: str, connections: int, contestant: str = MIZZEN) -> Result | None:
        return self.by_load.get((case, connections), {}).get(contestant)

    def best(self, case: str, connections: int, leave_out: Iterable[str] = ()) -> Result | None:
        """The cheapest of the other servers, whatever its configuration."""
        others = self.by_load.get((case, connections), {}).values()
        return next((one for one in others if one.peer not in {MIZZEN, *leave_out}), None)

    def best_of(self, peer: str, case: str, connections: int) -> Result | None:
        """Its cheapest configuration."""
        return next((one for one in self.by_load.get((case, connections), {}).values() if one.peer == peer), None)


def medians(samples: Iterable[Sample]) -> Results:
    """Windows with too few answers are left out.

    A refusal is cheap and quick, so only answers count, for everyone: else who refuses most would look best.
    """
    groups: dict[Load, dict[str, list[Window]]] = {}
    silent: dict[Load, dict[str, int]] = {}
    for sample in samples:
        load, name = (sample.case, sample.window.connections), sample.window.contestant
        if _answers(sample.window) >= max(3 * sample.window.connections, 1):
            groups.setdefault(load, {}).setdefault(name, []).append(sample.window)
        else:
            errors = silent.setdefault(load, {})
            errors[name] = errors.get(name, 0) + sample.window.errors
    for load, group in groups.items():
        silent[load] = {name: errors for name, errors in silent.get(load, {}).items() if name not in group}
    return Results({load: _sorted(map(_result, group.values())) for load, group in groups.items()}, silent)


def _sorted(found: Iterable[Result]) -> dict[str, Result]:
    return {one.contestant: one for one in sorted(found, key=lambda one: one.cpu_us)}


def _answers(window: Window) -> int:
    """Without what was refused or failed."""
    return max(window.requests - window.errors, 0)


def _result(windows: list[Window]) -> Result:
    costs = [window.cpu_us * window.requests / _answers(window) for window in windows]
    return Result(
        contestant=windows[0].contestant,
        cpu_us=median(costs),
        lowest_us=min(costs),
        highest_us=max(costs),
        per_second=median(window.per_second * _answers(window) / window.requests for window in windows),
        p50_ms=median(window.p50_ms for window in windows),
        p99_ms=median(window.p99_ms for window in windows),
        errors=sum(window.errors for window in windows),
    )
