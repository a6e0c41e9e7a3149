"""Fetching a command's inputs in a thread: code, data, and the checkpoints of earlier attempts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mizzen.blobs.file_store import Entry, FileBlobs
from mizzen.blobs.fs.remove_tree import remove_tree
from mizzen.errors import Invalid, MizzenError, NoRoom, NotFound, Unavailable
from mizzen.runner.checkpoints import publish
from mizzen.runner.checkpoints.ledger import locked
from mizzen.runner.failures import NO_ROOM, Failed, describe, is_full
from mizzen.runs.log_segments import Keeping
from mizzen.runs.paths import JobPlace
from mizzen.runs.records import Task

_LONGEST_PAUSE = 15.0


@dataclass(frozen=True, slots=True)
class Fetched:
    cwd: Path
    dataset: Path | None


class Fetching(threading.Thread):
    """Ends with `result` or `error`. If killed in the middle, it leaves nothing that looks complete."""

    def __init__(self, task: Task, job: JobPlace, blobs: FileBlobs, environ: Mapping[str, str], work: Path) -> None:
        """`work`: this replica's own folder."""
        super().__init__(name="fetching", daemon=True)
        self._task = task
        self._job = job
        self._blobs = blobs
        self._environ = environ
        self._work = work
        self.message = "fetching"
        self.result: Fetched | None = None
        self.error: Failed | None = None
        self.ended: Callable[[], None] = lambda: None

    def run(self) -> None:
        try:
            self.result = self._fetch()
        except Failed as error:
            self.error = error
        except OSError as error:
            full = is_full(error)
            self.error = Failed(
                "NoRoom" if full else "CodeUnavailable", NO_ROOM if full else describe(error), retry=full
            )
        except Exception as error:  # noqa: BLE001 - any error must be reported
            self.error = Failed("CodeUnavailable", f"{type(error).__name__}: {describe(error)}")
        self.ended()

    def _fetch(self) -> Fetched:
        task = self._task
        code = self._work / "code"
        self._patiently("fetching the code", lambda: self._code(code))
        self._patiently("looking for earlier checkpoints", self._checkpoints)
        with suppress(Unavailable, NotFound):  # then it starts from the beginning
            place = self._job.replica(task.replica)
            Keeping(self._blobs, self._blobs.documents, place, task, task.attempt).restore()
        dataset = None
        if task.dataset is not None:
            from mizzen.runner.inputs import datasets

            dataset = datasets.fetch_dataset(
                task.dataset, self._job, self._environ, self._blobs.room, trusted=task.trusted, tell=self._tell
            )
        named = Path(task.working_dir) if task.working_dir else None
        return Fetched(named if named is not None and named.is_dir() else code, dataset)

    def _patiently(self, doing: str, work: Callable[[], None]) -> None:
        """Retry: an unresponsive store may respond soon."""
        deadline, pause = time.monotonic() + self._task.keep_seconds, 1.0
        self._tell(doing)
        while True:
            try:
                work()
            except NoRoom as error:
                raise Failed("NoRoom", describe(error), retry=True) from error
            except Unavailable as error:
                if is_full(error):
                    raise Failed("NoRoom", describe(error), retry=True) from error
                if time.monotonic() + pause > deadline:
                    raise Failed("StorageUnavailable", describe(error), retry=True) from error
                self._tell(f"{doing}: {describe(error)}")
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                return

    def _code(self, target: Path) -> None:
        try:
            if self._task.git is not None and not self._task.files:
                self._blobs.lay_out(self._from_git(self._task.git), target)
            elif self._task.files:
                self._blobs.lay_out(self._task.files, target)
            else:
                remove_tree(target)
                target.mkdir(parents=True)
        except (NotFound, Invalid) as error:
            raise Failed("CodeUnavailable", f"the code of version {self._task.version}: {describe(error)}") from error

    def _from_git(self, git: Mapping[str, str]) -> tuple[Entry, ...]:
        import asyncio

        return asyncio.run(_tree(git, self._blobs, trusted=self._task.trusted))

    def _checkpoints(self) -> None:
        """Fetch checkpoints. A job's first attempt can do without: most likely there are none."""
        try:
            with locked(self._job.folder / ".restoring.lock"):
                publish.restore(self._task, self._job, self._blobs)
        except Unavailable as error:
            if self._task.attempt or is_full(error):
                raise
            self._job.checkpoints.mkdir(parents=True, exist_ok=True)
        except MizzenError as error:
            raise Failed("StorageUnavailable", f"an earlier checkpoint cannot be had: {describe(error)}") from error

    def _tell(self, message: str) -> None:
        self.message = message


async def _tree(git: Mapping[str, str], blobs: FileBlobs, *, trusted: bool) -> tuple[Entry, ...]:
    from mizzen.blobs.ingest import git as repositories
    from mizzen.blobs.ingest.intake import Intake
    from mizzen.blobs.limits import IngestLimits

    limits, repository = IngestLimits(), repositories.repository(git["repo"])
    below = blobs.root / "incoming"
    async with repositories.fetch_commit(
        repository, git["commit"], below, most=limits.upload_bytes, private=trusted, admin=trusted
    ) as checkout:
        with blobs.batch() as put:
            intake = Intake(put, limits, limits.upload_bytes)
            repositories.read_tree(checkout, git.get("path", ""), intake)
            return intake.entries()
