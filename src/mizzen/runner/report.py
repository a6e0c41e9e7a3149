"""What a runner tells the engine: its report, replaced now and then, and the exit record.

A disk that is full keeps neither: some room is reserved at the start, and given up for the record.
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
"""Seconds that the exit record is tried for: nobody knows how the attempt ended before it is there."""


class StatusReporter:
    def __init__(self, place: ReplicaPlace, attempt: int) -> None:
        self._place = place
        self._report = Report(attempt, "fetching")
        self._written: Report | None = None
        self._at = 0.0
        self._reserve = place.folder / ".reserve"

    def reserve(self) -> None:
        """OSError."""
        handle = os.open(self._reserve, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.pwrite(handle, b"\0" * _RESERVED, 0)
        finally:
            os.close(handle)

    def tell(self, phase: Phase, message: str = "", checkpoints: int = 0) -> None:
        """At once when the phase changes, else not too often. What cannot be written now is so later."""
        self._report = replace(self._report, phase=phase, message=message, checkpoints=checkpoints)
        now = time.monotonic()
        new_phase = self._written is None or self._written.phase != phase
        if self._report != self._written and (new_phase or now - self._at >= _EVERY):
            self._at = now
            with suppress(OSError):
                records.write(self._place.report, self._report.to_json())
                self._written = self._report

    def began(self, pid: int, started: float) -> None:
        self._report = replace(self._report, pid=pid, started=started)
        self.tell("running")

    def went_on(self, started: float | None) -> None:
        """Of a command that was started by a runner before this one."""
        self._report = replace(self._report, started=started)

    def end(self, exit_: Exit) -> None:
        """Durable when this returns. OSError, when it cannot be however long it is tried."""
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
