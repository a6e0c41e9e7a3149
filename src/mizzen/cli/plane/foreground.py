"""The work of `mizzen up`: start a plane, report when each part is ready, show its status, and stop it.

In the foreground, `up` only views a supervisor that runs on its own: it holds a tether, and on a signal it asks the
supervisor to stop. Every start holds a tether until it has succeeded, so that a failed start leaves nothing running.
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
from mizzen.supervisor.processes import procfs

if TYPE_CHECKING:
    from mizzen.settings import Settings

_POLL: Final = 0.05
_MAX_RESTARTS: Final = 3
"""Restarts of a process during the start after which waiting longer will not help."""


def run(settings: Settings, flags: Mapping[str, Any], *, demo: bool, detach: bool, began: float) -> None:
    """Run until the plane is ready, if detached or already running; otherwise until it stops.

    `flags`: options given on the command line.
    """
    home = Home.of(settings.root)
    with Interrupts() as interrupts:
        tether = _start(settings, flags, home, interrupts, demo=demo, detach=detach, began=began)
        _warn_of_confinement(boot.settings_of(home) or settings)
        place = locate.in_data_dir(settings.root)
        asyncio.run(welcome.show(place, settings.root, strangers=settings.loopback and settings.anonymous))
        if tether is None:
            if not detach and systemd_notify.is_expected():
                raise errors.Conflict(
                    f"a plane that systemd did not start is running in {home.data_dir}",
                    hint="run 'mizzen down', then start the service",
                )
            return
        systemd_notify.tell("READY=1", f"STATUS=control API {place.control_url}, inference API {place.inference_url}")
        status_line.watch(place, tether, interrupts)
        systemd_notify.tell("STOPPING=1")
        if interrupts.count:
            shutdown.stop(home, interrupts)
        elif tether.lost:
            stop.stop(home)
            raise errors.Unavailable(
                "the supervisor was lost; the other processes were stopped", hint=f"see {home.supervisor_log}"
            )
        else:
            output.write_progress("the plane was stopped")


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
    """Start or find the plane, and return the tether that this viewer holds, if any.

    Signals are only counted from then on. A failure leaves nothing running.
    """
    with ExitStack() as undo:
        training = None
        if demo:  # train while the plane starts
            with interrupts.defer():
                home.prepare()
                training = demonstration.DemoTraining(settings.root)
                undo.callback(training.cancel)
        output.write_step("environment", began)
        began = time.monotonic()
        tether, running = None, boot.find(home)
        if running is None:
            with interrupts.defer():
                running = _launch(settings, home)
                if not running.already_running:
                    undo.enter_context(_stop_on_failure(home))
                    tether = _attach_tether(home)
        asyncio.run(_wait_up(settings.root, home, settings.start_timeout))
        output.write_step("plane" + (" (already running)" if running.already_running else ""), began)
        if running.already_running:
            _note_ignored_flags(flags, home)
            _note_release(home)
        if training is not None:
            began = time.monotonic()
            fresh = asyncio.run(_serve_demo(settings.root, training))
            output.write_step("model trained and serving" if fresh else "model serving", began)
        if tether is not None and detach:
            with interrupts.defer():
                tether.release()
            tether = None
        interrupts.collect()
    return tether


def _launch(settings: Settings, home: Home) -> boot.RunningPlane:
    try:
        return boot.start(settings)
    except launch.StartFailed as failure:
        hint = f"see {home.supervisor_log}"
        if failure.reason is launch.Reason.PORT_TAKEN:
            hint = "stop that program, or pick free ports: --port 0 --inference-port 0 --grpc-port 0 --tls-port 0"
        raise errors.Unavailable(str(failure), hint=hint) from failure


def _note_ignored_flags(flags: Mapping[str, Any], home: Home) -> None:
    running = boot.settings_of(home)
    ignored = [
        f"--{name.replace('_', '-')}"
        for name, value in flags.items()
        if value is not None and running is not None and value != getattr(running, name)
    ]
    if ignored:
        output.note(f"a plane was already running: {', '.join(ignored)} had no effect; run 'mizzen down' first")


def _note_release(home: Home) -> None:
    running = boot.release_of(home)
    if running and running != __version__:
        output.warn(
            f"the running plane is Mizzen {running}, and this command is {__version__}; "
            "'mizzen down' and 'mizzen up' restart it with this version"
        )


def _warn_of_confinement(settings: Settings) -> None:
    from mizzen.assemble import confinement
    from mizzen.confinement import machine

    found = confinement.report(settings, machine.detect())
    if not found.confined:
        output.warn(found.sentence)


def _attach_tether(home: Home) -> KeptTether:
    try:
        return KeptTether(home)
    except client.SupervisorGone as error:
        raise errors.Unavailable("the supervisor ended during the start", hint=f"see {home.supervisor_log}") from error


@contextmanager
def _stop_on_failure(home: Home) -> Iterator[None]:
    """If the block fails, or on Ctrl-C, stop what this command started, but not training that ran before it."""
    before = bool(stop.trains(home))
    try:
        yield
    except BaseException as error:
        stop.stop(home, graceful=False, keep_training=before)
        if isinstance(error, KeyboardInterrupt):
            output.note("interrupted; everything that had started was stopped")
        raise


async def _wait_up(root: Path, home: Home, seconds: float) -> None:
    """Wait until both APIs answer. Raises Unavailable as soon as a process has given up, or DeadlineExceeded."""
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
        processes = stop.ask(home, "list")["processes"]
    except client.SupervisorGone as error:
        if launch.alive(home) is not None:
            raise stop.explain_silence(home) from error
        raise errors.Unavailable("the supervisor ended during the start", hint=f"see {home.supervisor_log}") from error
    for process in processes:
        ours = process["key"] == "plane" or process["key"].startswith("gateway-")
        if ours and (process["state"] == "failed" or process["restarts"] >= _MAX_RESTARTS):
            log = home.logs / f"{process['key']}.log"
            message, hint = last_message(log)
            why = process["message"] or message or f"exit code {process['exit_code']}"
            raise errors.Unavailable(f"{process['key']} failed to start: {why}", hint=hint or f"see {log}")
        if ours and process["pid"] and procfs.is_stopped(process["pid"]):
            what = f"{process['key']} (pid {process['pid']}) is stopped"
            raise errors.Unavailable(what, hint=f"continue it with 'kill -CONT {process['pid']}'")


def last_message(log: Path) -> tuple[str, str]:
    """The last message and hint in the log of a process; the hint may be empty."""
    try:
        lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    except FileNotFoundError:
        return "", ""
    hint = lines.pop().removeprefix("hint: ") if lines and lines[-1].startswith("hint: ") else ""
    return (lines[-1].removeprefix("error: ") if lines else ""), hint


async def _serve_demo(root: Path, training: demonstration.DemoTraining) -> bool:
    async with AsyncPlane(locate.in_data_dir(root)) as plane:
        return await demonstration.serve(plane, training)
