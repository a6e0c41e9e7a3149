"""The sampler: every two seconds it reads the counts of gateways and the usage of processes, and keeps a history."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, Protocol

from mizzen.protocol.gateway_files import counts, status_files
from mizzen.protocol.gateway_files.counts import Counts
from mizzen.usage.history import COARSE_SECONDS, FINE_SECONDS, History
from mizzen.usage.inventory import Inventory, Key
from mizzen.usage.rates import Figures, Growth, ProcessUsage, UsageSample, compute_figures, compute_growth, sum_growths

WINDOW = 5
"""Samples that `now` covers: ten seconds."""

log = logging.getLogger(__name__)


class ProcessSource(Protocol):
    """A source of process usage, such as `processes.Processes`."""

    def read_usage(self) -> Mapping[str, ProcessUsage]: ...

    def restarts(self) -> Mapping[str, int]: ...


@dataclass(frozen=True, slots=True)
class UsageSnapshot:
    """The current sample, and the growth in the seconds before it."""

    sample: UsageSample
    grown: Growth
    served: Mapping[Key, Figures]
    restarts: Mapping[str, int]


class Usage(Protocol):
    """The usage data that the control API reads."""

    @property
    def history(self) -> History: ...

    def now(self) -> UsageSnapshot: ...


class NoUsage:
    """Usage without a sampler: always empty."""

    def __init__(self) -> None:
        self.history = History()

    def now(self) -> UsageSnapshot:
        return UsageSnapshot(UsageSample(0.0), Growth(), {}, {})


class Sampler:
    def __init__(
        self, folder: Path, processes: ProcessSource, inventory: Callable[[], Inventory], *, clock: Callable[[], float]
    ) -> None:
        """`folder`: where gateways write their counts. `clock`: the same as theirs, seconds since 1970."""
        self.history = History()
        self._folder = folder
        self._processes = processes
        self._inventory = inventory
        self._clock = clock
        self._stamps: status_files.Stamps = {}
        self._read: list[Counts] = []
        self._last: UsageSample | None = None
        self._growths: deque[Growth] = deque(maxlen=WINDOW)
        self._coarse: list[Growth] = []
        self._coarse_at = clock()

    async def run(self) -> NoReturn:
        """Until cancelled. Repeated equal failures are logged once; sampling continues in any case."""
        failed = ""
        while True:
            try:
                self.sample()
                failed = ""
            except Exception as error:  # a failure of the sampler must not affect the plane
                if repr(error) != failed:
                    log.exception("usage cannot be sampled")
                failed = repr(error)
            await asyncio.sleep(FINE_SECONDS)

    def sample(self) -> None:
        now = self._take_sample()
        last, self._last = self._last, now
        if last is None:
            return
        if now.at <= last.at:  # the clock was set back
            self._growths.clear()
            self._coarse.clear()
            self._coarse_at = now.at
            return
        grown = compute_growth(last, now)
        self._growths.append(grown)
        self._coarse.append(grown)
        self.history.add(now.at, compute_figures(grown, now))
        if now.at - self._coarse_at >= COARSE_SECONDS - FINE_SECONDS / 2:
            self.history.add_coarse(now.at, compute_figures(sum_growths(self._coarse), now))
            self._coarse.clear()
            self._coarse_at = now.at

    def now(self) -> UsageSnapshot:
        """Rates over the last samples, and current gauges."""
        moment = self._take_sample()
        grown = sum_growths(self._growths)
        return UsageSnapshot(moment, grown, compute_figures(grown, moment), self._processes.restarts())

    def _take_sample(self) -> UsageSample:
        processes = self._processes.read_usage()
        found: dict[str, Counts] = {}
        for each in self._read_counts():
            # The file of an ended gateway stays until its successor replaces it.
            process = processes.get(each.gateway)
            if process is not None and process.pid == each.pid:
                found[each.gateway] = each
        return UsageSample(self._clock(), found, processes, self._inventory())

    def _read_counts(self) -> Iterable[Counts]:
        """Reads files only when one has changed: most of the time, most counts do not change."""
        stamps = status_files.read_stamps(self._folder)
        if stamps != self._stamps:
            self._stamps, self._read = stamps, counts.read(self._folder)
        return self._read
