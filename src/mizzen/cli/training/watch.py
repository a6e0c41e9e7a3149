"""A job set while somebody waits for it: drawn anew on a terminal, else told in lines."""

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
from mizzen.cli.plane.status_line import duration
from mizzen.cli.training import views
from mizzen.sdk.operations.train import LOG_ENDS

if TYPE_CHECKING:
    from rich.console import RenderableType

    from mizzen.sdk.api.jobs import JobRef
    from mizzen.sdk.client import AsyncPlane

_EVERY: Final = 5.0
"""Seconds between lines that only tell of one step more."""
_LINES: Final = 6
"""Of the log, below the bar."""
_POINTS: Final = 200
_REST: Final = 30.0
"""Seconds for the last of a log to come."""
_NAME: Final = 18
_LOOK: Final = 2.0
"""Seconds for a job that nobody waits for to show what it waits for."""

Job = Mapping[str, Any]
T = TypeVar("T")


class Watching:
    """What was seen of a job so far."""

    def __init__(self) -> None:
        self.job: Job | None = None
        self.lines: deque[str] = deque(maxlen=_LINES)
        self._history: dict[str, deque[float]] = {}
        self._step: Any = None
        self._told = ("", "")
        self._told_at = -_EVERY
        self._began = time.monotonic()

    def see(self, job: Job) -> None:
        """For sparklines, each step counts once."""
        self.job = job
        progress = job.get("progress") or {}
        if progress.get("step") == self._step and self._history:
            return
        self._step = progress.get("step")
        for name, value in list((progress.get("metrics") or {}).items())[: views.MOST_METRICS]:
            if value is not None:
                self._history.setdefault(name, deque(maxlen=_POINTS)).append(value)

    def heard(self, text: str) -> None:
        self.lines.extend(line for line in text.splitlines() if line.strip())

    def news(self, now: float) -> str:
        """A line when there is something to tell: another state at once, another step after a while."""
        if self.job is None:
            return ""
        line, state = views.line(self.job), str(self.job["state"])
        if state == "Failed":  # whoever waits is told so by an error
            return ""
        if state == self._told[0] and (now - self._told_at < _EVERY or views.steps(self.job) == self._told[1]):
            return ""
        self._told, self._told_at = (state, views.steps(self.job)), now
        return line

    def screen(self, width: int) -> list[str]:
        """What is drawn."""
        if self.job is None:
            return [f"waiting for the plane … {duration(time.monotonic() - self._began)}"]
        job, progress = self.job, self.job.get("progress") or {}
        drawn = [views.headline(job)]
        if progress.get("step") is not None and progress.get("total"):
            fraction = progress["step"] / progress["total"]
            drawn.append(f"  {views.bar(fraction, max(10, min(60, width - 30)))} {views.steps(job)}")
        for name, values in self._history.items():
            shown = views.number((progress.get("metrics") or {}).get(name, values[-1]))
            title, course = views.plain(name, _NAME), views.sparkline(list(values))
            drawn.append(f"  {title:<{_NAME}} {shown:>10}  {course}".rstrip())
        said = str(progress.get("message") or (job.get("message") if job["state"] != "Running" else "") or "")
        drawn += [f"  {views.plain(line)}" for line in said.splitlines()[:2]]
        drawn += [f"  │ {line}" for line in self.lines]
        return [output.shown(line)[:width] for line in drawn]


async def wait(plane: AsyncPlane, job: JobRef, *, follow: bool | None, tell: Callable[[str], None]) -> dict[str, Any]:
    """The job set once it has succeeded. `follow`: `tell` gets its log as it comes; False: nothing is shown at all;
    None: how it is doing. TrainingFailed."""
    watching = Watching()
    if follow:
        try:
            return await _beside(plane.wait_job(job), _hear(plane, job, tell), patience=_REST)
        except errors.TrainingFailed as failed:  # the end of the log has just been shown
            raise errors.TrainingFailed(failed.message.partition(LOG_ENDS)[0], hint=failed.hint) from failed
    if follow is False:
        return await plane.wait_job(job)
    if not sys.stderr.isatty():
        return await plane.wait_job(job, look=lambda now: _note(watching, now))
    with _drawn(watching):
        return await _beside(plane.wait_job(job, look=watching.see), _hear(plane, job, watching.heard))


async def begun(plane: AsyncPlane, ref: JobRef, job: dict[str, Any]) -> dict[str, Any]:
    """The job set as it is once it runs, has ended, or waits for something; else after a short while."""
    until = time.monotonic() + _LOOK
    while time.monotonic() < until and _is_starting(job):
        await asyncio.sleep(_LOOK / 20)
        with contextlib.suppress(errors.MizzenError):  # it is started; this was a courtesy
            job = await plane.job(ref)
    return job


def obstacle(job: Job) -> str:
    """What it waits for, or why it failed already; empty when it goes its way."""
    if job["state"] not in ("Queued", "Failed") or job.get("reason") in ("", "Starting"):
        return ""
    word = "it waits" if job["state"] == "Queued" else "it failed"
    why = views.plain(job.get("message") or "")
    return f"{word}: {views.plain(job['reason'])}" + (f": {why}" if why else "")


def _is_starting(job: Job) -> bool:
    return job["state"] == "Created" or (job["state"] == "Queued" and job.get("reason") in ("", "Starting"))


async def _beside(main: Coroutine[Any, Any, T], side: Coroutine[Any, Any, None], *, patience: float = 0.0) -> T:
    """What `main` gives, or raises, once `side` has done the rest of its work."""
    task = asyncio.create_task(side)
    try:
        try:
            result = await main
        except errors.MizzenError:
            await _rest(task, patience)
            raise
        await _rest(task, patience)
        return result
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, errors.MizzenError):
            await task


async def _rest(task: asyncio.Task[None], patience: float) -> None:
    if patience:
        with contextlib.suppress(TimeoutError, errors.MizzenError):  # how the job ended is the news
            await asyncio.wait_for(task, patience)


async def _hear(plane: AsyncPlane, job: JobRef, tell: Callable[[str], None]) -> None:
    async for piece in plane.job_logs(job, follow=True):
        tell(piece)


def _note(watching: Watching, now: Job) -> None:
    watching.see(now)
    if news := watching.news(time.monotonic()):
        output.note(f"… {news}")


@contextlib.contextmanager
def _drawn(watching: Watching) -> Iterator[None]:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(stderr=True)

    def screen() -> RenderableType:
        return Text("\n".join(watching.screen(console.width)), no_wrap=True, overflow="crop")

    with Live(get_renderable=screen, console=console, refresh_per_second=8, transient=True):
        yield
