"""One supervised process: start, watch, restart with back-off, stop. `protocol.State` has the state diagram.

Everything happens in callbacks of the event loop; when a method returns, its transition is complete. Each transition
replaces the record file, so a supervisor that dies at any point leaves enough state for its successor to continue.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mizzen.confinement.files import untrusted_files
from mizzen.confinement.output_pipe import OutputPipe
from mizzen.supervisor.data_dir import read_json, write_json
from mizzen.supervisor.processes import procfs
from mizzen.supervisor.processes.exits import Exits
from mizzen.supervisor.processes.log_pipe import SALVAGED, HeldPipe, LogPipe, salvage
from mizzen.supervisor.processes.spawn import SpawnContext, spawn
from mizzen.supervisor.protocol import ProcessSpec, ProcessView, State

CANNOT_START = 127
LONG_RUN = 10.0
"""Seconds after which a run counts as a success and resets the back-off."""

WITHOUT_SECRETS = "waiting until a client sends its secrets again"

_MESSAGE_LIMIT = 4096
OUT_OF_MEMORY = "OutOfMemory"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SupervisorContext:
    """State shared by all processes of a supervisor."""

    spawning: SpawnContext
    exits: Exits
    loop: asyncio.AbstractEventLoop
    changed: Callable[[Process], None]
    now: Callable[[], float]
    """Wall clock. Durations use the clock of the event loop."""
    new_run: Callable[[], str]
    """Creates an id for each start. Children inherit it, which separates them from those of an earlier start."""


@dataclass(frozen=True, slots=True)
class ProcessRecord:
    """The content of `run/processes/<key>.json`."""

    spec: ProcessSpec
    view: ProcessView
    run: str
    boot: bool

    @classmethod
    def read(cls, path: Path) -> ProcessRecord | None:
        """Returns None if the file is not a valid record. Its process is then found by its environment, or is gone."""
        data: Any = read_json(path)
        try:
            spec, view = ProcessSpec.from_json(data["spec"]), ProcessView.from_json(data["view"])
            return cls(spec, view, run=data["run"], boot=data["boot"])
        except (KeyError, TypeError, ValueError):
            log.warning("%s is not a valid process record; ignoring it", path)
            return None

    def write(self, path: Path) -> None:
        write_json(path, {"spec": self.spec.to_json(), "view": self.view.to_json(), "run": self.run, "boot": self.boot})


class Backoff:
    """Delay before the next start: none after a long run or a first crash, then 0.1 s, doubling."""

    def __init__(self) -> None:
        self._short_runs = 0

    def after(self, ran: float) -> float:
        if ran > LONG_RUN:
            self._short_runs = 0
        self._short_runs += 1
        # Bound the exponent separately: a process may crash for weeks, and floats overflow at 2 ** 1024.
        return 0.0 if self._short_runs == 1 else min(0.1 * 2 ** min(self._short_runs - 2, 16), 30.0)


class Process:
    def __init__(self, context: SupervisorContext, record: ProcessRecord) -> None:
        self.spec = record.spec
        self.boot = record.boot
        self.run = record.run
        # Until it is started or adopted it is not running, even if the record says so.
        state = State.FAILED if record.view.state is State.FAILED else State.WAITING
        self.view = replace(record.view, state=state, pid=None, start="")
        self._context = context
        self._next: ProcessSpec | None = None
        self._retired = False
        self._timer: asyncio.TimerHandle | None = None
        self._backoff = Backoff()
        self._began = 0.0
        self._output: LogPipe | HeldPipe | None = None

    @classmethod
    def of(cls, context: SupervisorContext, spec: ProcessSpec, *, boot: bool = False) -> Process:
        view = ProcessView(key=spec.key, state=State.WAITING, fingerprint=spec.fingerprint)
        return cls(context, ProcessRecord(spec, view, run="", boot=boot))

    def start(self) -> None:
        """Spawns the process now. A spawn that fails counts as an exit with code 127.

        If its secrets were lost with a dead supervisor, the process waits until `become` supplies them.
        """
        self._cancel_timer()
        if not self.spec.complete:
            self._move(State.WAITING, pid=None, start="", message=WITHOUT_SECRETS)
            return
        self.run = self._context.new_run()
        self.view = replace(self.view, state=State.WAITING, pid=None, start="")
        self._save()  # records the intent, in case the supervisor dies between the spawn and the next record
        self._began = self._context.loop.time()
        try:
            self._output = self._create_pipe()
            pid = spawn(self.spec, self.run, self._context.spawning, self._output.pipe if self._output else None)
        except (OSError, TypeError, ValueError) as error:  # not only absent files: a null byte is a ValueError
            self._context.spawning.containment.finish(0, self.spec.key, self.run, self._context.loop)
            self._close_pipe()
            self._on_end(CANNOT_START, f"cannot start {self.spec.argv[0]}: {error}")
            return
        self._context.exits.watch_child(pid, self._on_exit)
        # A child that has already died is a zombie without a start time, but still ours: its exit will be reported.
        self._move(State.RUNNING, pid=pid, start=procfs.start_of(pid) or "")

    def adopt(self, pid: int, start: str) -> None:
        """Adopts a survivor of an earlier supervisor as the running process."""
        self._began = self._context.loop.time()
        self._context.exits.watch_stranger(pid, start, self._on_exit)
        with suppress(OSError):  # a process of an earlier release writes its log itself
            self._output = self._hold(OutputPipe(self._pipe_path))
        self._move(State.RUNNING, pid=pid, start=start)

    def save_output(self) -> None:
        """Saves what a process that is gone left in its pipe. Its descendants, which hold the pipe, must still live."""
        salvage(self._pipe_path, self._salvage_path, self._context.spawning.logs)

    def resume(self, *, lost: bool) -> None:
        """Starts it again after the previous supervisor died. `lost`: it was running, and its exit was not observed."""
        if lost:
            self.view = replace(
                self.view, exit_code=None, exit_time=self._context.now(), message=_last_words(self.spec)
            )
        self._restart()

    def become(self, spec: ProcessSpec) -> None:
        """Switches to this spec; does nothing if it already runs it."""
        if self.view.state is State.STOPPING:
            self._next, self._retired = spec, False
        elif spec.fingerprint == self.spec.fingerprint:
            self._learn(spec)
        elif self.view.state is State.RUNNING:
            self._next = spec
            self._terminate(self.spec.grace)
        else:
            self._take(spec)

    def retire(self) -> None:
        """Disables restarts, however the process exits."""
        self._next, self._retired = None, True
        if self.view.state in (State.WAITING, State.FAILED):
            self._cancel_timer()
            self._move(State.GONE)

    def stop(self, grace: float) -> None:
        """Sends TERM now and KILL after `grace` seconds. Another call may shorten the remaining time."""
        self.retire()
        if self.view.state in (State.RUNNING, State.STOPPING):
            self._terminate(grace)

    def _learn(self, spec: ProcessSpec) -> None:
        """Stores `varying` values and secrets for the next start. Starts now if only secrets were missing."""
        if (spec.pids, spec.cpu) != (self.spec.pids, self.spec.cpu):
            self.spec = replace(self.spec, pids=spec.pids, cpu=spec.cpu)
            self._context.spawning.containment.limit(self.spec, self.run)
            self._save()
        if spec.varying != self.spec.varying:
            self.spec = replace(self.spec, varying=spec.varying)
            self._save()  # also for the next supervisor, which may start it before a client applies it again
        if not spec.complete:
            return
        waited = not self.spec.complete and self.view.state is State.WAITING
        self.spec = replace(self.spec, secrets=spec.secrets)
        if waited:
            self.view = replace(self.view, message="")
            self.start()

    def _terminate(self, grace: float) -> None:
        self._cancel_timer()
        assert self.view.pid is not None
        if grace > 0:
            if self.view.state is not State.STOPPING:
                procfs.send(self.view.pid, self.view.start, signal.SIGTERM)
            self._timer = self._context.loop.call_later(grace, self._kill)
        else:
            self._kill()
        if self.view.state is not State.STOPPING:
            self._move(State.STOPPING)

    def _kill(self) -> None:
        """Kills it with all its descendants."""
        self._timer = None
        assert self.view.pid is not None
        self._context.spawning.containment.kill(self.view.pid, self.spec.key, self.run)

    def _on_exit(self, code: int | None) -> None:
        assert self.view.pid is not None
        containment = self._context.spawning.containment
        killed = containment.finish(self.view.pid, self.spec.key, self.run, self._context.loop)
        self._close_pipe()
        if killed and code != 0 and not self.spec.lasting:
            self._on_end(code, _last_words(self.spec) or _describe_shortage(self.spec), OUT_OF_MEMORY)
        else:
            self._on_end(code, _last_words(self.spec))

    def _on_end(self, code: int | None, message: str, reason: str = "") -> None:
        self._cancel_timer()
        now = self._context.now()
        self.view = replace(
            self.view, pid=None, start="", exit_code=code, exit_time=now, message=message, reason=reason
        )
        if self._next is not None:
            self._take(self._next)
        elif self._retired:
            self._move(State.GONE)
        elif self.spec.restart == "never" or code in self.spec.permanent_exit:
            self._move(State.FAILED)
        else:
            delay = self._backoff.after(self._context.loop.time() - self._began)
            self._timer = self._context.loop.call_later(delay, self._restart)
            self._move(State.WAITING)

    def _restart(self) -> None:
        self.view = replace(self.view, restarts=self.view.restarts + 1)
        self.start()

    def _take(self, spec: ProcessSpec) -> None:
        self.spec, self._next = spec, None
        self._backoff = Backoff()
        self.view = ProcessView(key=spec.key, state=State.WAITING, fingerprint=spec.fingerprint)
        self.start()

    def _move(self, state: State, **seen: Any) -> None:
        self.view = replace(self.view, state=state, **seen)
        if state is State.GONE:
            self._record_path.unlink(missing_ok=True)
        else:
            self._save()
        log.info("%s: %s, pid %s, exit code %s", self.view.key, state, self.view.pid, self.view.exit_code)
        self._context.changed(self)

    def _save(self) -> None:
        try:
            ProcessRecord(self.spec, self.view, self.run, self.boot).write(self._record_path)
        except OSError:  # a full disk must not end supervision; the cost: this process may not be adopted
            log.exception("cannot record %s", self.spec.key)

    def _create_pipe(self) -> LogPipe | HeldPipe | None:
        """None: it writes its log itself. The plane and the gateways do, so that they never wait for a supervisor."""
        if self.spec.listeners:
            return None
        return self._hold(OutputPipe.create(self._pipe_path))

    def _hold(self, pipe: OutputPipe) -> LogPipe | HeldPipe:
        logs = self._context.spawning.logs
        if self.spec.lasting:
            return HeldPipe(pipe, self._salvage_path, logs)
        return LogPipe(pipe, Path(self.spec.log), logs, self._context.loop)

    def _close_pipe(self) -> None:
        if self._output is not None:
            self._output.close()
            self._output = None

    @property
    def piped(self) -> bool:
        """Whether the supervisor writes its log."""
        return isinstance(self._output, LogPipe)

    @property
    def _record_path(self) -> Path:
        return self._context.spawning.home.processes / f"{self.spec.key}.json"

    @property
    def _pipe_path(self) -> Path:
        return self._context.spawning.home.pipes / self.spec.key

    @property
    def _salvage_path(self) -> Path:
        """Where the rest of a pipe goes whose reader is gone."""
        if self.spec.lasting:
            return self._pipe_path.with_name(f"{self.spec.key}{SALVAGED}")
        return Path(self.spec.log)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _describe_shortage(spec: ProcessSpec) -> str:
    if spec.memory is None:
        return "the kernel ended it because the machine ran out of memory: limit the memory of models, or add memory"
    return (
        f"the kernel ended it because it used more than its limit of {spec.memory:,} bytes: "
        "raise spec.resources.memory, or make it use less"
    )


def _last_words(spec: ProcessSpec) -> str:
    if not spec.termination_log:
        return ""
    try:
        return untrusted_files.read_beginning(spec.termination_log, _MESSAGE_LIMIT).decode(errors="replace").strip()
    except OSError:
        return ""
