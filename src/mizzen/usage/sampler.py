"""Looks every two seconds at what gateways have counted and what processes use, and keeps what can be told of it."""

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
from mizzen.usage.inventory import Key, Known
from mizzen.usage.rates import Figures, Growth, Moment, Process, figures, growth, total

WINDOW = 5
"""Looks that `now` speaks of: ten seconds."""

log = logging.getLogger(__name__)


class Seen(Protocol):
    """`processes.Processes` is one."""

    def seen(self) -> Mapping[str, Process]: ...

    def restarts(self) -> Mapping[str, int]: ...


@dataclass(frozen=True, slots=True)
class Now:
    """The last look, and what happened in the seconds before it."""

    moment: Moment
    grown: Growth
    served: Mapping[Key, Figures]
    restarts: Mapping[str, int]


class Usage(Protocol):
    """What can be told, whoever has seen it."""

    @property
    def history(self) -> History: ...

    def now(self) -> Now: ...


class Unseen:
    """Where nobody looks."""

    def __init__(self) -> None:
        self.history = History()

    def now(self) -> Now:
        return Now(Moment(0.0), Growth(), {}, {})


class Sampler:
    def __init__(
        self, folder: Path, processes: Seen, known: Callable[[], Known], *, clock: Callable[[], float]
    ) -> None:
        """`folder`: where gateways leave their counts. `clock`: theirs, seconds since 1970."""
        self.history = History()
        self._folder = folder
        self._processes = processes
        self._known = known
        self._clock = clock
        self._stamps: status_files.Stamps = {}
        self._read: list[Counts] = []
        self._last: Moment | None = None
        self._growths: deque[Growth] = deque(maxlen=WINDOW)
        self._coarse: list[Growth] = []
        self._coarse_at = clock()

    async def run(self) -> NoReturn:
        """Until cancelled. A look that fails is told once for all its like; the next one comes in any case."""
        failed = ""
        while True:
            try:
                self.sample()
                failed = ""
            except Exception as error:  # whatever it met, who asks for models must not suffer from who counts them
                if repr(error) != failed:
                    log.exception("what is used cannot be seen")
                failed = repr(error)
            await asyncio.sleep(FINE_SECONDS)

    def sample(self) -> None:
        now = self._look()
        last, self._last = self._last, now
        if last is None:
            return
        if now.at <= last.at:  # the clock was put back
            self._growths.clear()
            self._coarse.clear()
            self._coarse_at = now.at
            return
        grown = growth(last, now)
        self._growths.append(grown)
        self._coarse.append(grown)
        self.history.add(now.at, figures(grown, now))
        if now.at - self._coarse_at >= COARSE_SECONDS - FINE_SECONDS / 2:
            self.history.add_coarse(now.at, figures(total(self._coarse), now))
            self._coarse.clear()
            self._coarse_at = now.at

    def now(self) -> Now:
        """Of the last looks; the gauges as they are at this moment."""
        moment = self._look()
        grown = total(self._growths)
        return Now(moment, grown, figures(grown, moment), self._processes.restarts())

    def _look(self) -> Moment:
        processes = self._processes.seen()
        found: dict[str, Counts] = {}
        for each in self._counted():
            # One whose process is gone has left its file until its successor replaces it.
            process = processes.get(each.gateway)
            if process is not None and process.pid == each.pid:
                found[each.gateway] = each
        return Moment(self._clock(), found, processes, self._known())

    def _counted(self) -> Iterable[Counts]:
        """Read only when a file is another one: most of the time most gateways have nothing to tell."""
        stamps = status_files.stamps(self._folder)
        if stamps != self._stamps:
            self._stamps, self._read = stamps, counts.read(self._folder)
        return self._read
