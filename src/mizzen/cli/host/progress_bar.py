"""The progress of commands that read or copy a whole data dir."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import rich.progress


class ProgressBar:
    """Progress bar on a terminal; silent elsewhere."""

    def __init__(self) -> None:
        self._bar: rich.progress.Progress | None = None

    def __enter__(self) -> ProgressBar:
        if sys.stderr is not None and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

            columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def step(self, what: str, total: int) -> None:
        if self._bar is not None:
            for task in self._bar.task_ids:
                self._bar.remove_task(task)
            self._bar.add_task(what, total=total)

    def more(self, done: int) -> None:
        if self._bar is not None:
            self._bar.advance(self._bar.task_ids[0], done)
