"""What `mizzen up` does: starts a plane, says when each part is ready, shows it, and ends it.

In the foreground it is only a viewer of a supervisor that runs by itself: it holds a tether, and a signal makes it ask
for the stop.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mizzen import assemble, errors
from mizzen.cli import demo as demonstration
from mizzen.cli import farewell, live, output, welcome
from mizzen.cli.interrupts import Interrupts
from mizzen.sdk import locate, stopping
from mizzen.sdk.client import AsyncPlane
from mizzen.sdk.tether import KeptTether
from mizzen.supervisor import client
from mizzen.supervisor.home import Home

if TYPE_CHECKING:
    from mizzen.settings import Settings

_POLL: Final = 0.05
_CRASHES: Final = 3
"""So many restarts during the start mean that waiting will not help."""


def run(settings: Settings, *, demo: bool, detach: bool, began: float) -> None:
    """Until the plane is ready, when detached or found running; else until it is stopped."""
    home = Home.of(settings.root)
    with Interrupts() as interrupts:
        tether = _start(settings, home, demo=demo, detach=detach, began=began)
        asyncio.run(welcome.show(locate.in_data_dir(settings.root), Path(settings.data_dir)))
        if tether is None:
            return
        interrupts.collect()
        live.watch(locate.in_data_dir(settings.root), tether, interrupts)
        if interrupts.count:
            farewell.stop(home, interrupts)
        elif tether.lost:
            stopping.stop(home)
            raise errors.Unavailable("the supervisor was lost; the rest was ended", hint=f"see {home.supervisor_log}")
        else:
            output.say("the plane was stopped")


def _start(settings: Settings, home: Home, *, demo: bool, detach: bool, began: float) -> KeptTether | None:
    """A tether, when this viewer is to hold one. What fails leaves nothing running."""
    with _training(settings.root, wanted=demo) as training:
        output.tick("environment", began)
        began = time.monotonic()
        running = _started(settings)
        with _undone_on_failure(home, mine=not running.already_running):
            tether = None if detach or running.already_running else KeptTether(home)
            asyncio.run(_wait_up(settings.root, home, settings.start_timeout))
            output.tick("plane" + (" (was running)" if running.already_running else ""), began)
            if training is not None:
                began = time.monotonic()
                fresh = asyncio.run(_serve_demo(settings.root, training))
                output.tick("model trained and serving" if fresh else "model serving", began)
    return tether


def _started(settings: Settings) -> assemble.Running:
    try:
        return assemble.start(settings)
    except errors.Unavailable as error:
        if error.hint or " is taken" not in error.message:
            raise
        hint = "end that program, or let free ports be picked: --port 0 --inference-port 0"
        raise errors.Unavailable(error.message, hint=hint) from error


@contextmanager
def _training(root: Path, *, wanted: bool) -> Iterator[demonstration.Training | None]:
    """The demo's model is trained while the plane starts."""
    if not wanted:
        yield None
        return
    training = demonstration.Training(root)
    try:
        yield training
    finally:
        training.cancel()


@contextmanager
def _undone_on_failure(home: Home, *, mine: bool) -> Iterator[None]:
    """Also on Ctrl-C: what this command started and could not finish is ended again."""
    try:
        yield
    except BaseException as error:
        if mine:
            stopping.stop(home, graceful=False)
            if isinstance(error, KeyboardInterrupt):
                output.note("interrupted; what had started was ended")
        raise


async def _wait_up(root: Path, home: Home, seconds: float) -> None:
    """Until both APIs answer. Unavailable as soon as a process has given up; DeadlineExceeded."""
    try:
        async with asyncio.timeout(seconds), AsyncPlane(locate.in_data_dir(root)) as plane:
            while not await plane.up():
                _check_processes(home)
                await asyncio.sleep(_POLL)
    except TimeoutError:
        raise errors.DeadlineExceeded(
            f"the plane was not ready within {seconds:g} s", hint=f"see {home.logs}"
        ) from None


def _check_processes(home: Home) -> None:
    try:
        processes = client.ask(home, "list")["processes"]
    except client.SupervisorGone as error:
        raise errors.Unavailable("the supervisor ended during the start", hint=f"see {home.supervisor_log}") from error
    for process in processes:
        ours = process["key"] == "plane" or process["key"].startswith("gateway-")
        if ours and (process["state"] == "failed" or process["restarts"] >= _CRASHES):
            log = home.logs / f"{process['key']}.log"
            why = process["message"] or _last_line(log) or f"exit code {process['exit_code']}"
            raise errors.Unavailable(f"{process['key']} does not start: {why}", hint=f"see {log}")


def _last_line(log: Path) -> str:
    try:
        lines = log.read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


async def _serve_demo(root: Path, training: demonstration.Training) -> bool:
    async with AsyncPlane(locate.in_data_dir(root)) as plane:
        return await demonstration.serve(plane, training)
