"""The life cycle of one attempt.

    exit record exists ─────────────────────────────────────────► exits with that code
    begun, end recorded ────────────────────────────► keeping
    begun, not stopped: everything died at once ────► keeping, as Interrupted, or RunnerLost if the engine says so
    otherwise
      fetching ──► running ──(the command ends)────► keeping ──► exit record, last of all
         │            │                                 │
         └────────────┴───────────TERM──────────────────┴──────► `.stopped`, and no exit record

A stop is not an end: the same attempt continues when its runner is started again, even if the command has ended.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, NoReturn

from mizzen.blobs.disk_room import Room, free_bytes
from mizzen.blobs.open_from_env import blobs_of
from mizzen.confinement import machine, pid_namespace
from mizzen.confinement.output_pipe import OutputPipe
from mizzen.confinement.spec import Confinement
from mizzen.runner import oom as runner_oom
from mizzen.runner.checkpoints.log_marks import CommandLog
from mizzen.runner.checkpoints.publish import Publisher
from mizzen.runner.checkpoints.rename_watch import RenameWatch
from mizzen.runner.checkpoints.uploader import Uploader
from mizzen.runner.command import NOT_FOUND, CannotStart, CommandBounds, CommandProcess
from mizzen.runner.disk_guard import discard_halves, is_short
from mizzen.runner.environment import Folders, command_environment
from mizzen.runner.failures import NO_ROOM, Failed, describe, is_full
from mizzen.runner.inputs.fetch import FetchedInputs, InputFetcher
from mizzen.runner.output import DEFAULT_BYTES, BoundedLog, CommandOutput
from mizzen.runner.progress import ProgressReader
from mizzen.runner.report import StatusReporter
from mizzen.runner.wakeup import WakeupPipe
from mizzen.runs import paths, records
from mizzen.runs.log_segments import LogUploader
from mizzen.runs.paths import JobPlace
from mizzen.runs.records import LOST_MESSAGES, Exit, Task

PERMANENT = 78
STOPPED = 143
KILLED = 137
TICK, IDLE_TICK = 0.1, 0.25
"""Seconds between checks of a log that grows, and of one that does not."""
_LOGS_ONLY = 60.0
"""Seconds to wait for a store at the end if only the log remains, which is also on disk."""
_FULL_DISK = 30.0
_WHEN_STOPPED = 25.0
"""The supervisor allows only a little more than this."""
SALVAGED = ".rest"
"""Ends the name of the file with what the supervisor saved of a pipe (`supervisor/processes/log_pipe.py`)."""
_LITTLE = 1 << 20
"""Free bytes below which a disk counts as full."""


def main(environ: Mapping[str, str]) -> int:
    """Run the attempt and return the exit code."""
    data = records.read(Path(environ.get("MIZZEN_TASK", "")))
    try:
        task = Task.from_json(data or {})
    except (KeyError, TypeError, ValueError) as error:
        return _last_words(environ, f"MIZZEN_TASK does not name a valid task: {describe(error)}")
    if environ.get("MIZZEN_ATTEMPT", str(task.attempt)) != str(task.attempt):
        return _last_words(environ, f"the task is of attempt {task.attempt}, not attempt {environ['MIZZEN_ATTEMPT']}")
    if task.confinement is not None:
        machine.detect()  # by forking, which is best done before there are threads
        pid_namespace.detect()
    data_dir = Path(environ["MIZZEN_DATA_DIR"])
    return Runner(task, JobPlace(data_dir, task.job_uid), environ).run()


@dataclass(frozen=True, slots=True)
class End:
    """How the command ended, if it ran."""

    code: int
    reason: str = ""
    message: str = ""
    retry: bool = False
    started: float | None = None
    ended: float = 0.0
    last_lines: str = ""


EndCause = Literal["itself", "stopped", "disk"]
"""Why a command ended: by itself, because the runner was stopped, or because the disk was nearly full."""


class _Stopped(Exception):
    pass


class Runner:
    def __init__(self, task: Task, job: JobPlace, environ: Mapping[str, str]) -> None:
        self._task = task
        self._job = job
        self._place = job.replica(task.replica)
        self._environ = environ
        self._room = _room(job.data_dir, environ)
        self._blobs = blobs_of(job.data_dir, environ, self._room)
        self._wakeup = WakeupPipe()
        self._reporter = StatusReporter(self._place, task.attempt)
        self._progress = ProgressReader(self._place)
        self._uploader: Uploader | None = None

    def run(self) -> int:
        attempt = self._task.attempt
        known = records.read(self._place.exit(attempt))
        if known is not None:
            return int(known["code"])
        begun = records.read(self._place.path_of_begun(attempt))
        try:
            end = self._run_attempt(begun)
            end = self._keep_results(end)
        except _Stopped:
            return STOPPED
        except Failed as error:
            end = End(1, error.reason, error.message, error.retry, ended=time.time())
        except OSError as error:
            full = is_full(error)
            end = End(1, "NoRoom" if full else "RunnerLost", NO_ROOM if full else describe(error), retry=True)
        return self._record(end)

    def _run_attempt(self, begun: Mapping[str, Any] | None) -> End:
        """Fetch and run. Raises _Stopped, Failed, OSError."""
        stopped = self._place.path_of_stopped(self._task.attempt)
        self._reporter.reserve()
        self._save_rest_of_output()
        started = begun["started"] if begun is not None else None
        self._reporter.resume(started)
        if begun is not None and "end" in begun:
            stopped.unlink(missing_ok=True)
            return End(**begun["end"])
        lost = self._place.path_of_lost(self._task.attempt).exists()
        if begun is not None and (lost or not stopped.exists()):
            reason = "RunnerLost" if lost else "Interrupted"
            return self._record_end(End(KILLED, reason, LOST_MESSAGES[reason], True, started, time.time()))
        fetched = self._fetch_inputs()
        return self._run_command(fetched, started)

    def _fetch_inputs(self) -> FetchedInputs:
        fetcher = InputFetcher(self._task, self._job, self._blobs, self._environ, Path.cwd())
        fetcher.ended = self._wakeup.ring
        self._reporter.report("fetching", fetcher.message)
        fetcher.start()
        while fetcher.result is None and fetcher.error is None:
            self._wakeup.wait(1.0)
            if self._wakeup.stop:
                self._stop()
            self._reporter.report("fetching", fetcher.message)
        if fetcher.error is not None:
            raise fetcher.error
        assert fetcher.result is not None
        return fetcher.result

    def _run_command(self, fetched: FetchedInputs, started: float | None) -> End:
        task, attempt = self._task, self._task.attempt
        logs = paths.events(
            self._job.data_dir, namespace=task.namespace, model=task.model, version=task.version, job=task.job,
            replica=task.replica if task.several else "",
        )  # fmt: skip
        logs.mkdir(parents=True, exist_ok=True)
        self._place.reported.mkdir(mode=0o700, exist_ok=True)
        python = self._environ.get("MIZZEN_PYTHON") or sys.executable
        folders = Folders(self._job.checkpoints, logs, self._place.progress, fetched.dataset)
        confinement = Confinement.from_json(task.confinement)
        environment = command_environment(task, self._environ, folders, python, confinement)
        uploader = self._start_uploader(fresh=True)
        renames = RenameWatch(self._job.checkpoints)
        log = CommandLog(self._place, attempt)
        self._progress.forget()
        started = started or time.time()
        if self._wakeup.stop:
            self._stop()
        oom = runner_oom.count_kills()
        records.write(self._place.path_of_begun(attempt), {"started": started})
        self._place.path_of_stopped(attempt).unlink(missing_ok=True)
        output = self._open_output(log)
        try:
            command = self._start_command(fetched.cwd, environment, output, confinement)
        except CannotStart as error:
            output.finish()
            return End(NOT_FOUND, "CommandNotFound", str(error), ended=time.time())
        self._reporter.record_start(command.pid, started)
        try:
            code, cause = self._watch(command, log, renames, uploader)
        finally:
            command.kill()  # its leftover processes, and all of it after an error here
            output.finish()
            uploader.on_rename(renames.take_names())
            log.note(time.time())
            self._progress.look()
        ended = time.time()
        if cause == "stopped":
            self._store_rest(sweep=False, seconds=_WHEN_STOPPED)
            raise _Stopped
        if cause == "disk":
            end = End(code, "NoRoom", NO_ROOM, retry=True, last_lines=log.last_lines())
        else:
            killed = command.memory_kills > 0 or (code == KILLED and oom < runner_oom.count_kills())
            end = self._explain(code, log, killed)
        if end.reason == "NoRoom":
            discard_halves(self._job.checkpoints)
        return self._record_end(replace(end, started=started, ended=ended))

    def _start_command(
        self, cwd: Path, environment: Mapping[str, str], output: CommandOutput, confinement: Confinement | None
    ) -> CommandProcess:
        """Raises CannotStart."""
        python = self._environ.get("MIZZEN_PYTHON") or sys.executable
        handle = output.open_to_write()
        try:
            return CommandProcess.start(
                self._task.command, python, cwd, environment, handle,
                confinement=confinement, bounds=CommandBounds.of(self._environ),
            )  # fmt: skip
        finally:
            os.close(handle)

    def _open_output(self, log: CommandLog) -> CommandOutput:
        """By the pipe that the supervisor holds open, if there is one. Raises OSError."""
        named = self._environ.get("MIZZEN_OUTPUT_PIPE")
        own = self._place.log(self._task.attempt).with_suffix(".pipe")
        pipe = OutputPipe(Path(named)) if named else OutputPipe.create(own)
        return CommandOutput(pipe, BoundedLog(log.handle, self._most_output()))

    def _most_output(self) -> int:
        known = self._environ.get("MIZZEN_LOG_BYTES", "")
        return int(known) if known.isdecimal() else DEFAULT_BYTES

    def _save_rest_of_output(self) -> None:
        """Append what a killed runner did not read: the supervisor saved it. Raises OSError."""
        rest = Path(self._environ.get("MIZZEN_OUTPUT_PIPE", "") + SALVAGED)
        if rest.is_file():
            log = CommandLog(self._place, self._task.attempt)
            kept = BoundedLog(log.handle, self._most_output())
            kept.write(rest.read_bytes())
            kept.finish()
            log.note(time.time())
            os.close(log.handle)
            rest.unlink(missing_ok=True)

    def _watch(
        self, command: CommandProcess, log: CommandLog, renames: RenameWatch, uploader: Uploader
    ) -> tuple[int, EndCause]:
        """Wait until the command ends; return its code, and why it ended."""
        pause, deadline, looked = TICK, float("inf"), 0.0
        cause: EndCause = "itself"
        while (code := command.code()) is None:
            self._wakeup.wait(pause, renames.handle)
            now = time.time()
            grown = log.note(now)
            pause = TICK if grown else IDLE_TICK
            if grown:
                uploader.set_log_size(log.size())
            names = renames.take_names()
            if names:
                uploader.on_rename(names)
            if not renames.watches and now - looked >= 1.0:
                looked = now
                renames.renew()
                uploader.look_for_sidecars()
            self._progress.look()
            self._reporter.report("running", uploader.message, uploader.published)
            if self._wakeup.stop and cause != "stopped":
                # Record this first: if the supervisor then kills everything at once, that does not count as an end
                # either.
                self._note_stop()
                cause = "stopped"
            elif cause == "itself" and self._room is not None and is_short(self._room):
                cause = "disk"
            if cause != "itself" and deadline == float("inf"):
                command.terminate()
                deadline = time.monotonic() + self._task.grace
            if time.monotonic() > deadline:
                command.kill()
        return code, cause

    def _keep_results(self, end: End) -> End:
        """Store the remaining results, and return the attempt's end after that."""
        uploader = self._start_uploader()
        stored = self._store_rest(sweep=not end.reason and end.code == 0, seconds=self._task.keep_seconds)
        if stored or uploader.saved or end.reason:
            return end
        reason, message = ("NoRoom", NO_ROOM) if uploader.full else ("StorageUnavailable", uploader.message)
        return replace(end, code=end.code or 1, reason=reason, message=message, retry=True)

    def _start_uploader(self, *, fresh: bool = False) -> Uploader:
        """`fresh`: the command was not started yet. Entries found now were saved while no runner watched."""
        if self._uploader is None:
            publisher = Publisher(self._task, self._job, self._blobs, lambda: self._progress.last)
            names = publisher.begin() if fresh else publisher.record_renamed()
            self._uploader = Uploader(publisher, self._log_uploader, self._task, self._job)
            self._uploader.ended = self._wakeup.ring
            self._uploader.start()
            self._uploader.on_rename(names)
        return self._uploader

    def _log_uploader(self, attempt: int) -> LogUploader:
        return LogUploader(self._blobs, self._blobs.documents, self._place, self._task, attempt)

    def _store_rest(self, *, sweep: bool, seconds: float) -> bool:
        """Return whether everything is stored. Raises _Stopped if the runner is stopped meanwhile; the rest is stored
        later."""
        uploader = self._start_uploader()
        uploader.finish(sweep=sweep)
        begun, stopped = time.monotonic(), float("inf")
        while not uploader.done:
            self._reporter.report("keeping", uploader.message or "storing the results", uploader.published)
            self._wakeup.wait(0.5)
            now = time.monotonic()
            if self._wakeup.stop:
                stopped = min(stopped, now)
                if uploader.trouble is not None or now - stopped > _WHEN_STOPPED:
                    self._note_stop()
                    raise _Stopped
            limit = min(seconds, _LOGS_ONLY) if uploader.saved else seconds
            if now - begun > (min(limit, _FULL_DISK) if uploader.full else limit):
                return False
        return True

    def _explain(self, code: int, log: CommandLog, killed_for_memory: bool) -> End:
        """Return the meaning of the command's exit."""
        if code == 0:
            return End(0)
        lines = log.last_lines()
        if killed_for_memory or runner_oom.is_reported(lines):
            return End(code, "OutOfMemory", runner_oom.TOO_LITTLE, last_lines=lines)
        if free_bytes(self._job.folder) < _LITTLE:
            return End(code, "NoRoom", NO_ROOM, retry=True, last_lines=lines)
        return End(code, last_lines=lines)

    def _record_end(self, end: End) -> End:
        """Record the end: a runner started for this attempt from now on runs no command, and only stores results."""
        with suppress(OSError):
            records.write(self._place.path_of_begun(self._task.attempt), {"started": end.started, "end": asdict(end)})
        return end

    def _note_stop(self) -> None:
        with suppress(OSError):
            self._place.path_of_stopped(self._task.attempt).touch()

    def _stop(self) -> NoReturn:
        self._note_stop()
        raise _Stopped

    def _record(self, end: End) -> int:
        """Write the exit record, the last file of all."""
        exit_ = Exit(
            self._task.attempt, end.code, end.reason, end.message, end.started, end.ended or time.time(), end.retry,
            end.last_lines,
        )  # fmt: skip
        if end.reason:
            _last_words(self._environ, end.message)
        self._reporter.write_exit(exit_)
        if self._uploader is not None and self._uploader.done:
            with suppress(OSError):
                self._uploader.drop_logs()
        return end.code


def _room(data_dir: Path, environ: Mapping[str, str]) -> Room | None:
    """Return the free space that the plane reserves on its disk."""
    low, critical = (environ.get(f"MIZZEN_DISK_{level}_BYTES", "") for level in ("LOW", "CRITICAL"))
    return Room(data_dir, int(low), int(critical)) if low.isdecimal() and critical.isdecimal() else None


def _last_words(environ: Mapping[str, str], message: str) -> int:
    path = environ.get("MIZZEN_TERMINATION_LOG")
    if path:
        with suppress(OSError):
            Path(path).write_text(message)
    return PERMANENT
