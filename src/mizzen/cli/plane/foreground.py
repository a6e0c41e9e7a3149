"""What `mizzen up` does: starts a plane, says when each part is ready, shows it, and ends it.

In the foreground it is only a viewer of a supervisor that runs by itself: it holds a tether, and a signal makes it ask
for the stop. A start is tethered in any case until it has succeeded: however it fails, nothing is left.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mizzen import __version__, errors
from mizzen.assemble import boot
from mizzen.cli import demo as demonstration
from mizzen.cli import output
from mizzen.cli.interrupts import Interrupts
from mizzen.cli.plane import shutdown, status_line, welcome
from mizzen.sdk.client import AsyncPlane
from mizzen.sdk.connection import locate, stop
from mizzen.sdk.connection.tether import KeptTether
from mizzen.supervisor import client, launch, systemd_notify
from mizzen.supervisor.data_dir import Home

if TYPE_CHECKING:
    from mizzen.settings import Settings

_POLL: Final = 0.05
_CRASHES: Final = 3
"""So many restarts during the start mean that waiting will not help."""


def run(settings: Settings, flags: Mapping[str, Any], *, demo: bool, detach: bool, began: float) -> None:
    """Until the plane is ready, when detached or found running; else until it is stopped. `flags`: those given."""
    home = Home.of(settings.root)
    with Interrupts() as interrupts:
        tether = _start(settings, flags, home, interrupts, demo=demo, detach=detach, began=began)
        place = locate.in_data_dir(settings.root)
        asyncio.run(welcome.show(place, settings.root, strangers=settings.loopback and settings.anonymous))
        if tether is None:
            if not detach and systemd_notify.expected():
                raise errors.Conflict(
                    f"a plane that is no service runs in {home.data_dir}",
                    hint="'mizzen down' first, then start the service",
                )
            return
        systemd_notify.tell("READY=1", f"STATUS=control API {place.control_url}, inference API {place.inference_url}")
        status_line.watch(place, tether, interrupts)
        systemd_notify.tell("STOPPING=1")
        if interrupts.count:
            shutdown.stop(home, interrupts)
        elif tether.lost:
            stop.stop(home)
            raise errors.Unavailable("the supervisor was lost; the rest was ended", hint=f"see {home.supervisor_log}")
        else:
            output.tell("the plane was stopped")


def _start(
    settings: Settings,
    flags: Mapping[str, Any],
    home: Home,
    interrupts: Interrupts,
    *,
    demo: bool,
    detach: bool,
    began: float,
) -> KeptTether | None:
    """A tether, when this viewer is to hold one; then signals are collected, too. What fails leaves nothing running."""
    with ExitStack() as undo:
        training = None
        if demo:  # trained while the plane starts
            with interrupts.held():
                home.prepare()
                training = demonstration.Training(settings.root)
                undo.callback(training.cancel)
        output.tick("environment", began)
        began = time.monotonic()
        tether, running = None, boot.find(home)
        if running is None:
            with interrupts.held():
                running = _started(settings, home)
                if not running.already_running:
                    undo.enter_context(_undone_on_failure(home))
                    tether = _tied(home)
        asyncio.run(_wait_up(settings.root, home, settings.start_timeout))
        output.tick("plane" + (" (was running)" if running.already_running else ""), began)
        if running.already_running:
            _note_ignored(flags, home)
            _note_release(home)
        if training is not None:
            began = time.monotonic()
            fresh = asyncio.run(_serve_demo(settings.root, training))
            output.tick("model trained and serving" if fresh else "model serving", began)
        if tether is not None and detach:
            with interrupts.held():
                tether.release()
            tether = None
        interrupts.collect()
    return tether


def _started(settings: Settings, home: Home) -> boot.Running:
    try:
        return boot.start(settings)
    except launch.StartFailed as failure:
        hint = f"see {home.supervisor_log}"
        if failure.reason is launch.Reason.PORT_TAKEN:
            hint = (
                "end that program, or let free ports be picked: --port 0 --inference-port 0 --grpc-port 0 --tls-port 0"
            )
        raise errors.Unavailable(str(failure), hint=hint) from failure


def _note_ignored(flags: Mapping[str, Any], home: Home) -> None:
    running = boot.settings_of(home)
    ignored = [
        f"--{name.replace('_', '-')}"
        for name, value in flags.items()
        if value is not None and running is not None and value != getattr(running, name)
    ]
    if ignored:
        output.note(f"a plane was running already: {', '.join(ignored)} had no effect; 'mizzen down' first")


def _note_release(home: Home) -> None:
    running = boot.release_of(home)
    if running and running != __version__:
        output.warn(
            f"the plane that runs is Mizzen {running}, this is {__version__}: it goes on as it is; "
            "'mizzen down' and 'mizzen up' make it this one"
        )


def _tied(home: Home) -> KeptTether:
    try:
        return KeptTether(home)
    except client.SupervisorGone as error:
        raise errors.Unavailable("the supervisor ended during the start", hint=f"see {home.supervisor_log}") from error


@contextmanager
def _undone_on_failure(home: Home) -> Iterator[None]:
    """Also on Ctrl-C: what this command started and could not finish is ended again, not what trained before it."""
    before = bool(stop.trains(home))
    try:
        yield
    except BaseException as error:
        stop.stop(home, graceful=False, keep_training=before)
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
            said, hint = last_words(log)
            why = process["message"] or said or f"exit code {process['exit_code']}"
            raise errors.Unavailable(f"{process['key']} does not start: {why}", hint=hint or f"see {log}")


def last_words(log: Path) -> tuple[str, str]:
    """Message and hint that a process ended with; without a hint, its last line."""
    try:
        lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    except FileNotFoundError:
        return "", ""
    hint = lines.pop().removeprefix("hint: ") if lines and lines[-1].startswith("hint: ") else ""
    return (lines[-1].removeprefix("error: ") if lines else ""), hint


async def _serve_demo(root: Path, training: demonstration.Training) -> bool:
    async with AsyncPlane(locate.in_data_dir(root)) as plane:
        return await demonstration.serve(plane, training)
