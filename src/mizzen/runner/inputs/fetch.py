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
from mizzen.errors import Invalid, MizzenError, NotFound, Unavailable
from mizzen.runner.checkpoints import publish
from mizzen.runner.checkpoints.ledger import locked
from mizzen.runner.failures import NO_ROOM, Failed, describe, is_full
from mizzen.runs.log_segments import LogUploader
from mizzen.runs.paths import JobPlace
from mizzen.runs.records import Task

_LONGEST_PAUSE = 15.0


@dataclass(frozen=True, slots=True)
class FetchedInputs:
    cwd: Path
    dataset: Path | None


class InputFetcher(threading.Thread):
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
        self.result: FetchedInputs | None = None
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

    def _fetch(self) -> FetchedInputs:
        task = self._task
        code = self._work / "code"
        self._retry("fetching the code", lambda: self._fetch_code(code))
        self._retry("looking for earlier checkpoints", self._fetch_checkpoints)
        with suppress(Unavailable, NotFound):  # then it starts from the beginning
            place = self._job.replica(task.replica)
            LogUploader(self._blobs, self._blobs.documents, place, task, task.attempt).restore()
        dataset = None
        if task.dataset is not None:
            from mizzen.runner.inputs import datasets

            room = self._blobs.room
            fetcher = datasets.DatasetFetcher(task.dataset, self._environ, room, self._report, trusted=task.trusted)
            dataset = fetcher.fetch(self._job)
        named = Path(task.working_dir) if task.working_dir else None
        return FetchedInputs(named if named is not None and named.is_dir() else code, dataset)

    def _retry(self, doing: str, work: Callable[[], None]) -> None:
        """Do this work, again if the store does not respond: it may do so soon."""
        deadline, pause = time.monotonic() + self._task.keep_seconds, 1.0
        self._report(doing)
        while True:
            try:
                work()
            except Unavailable as error:
                if is_full(error):
                    raise Failed("NoRoom", describe(error), retry=True) from error
                if time.monotonic() + pause > deadline:
                    raise Failed("StorageUnavailable", describe(error), retry=True) from error
                self._report(f"{doing}: {describe(error)}")
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                return

    def _fetch_code(self, target: Path) -> None:
        try:
            if self._task.files:
                self._blobs.lay_out(self._task.files, target)
            elif self._task.git is not None:
                import asyncio

                fetching = _fetch_tree(self._task.git, self._blobs, trusted=self._task.trusted)
                self._blobs.lay_out(asyncio.run(fetching), target)
            else:
                remove_tree(target)
                target.mkdir(parents=True)
        except (NotFound, Invalid) as error:
            raise Failed("CodeUnavailable", f"the code of version {self._task.version}: {describe(error)}") from error

    def _fetch_checkpoints(self) -> None:
        """Fetch checkpoints. A job's first attempt can do without: most likely there are none."""
        try:
            with locked(self._job.folder / ".restoring.lock"):
                publish.restore(self._task, self._job, self._blobs)
        except Unavailable as error:
            if self._task.attempt or is_full(error):
                raise
            self._job.checkpoints.mkdir(parents=True, exist_ok=True)
        except MizzenError as error:
            raise Failed("StorageUnavailable", f"an earlier checkpoint cannot be fetched: {describe(error)}") from error

    def _report(self, message: str) -> None:
        self.message = message


async def _fetch_tree(git: Mapping[str, str], blobs: FileBlobs, *, trusted: bool) -> tuple[Entry, ...]:
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
