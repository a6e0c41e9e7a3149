"""What an examination reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from mizzen.supervisor.data_dir import Home


@dataclass(frozen=True, slots=True)
class Defect:
    check: str
    """The part that was examined, such as store or keys."""
    what: str
    where: str
    next: str
    """What to do about it."""
    repaired: str = ""
    """How it was repaired; empty: it was not."""


class ExaminationProgress(Protocol):
    def step(self, what: str, total: int) -> None:
        """Starts a step; `total` is its number of bytes."""

    def more(self, done: int) -> None: ...


@dataclass(frozen=True, slots=True)
class Patient:
    """The data dir to examine."""

    home: Home
    running: bool
    """A supervisor runs, and with it the plane."""
    repair: bool
    progress: ExaminationProgress

    @property
    def root(self) -> Path:
        return self.home.data_dir

    def mend(self, defect: Defect, repair: Callable[[], str]) -> Defect:
        """Repairs it if that is wanted. `repair` returns what it did. Raises nothing that it may raise for the disk."""
        if not self.repair:
            return defect
        try:
            done = repair()
        except OSError as error:
            return Defect(defect.check, f"{defect.what}; the repair failed: {error}", defect.where, defect.next)
        return Defect(defect.check, defect.what, defect.where, defect.next, done)
