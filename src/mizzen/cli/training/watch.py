"""Progress of a job set that the user waits for: redrawn on a terminal, otherwise printed line by line."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from mizzen import errors
from mizzen.cli import output
from mizzen.cli.plane.status_line import format_duration
from mizzen.cli.training import views
from mizzen.sdk.operations.train import LOG_ENDS

if TYPE_CHECKING:
    from rich.console import RenderableType

    from mizzen.sdk.api.jobs import JobRef
    from mizzen.sdk.client import AsyncPlane

_INTERVAL: Final = 5.0
"""Seconds between lines if only the step changed."""
_LINES: Final = 6
"""Log lines below the bar."""
_MAX_POINTS: Final = 200
_LOG_WAIT: Final = 30.0
"""Seconds to wait for the rest of the log."""
_NAME: Final = 18
_START_WAIT: Final = 2.0
"""Seconds that --no-wait gives a job to start, or to report what it waits for."""

Job = Mapping[str, Any]
T = TypeVar("T")


class ProgressDisplay:
    """Progress of a job as observed so far."""

    def __init__(self) -> None:
        self.job: Job | None = None
        self.lines: deque[str] = deque(maxlen=_LINES)
        self._history: dict[str, deque[float]] = {}
        self._step: Any = None
        self._reported = ("", "")
        """State and steps of the last line."""
        self._reported_at = -_INTERVAL
        self._began = time.monotonic()

    def update(self, job: Job) -> None:
        """Take in the current state. For sparklines, each step counts once."""
        self.job = job
        progress = job.get("progress") or {}
        if progress.get("step") == self._step and self._history:
            return
        self._step = progress.get("step")
        for name, value in list((progress.get("metrics") or {}).items())[: views.MOST_METRICS]:
            if value is not None:
                self._history.setdefault(name, deque(maxlen=_MAX_POINTS)).append(value)

    def add_log(self, text: str) -> None:
        self.lines.extend(line for line in text.splitlines() if line.strip())

    def next_line(self, now: float) -> str:
        """A line if there is news: a new state at once, a new step only every few seconds."""
        if self.job is None:
            return ""
        line, state = views.format_line(self.job), str(self.job["state"])
        if state == "Failed":  # the command reports the failure as an error
            return ""
        if state == self._reported[0] and (
            now - self._reported_at < _INTERVAL or views.format_steps(self.job) == self._reported[1]
        ):
            return ""
        self._reported, self._reported_at = (state, views.format_steps(self.job)), now
        return line

    def render(self, width: int) -> list[str]:
        """The lines to draw."""
        if self.job is None:
            return [f"waiting for the plane … {format_duration(time.monotonic() - self._began)}"]
        job, progress = self.job, self.job.get("progress") or {}
        drawn = [views.format_headline(job)]
        if progress.get("step") is not None and progress.get("total"):
            fraction = progress["step"] / progress["total"]
            drawn.append(f"  {views.render_bar(fraction, max(10, min(60, width - 30)))} {views.format_steps(job)}")
        for name, values in self._history.items():
            shown = views.format_number((progress.get("metrics") or {}).get(name, values[-1]))
            title, course = views.to_plain(name, _NAME), views.render_sparkline(list(values))
            drawn.append(f"  {title:<{_NAME}} {shown:>10}  {course}".rstrip())
        message = str(progress.get("message") or (job.get("message") if job["state"] != "Running" else "") or "")
        drawn += [f"  {views.to_plain(line)}" for line in message.splitlines()[:2]]
        drawn += [f"  │ {line}" for line in self.lines]
        return [output.escape_controls(line)[:width] for line in drawn]


async def wait(plane: AsyncPlane, job: JobRef, *, follow: bool | None, tell: Callable[[str], None]) -> dict[str, Any]:
    """Wait for the job set and return it once it has succeeded. Raises TrainingFailed.

    `follow`: pass the log to `tell` as it arrives. False: show nothing. None: show progress.
    """
    watching = ProgressDisplay()
    if follow:
        try:
            return await _run_alongside(plane.wait_job(job), _read_log(plane, job, tell), patience=_LOG_WAIT)
        except errors.TrainingFailed as failed:  # the end of the log has just been shown
            raise errors.TrainingFailed(failed.message.partition(LOG_ENDS)[0], hint=failed.hint) from failed
    if follow is False:
        return await plane.wait_job(job)
    if not sys.stderr.isatty():
        return await plane.wait_job(job, look=lambda now: _note_progress(watching, now))
    with _live_screen(watching):
        return await _run_alongside(plane.wait_job(job, look=watching.update), _read_log(plane, job, watching.add_log))


async def wait_started(plane: AsyncPlane, ref: JobRef, job: dict[str, Any]) -> dict[str, Any]:
    """The job set once it runs, has ended, or waits for something; at the latest after a short while."""
    until = time.monotonic() + _START_WAIT
    while time.monotonic() < until and _is_starting(job):
        await asyncio.sleep(_START_WAIT / 20)
        with contextlib.suppress(errors.MizzenError):  # the job is started; this check is optional
            job = await plane.job(ref)
    return job


def describe_obstacle(job: Job) -> str:
    """What the job waits for, or why it has already failed; empty if neither."""
    if job["state"] not in ("Queued", "Failed") or job.get("reason") in ("", "Starting"):
        return ""
    word = "it waits" if job["state"] == "Queued" else "it failed"
    why = views.to_plain(job.get("message") or "")
    return f"{word}: {views.to_plain(job['reason'])}" + (f": {why}" if why else "")


def _is_starting(job: Job) -> bool:
    return job["state"] == "Created" or (job["state"] == "Queued" and job.get("reason") in ("", "Starting"))


async def _run_alongside(main: Coroutine[Any, Any, T], side: Coroutine[Any, Any, None], *, patience: float = 0.0) -> T:
    """Run `side` alongside `main`; return or raise what `main` does, once `side` had `patience` seconds to finish."""
    task = asyncio.create_task(side)
    try:
        try:
            result = await main
        except errors.MizzenError:
            await _await_rest(task, patience)
            raise
        await _await_rest(task, patience)
        return result
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, errors.MizzenError):
            await task


async def _await_rest(task: asyncio.Task[None], patience: float) -> None:
    if patience:
        with contextlib.suppress(TimeoutError, errors.MizzenError):  # the job's result matters more
            await asyncio.wait_for(task, patience)


async def _read_log(plane: AsyncPlane, job: JobRef, tell: Callable[[str], None]) -> None:
    async for piece in plane.job_logs(job, follow=True):
        tell(piece)


def _note_progress(watching: ProgressDisplay, now: Job) -> None:
    watching.update(now)
    if news := watching.next_line(time.monotonic()):
        output.note(f"… {news}")


@contextlib.contextmanager
def _live_screen(watching: ProgressDisplay) -> Iterator[None]:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(stderr=True)

    def screen() -> RenderableType:
        return Text("\n".join(watching.render(console.width)), no_wrap=True, overflow="crop")

    with Live(get_renderable=screen, console=console, refresh_per_second=8, transient=True):
        yield
