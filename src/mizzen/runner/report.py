"""The runner's messages to the engine: its report, replaced from time to time, and the exit record.

A full disk prevents both: some space is reserved at the start, and released for the record.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import replace

from mizzen.runner.failures import is_full
from mizzen.runs import records
from mizzen.runs.paths import ReplicaPlace
from mizzen.runs.records import Exit, Phase, Report

_EVERY = 1.0
_RESERVED = 64 << 10
_PATIENCE = 60.0
"""Seconds for which writing the exit record is retried: without it, how the attempt ended is unknown."""


class StatusReporter:
    def __init__(self, place: ReplicaPlace, attempt: int) -> None:
        self._place = place
        self._report = Report(attempt, "fetching")
        self._written: Report | None = None
        self._at = 0.0
        self._reserve = place.folder / ".reserve"

    def reserve(self) -> None:
        """Reserve disk space for the exit record. Raises OSError."""
        handle = os.open(self._reserve, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.pwrite(handle, b"\0" * _RESERVED, 0)
        finally:
            os.close(handle)

    def report(self, phase: Phase, message: str = "", checkpoints: int = 0) -> None:
        """Write the report: at once if the phase changes, else not too often. A failed write is retried later."""
        self._report = replace(self._report, phase=phase, message=message, checkpoints=checkpoints)
        now = time.monotonic()
        new_phase = self._written is None or self._written.phase != phase
        if self._report != self._written and (new_phase or now - self._at >= _EVERY):
            self._at = now
            with suppress(OSError):
                records.write(self._place.report, self._report.to_json())
                self._written = self._report

    def record_start(self, pid: int, started: float) -> None:
        self._report = replace(self._report, pid=pid, started=started)
        self.report("running")

    def resume(self, started: float | None) -> None:
        """Set the start time of a command that an earlier runner started."""
        self._report = replace(self._report, started=started)

    def write_exit(self, exit_: Exit) -> None:
        """Write the exit record; it is durable when this returns. Raises OSError if all retries fail."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                records.write(self._place.exit(exit_.attempt), exit_.to_json())
            except OSError as error:
                self._reserve.unlink(missing_ok=True)
                if not is_full(error) or time.monotonic() > deadline:
                    raise
                exit_ = replace(exit_, message=exit_.message[-500:], last_lines=exit_.last_lines[-500:])
                time.sleep(0.2)
            else:
                self._reserve.unlink(missing_ok=True)
                return
