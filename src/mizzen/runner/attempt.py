"""The life cycle of one attempt.

    exit record there? ─────────────────────────────────────────► ends with that code
    begun, end recorded ────────────────────────────► keeping
    begun, not stopped: all went down at once ──────► keeping, as Interrupted, or RunnerLost if the engine says so
    else
      fetching ──► running ──(the command ends)────► keeping ──► exit record, last of all
         │            │                                 │
         └────────────┴───────────TERM──────────────────┴──────► `.stopped`, and no exit record

A stop is not an end: whatever becomes of the command, the same attempt continues when its runner is started again.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from mizzen.blobs.disk_room import Room, free_bytes
from mizzen.blobs.open_from_env import blobs_of
from mizzen.runner import oom as runner_oom
from mizzen.runner.checkpoints.log_marks import Printed
from mizzen.runner.checkpoints.publish import Publisher
from mizzen.runner.checkpoints.rename_watch import Renames
from mizzen.runner.checkpoints.uploader import Uploader
from mizzen.runner.command import NOT_FOUND, CannotStart, Command
from mizzen.runner.disk_guard import discard_halves, is_short
from mizzen.runner.environment import Folders, command_environment
from mizzen.runner.failures import NO_ROOM, Failed, describe, is_full
from mizzen.runner.inputs.fetch import Fetched, Fetching
from mizzen.runner.progress import ProgressReader
from mizzen.runner.report import StatusReporter
from mizzen.runner.wakeup import WakeupPipe
from mizzen.runs import paths, records
from mizzen.runs.log_segments import Keeping
from mizzen.runs.paths import JobPlace
from mizzen.runs.records import EXIT_REASONS, Exit, Task

PERMANENT = 78
STOPPED = 143
KILLED = 137
TICK, IDLE_TICK = 0.1, 0.25
"""Seconds between checks of a log that grows, and of one that does not."""
_LOGS_ONLY = 60.0
"""Seconds to wait for a store at the end if only the log is left, which is also on disk."""
_FULL_DISK = 30.0
_WHEN_STOPPED = 25.0
"""The supervisor allows only a little more than this."""
_LITTLE = 1 << 20
"""Free bytes below which a disk counts as full."""


def main(environ: Mapping[str, str]) -> int:
    """Run the attempt and return the exit code."""
    data = records.read(Path(environ.get("MIZZEN_TASK", "")))
    try:
        task = Task.from_json(data or {})
    except (KeyError, TypeError, ValueError) as error:
        return _last_words(environ, f"MIZZEN_TASK names no task: {describe(error)}")
    if environ.get("MIZZEN_ATTEMPT", str(task.attempt)) != str(task.attempt):
        return _last_words(environ, f"asked for attempt {environ['MIZZEN_ATTEMPT']}, but the task is {task.attempt}")
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


Ended = Literal["itself", "told", "room"]
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
        self._bell = WakeupPipe()
        self._telling = StatusReporter(self._place, task.attempt)
        self._said = ProgressReader(self._place)
        self._keeper: Uploader | None = None

    def run(self) -> int:
        attempt = self._task.attempt
        known = records.read(self._place.exit(attempt))
        if known is not None:
            return int(known["code"])
        begun = records.read(self._place.path_of_begun(attempt))
        try:
            end = self._attempt(begun)
            end = self._keep_results(end)
        except _Stopped:
            return STOPPED
        except Failed as error:
            end = End(1, error.reason, error.message, error.retry, ended=time.time())
        except OSError as error:
            full = is_full(error)
            end = End(1, "NoRoom" if full else "RunnerLost", NO_ROOM if full else describe(error), retry=True)
        return self._record(end)

    def _attempt(self, begun: Mapping[str, Any] | None) -> End:
        """Fetch and run. Raises _Stopped, Failed, OSError."""
        stopped = self._place.path_of_stopped(self._task.attempt)
        self._telling.reserve()
        started = begun["started"] if begun is not None else None
        self._telling.went_on(started)
        if begun is not None and "end" in begun:
            stopped.unlink(missing_ok=True)
            return End(**begun["end"])
        lost = self._place.path_of_lost(self._task.attempt).exists()
        if begun is not None and (lost or not stopped.exists()):
            reason = "RunnerLost" if lost else "Interrupted"
            return self._record_end(End(KILLED, reason, EXIT_REASONS[reason], True, started, time.time()))
        fetched = self._fetch_inputs()
        return self._ran(fetched, started)

    def _fetch_inputs(self) -> Fetched:
        fetching = Fetching(self._task, self._job, self._blobs, self._environ, Path.cwd())
        fetching.ended = self._bell.ring
        self._telling.tell("fetching", fetching.message)
        fetching.start()
        while fetching.result is None and fetching.error is None:
            self._bell.wait(1.0)
            if self._bell.stop:
                self._raise_if_stopped()
            self._telling.tell("fetching", fetching.message)
        if fetching.error is not None:
            raise fetching.error
        assert fetching.result is not None
        return fetching.result

    def _ran(self, fetched: Fetched, started: float | None) -> End:
        task, attempt = self._task, self._task.attempt
        logs = paths.events(
            self._job.data_dir, namespace=task.namespace, model=task.model, version=task.version, job=task.job,
            replica=task.replica if task.several else "",
        )  # fmt: skip
        logs.mkdir(parents=True, exist_ok=True)
        python = self._environ.get("MIZZEN_PYTHON") or sys.executable
        folders = Folders(self._job.checkpoints, logs, self._place.progress, fetched.dataset)
        environment = command_environment(task, self._environ, folders, python)
        keeper = self._begin_keeping(anew=True)
        renames = Renames(self._job.checkpoints)
        printed = Printed(self._place, attempt)
        self._said.forget()
        started = started or time.time()
        if self._bell.stop:
            self._raise_if_stopped()
        oom = runner_oom.killings()
        records.write(self._place.path_of_begun(attempt), {"started": started})
        self._place.path_of_stopped(attempt).unlink(missing_ok=True)
        try:
            command = Command.start(task.command, python, fetched.cwd, environment, printed.handle)
        except CannotStart as error:
            return End(NOT_FOUND, "CommandNotFound", str(error), ended=time.time())
        self._telling.began(command.pid, started)
        try:
            code, why = self._watch(command, printed, renames, keeper)
        finally:
            command.kill()  # its leftover processes, and all of it after an error here
            keeper.on_rename(renames.take_names())
            printed.note(time.time())
            self._said.look()
        ended = time.time()
        if why == "told":
            self._put_away(sweep=False, seconds=_WHEN_STOPPED)
            raise _Stopped
        if why == "room":
            end = End(code, "NoRoom", NO_ROOM, retry=True, last_lines=printed.last_lines())
        else:
            end = self._explain(code, printed, oom < runner_oom.killings())
        if end.reason == "NoRoom":
            discard_halves(self._job.checkpoints)
        return self._record_end(replace(end, started=started, ended=ended))

    def _watch(self, command: Command, printed: Printed, renames: Renames, keeper: Uploader) -> tuple[int, Ended]:
        """Wait until the command ends; return its code, and why it ended."""
        pause, deadline, told = TICK, float("inf"), 0.0
        why: Ended = "itself"
        while (code := command.code()) is None:
            self._bell.wait(pause, renames.handle)
            now = time.time()
            grown = printed.note(now)
            pause = TICK if grown else IDLE_TICK
            if grown:
                keeper.grew(printed.size())
            names = renames.take_names()
            if names:
                keeper.on_rename(names)
            if not renames.watches and now - told >= 1.0:
                told = now
                renames.renew()
                keeper.look_at_told()
            self._said.look()
            self._telling.tell("running", keeper.message, keeper.published)
            if self._bell.stop and why != "told":
                # Record this first: if the supervisor then kills everything at once, that does not count as an end
                # either.
                self._note_stop()
                why = "told"
            elif why == "itself" and self._room is not None and is_short(self._room):
                why = "room"
            if why != "itself" and deadline == float("inf"):
                command.terminate()
                deadline = time.monotonic() + self._task.grace
            if time.monotonic() > deadline:
                command.kill()
        return code, why

    def _keep_results(self, end: End) -> End:
        """Store the remaining results, and return the attempt's end after that."""
        self._begin_keeping()
        if not self._put_away(sweep=not end.reason and end.code == 0, seconds=self._task.keep_seconds):
            keeper = self._begin_keeping()
            if not keeper.saved and not end.reason:
                reason, why = ("NoRoom", NO_ROOM) if keeper.full else ("StorageUnavailable", keeper.message)
                return replace(end, code=end.code or 1, reason=reason, message=why, retry=True)
        return end

    def _begin_keeping(self, *, anew: bool = False) -> Uploader:
        """`anew`: before the command is started. Entries found first were saved while no runner watched."""
        if self._keeper is None:
            publisher = Publisher(self._task, self._job, self._blobs, lambda: self._said.last)
            whole = publisher.begin() if anew else publisher.take_whole()
            self._keeper = Uploader(publisher, self._keeping, self._task, self._job)
            self._keeper.ended = self._bell.ring
            self._keeper.start()
            self._keeper.on_rename(whole)
        return self._keeper

    def _keeping(self, attempt: int) -> Keeping:
        return Keeping(self._blobs, self._blobs.documents, self._place, self._task, attempt)

    def _put_away(self, *, sweep: bool, seconds: float) -> bool:
        """Return whether everything is stored. Raises _Stopped, with the rest left for later, if the runner is stopped
        meanwhile."""
        keeper = self._begin_keeping()
        keeper.finish(sweep=sweep)
        begun, told = time.monotonic(), float("inf")
        while not keeper.done:
            self._telling.tell("keeping", keeper.message or "putting away what was saved", keeper.published)
            self._bell.wait(0.5)
            now = time.monotonic()
            if self._bell.stop:
                told = min(told, now)
                if keeper.trouble is not None or now - told > _WHEN_STOPPED:
                    self._note_stop()
                    raise _Stopped
            limit = min(seconds, _LOGS_ONLY) if keeper.saved else seconds
            if now - begun > (min(limit, _FULL_DISK) if keeper.full else limit):
                return False
        return True

    def _explain(self, code: int, printed: Printed, killed_for_memory: bool) -> End:
        """Return the meaning of the command's exit."""
        if code == 0:
            return End(0)
        lines = printed.last_lines()
        if (code == KILLED and killed_for_memory) or runner_oom.is_told(lines):
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

    def _raise_if_stopped(self) -> None:
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
        self._telling.end(exit_)
        keeper = self._keeper
        if keeper is not None and keeper.done:
            with suppress(OSError):
                keeper.drop_logs()
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
