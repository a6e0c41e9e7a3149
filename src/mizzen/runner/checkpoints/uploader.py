"""Uploading a command's results while it runs: checkpoints as they are saved, its log in segments.

This runs in a separate thread, so that a slow or unreachable store delays nothing else. Failures are retried as long as
the command runs; the caller decides for how long after that.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from mizzen.runner.checkpoints.publish import Publisher
from mizzen.runner.failures import describe, is_full
from mizzen.runs import records
from mizzen.runs.log_segments import LogUploader
from mizzen.runs.paths import JobPlace, ReplicaPlace
from mizzen.runs.records import Task

_LONGEST_PAUSE = 15.0
_LOOK_AGAIN = 0.5


class Uploader(threading.Thread):
    def __init__(self, publisher: Publisher, log: Callable[[int], LogUploader], task: Task, job: JobPlace) -> None:
        """`log`: returns the uploader of an attempt's log."""
        super().__init__(name="uploader", daemon=True)
        self._publisher = publisher
        self._log_of = log
        self._log: LogUploader | None = None
        self._task = task
        self._job = job
        self._work = threading.Condition()
        self._renamed: list[str] = []
        self._size = 0
        self._look_for_sidecars = False
        self._finishing = False
        self._sweeping = False
        self.saved = False
        """All checkpoints are stored."""
        self.done = False
        """The logs are stored, too."""
        self.trouble: Exception | None = None
        """Why it makes no progress now."""
        self.ended: Callable[[], None] = lambda: None

    @property
    def message(self) -> str:
        """A message for users; empty if all is well."""
        if self.trouble is not None:
            return f"results cannot be stored yet; retrying: {describe(self.trouble)}"
        return "; ".join([*dict(self._publisher.notes).values()][:3])

    @property
    def published(self) -> int:
        return self._publisher.published

    @property
    def full(self) -> bool:
        return is_full(self.trouble)

    def on_rename(self, names: list[str]) -> None:
        with self._work:
            self._renamed += names
            self._work.notify()

    def look_for_sidecars(self) -> None:
        """Look for saved checkpoints where renames cannot be observed."""
        with self._work:
            self._look_for_sidecars = True
            self._work.notify()

    def set_log_size(self, size: int) -> None:
        """Set the log's current size in bytes."""
        with self._work:
            self._size = size
            if self._log is None or self._log.due(size):
                self._work.notify()

    def finish(self, *, sweep: bool) -> None:
        """Signal that no more output will come. `sweep`: the command succeeded, so entries written in place count."""
        with self._work:
            self._finishing, self._sweeping = True, sweep
            self._work.notify()

    def drop_logs(self) -> None:
        """Delete local log files that are stored. Call once it is done."""
        for attempt in (*self._list_earlier(), self._task.attempt):
            self._log_of(attempt).drop()

    def run(self) -> None:
        pause: float | None = None
        """Seconds until failed or unready work is tried again; None: all is done so far."""
        while not self.done:
            self._wait(pause)
            try:
                pause = _LOOK_AGAIN if self._do_work() else None
                self.trouble = None
            except Exception as error:  # noqa: BLE001 - reported and retried: not one entry's fault, see `Publisher`
                self.trouble = error
                pause = min(2 * (pause or 0.5), _LONGEST_PAUSE)
        self.ended()

    def _has_work(self) -> bool:
        due = self._size > 0 and (self._log is None or self._log.due(self._size))
        return bool(self._renamed) or self._look_for_sidecars or due or self._finishing

    def _wait(self, seconds: float | None) -> None:
        """Wait this long, unless the end begins meanwhile: a failed upload may work now. None: until there is work."""
        with self._work:
            was = self._finishing
            if seconds is None:
                self._work.wait_for(self._has_work)
            else:
                self._work.wait_for(lambda: self._finishing and not was, timeout=seconds)

    def _do_work(self) -> bool:
        """Do all pending work. True: something must be checked again soon."""
        with self._work:
            size, finishing, sidecars = self._size, self._finishing, self._look_for_sidecars
            names = list(self._renamed)
        if names:
            self._publisher.on_rename(names)
            with self._work:
                del self._renamed[: len(names)]
        if sidecars:
            self._publisher.record_sidecars()
            self._look_for_sidecars = False
        swept = True
        if finishing and self._sweeping:
            swept = self._publisher.sweep(alone=self._is_alone())
        published = self._publisher.publish()
        if finishing and swept and published:
            self._publisher.note_unusable()
            self.saved = True
        if self._log is None and (size or finishing):
            self._log = self._log_of(self._task.attempt)
        if self._log is not None and not finishing:
            self._log.advance(size)
        if self.saved:
            assert self._log is not None
            for attempt in self._list_earlier():
                self._log_of(attempt).finish()
            self._log.finish()
            self.done = True
            return False
        return not swept or not published

    def _is_alone(self) -> bool:
        """Return whether every other replica of the set has ended, as far as known."""

        def runs(place: ReplicaPlace) -> bool:
            task = records.read(place.task)
            return task is not None and not place.exit(task.get("attempt", 0)).exists()

        return not any(runs(place) for place in self._job.replicas() if place.name != self._task.replica)

    def _list_earlier(self) -> list[int]:
        """Return the attempts whose logs are still here: their runners were killed."""
        place = self._job.replica(self._task.replica)
        return [attempt for attempt in range(self._task.attempt) if place.log(attempt).exists()]
