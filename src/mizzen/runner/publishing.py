"""Entries of the checkpoint folder become checkpoints: their files into Blobs, then the manifest.

    renamed into place   -> complete at once
    written in place     -> complete when the command has ended well, and nobody else may be writing to it

Several runners of a set look at one folder: whoever comes first publishes, the others find it done.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from mizzen.blobs.files import FileBlobs
from mizzen.errors import Invalid, NotFound
from mizzen.runner import entries
from mizzen.runner.entries import Found
from mizzen.runner.ledger import Complete, Ledger, Ledgers, locked
from mizzen.runs import records
from mizzen.runs.checkpoints import Checkpoint, Shelf, checkpoint_id, digest_of
from mizzen.runs.places import JobPlace
from mizzen.runs.records import File, Progress, Task

QUIET = 5.0
"""Seconds after which an entry that was written in place counts as finished, though other replicas still run."""


class Publisher:
    """Blocking; for one thread. Unavailable, NoRoom, OSError: what is left is pending, and may be tried again."""

    def __init__(self, task: Task, job: JobPlace, blobs: FileBlobs, progress: Callable[[], Progress | None]) -> None:
        self._task = task
        self._job = job
        self._blobs = blobs
        self._shelf = Shelf(blobs.documents)
        self._progress = progress
        self._folder = job.checkpoints
        self._ledgers = Ledgers(job)
        self._turn = job.folder / ".publishing.lock"
        self.published = 0
        self.notes: dict[str, str] = {}
        """What people should know of entries, by name."""

    def begin(self) -> None:
        """Before the command starts: what nobody knows to be complete may be half of something."""
        with self._ledgers.open() as ledger:
            ledger.doubtful = {
                name: found.signature
                for name in entries.names(self._folder)
                if (found := self._look(name)) is not None and not _known(ledger, name, found)
            }

    def renamed(self, name: str) -> None:
        """It is complete as it is now. Nothing happens when it is gone already: the code may do what it likes."""
        if not entries.is_name(name):
            return
        found = self._look(name)
        if found is None:
            return
        with self._ledgers.open() as ledger:
            if not _known(ledger, name, found):
                ledger.complete[name] = Complete(found.signature, time.time())
            ledger.doubtful.pop(name, None)

    def take_told(self) -> None:
        """Where renames cannot be seen: what `mizzen.training` saved says so, in a file that is written first."""
        for name in entries.names(self._folder):
            if entries.told(self._folder, name) is not None:
                self.renamed(name)

    def sweep(self, *, alone: bool) -> bool:
        """The command has ended well: what it wrote in place is complete. False: some of it may be another replica's,
        unless `alone`, and has to be looked at again."""
        settled = True
        with self._ledgers.open() as ledger:
            for name in entries.names(self._folder):
                found = self._look(name)
                if found is None or _known(ledger, name, found) or ledger.doubtful.get(name) == found.signature:
                    continue
                if alone or time.time() - found.newest >= QUIET:
                    ledger.complete[name] = Complete(found.signature, found.newest)
                else:
                    settled = False
        return settled

    def publish(self) -> bool:
        """All that is complete and not published. False: some of it changed meanwhile, and has to be tried again."""
        with self._ledgers.open() as ledger:
            pending = [name for name, entry in ledger.complete.items() if not entry.id]
        done = [self._publish_one(name) for name in pending]
        return all(done)

    def _publish_one(self, name: str) -> bool:
        # A lock of its own: this may take long, and who starts meanwhile must not wait for it.
        with locked(self._turn):
            with self._ledgers.open() as ledger:
                entry = ledger.complete.get(name)
            if entry is None or entry.id:  # another runner was faster
                return True
            found = self._look(name)
            checkpoint = self._put(name, found, entry) if found is not None else None
            again = self._look(name)
            if found is None or again is None:
                self._settle(name, entry, None)
                return True
            if checkpoint is None or again.signature != found.signature:
                self._settle(name, entry, replace(entry, signature=again.signature))
                return False
            if self._shelf.add(checkpoint):
                self.published += 1
            self._settle(name, entry, Complete(found.signature, entry.at, checkpoint.id))
        if found.left_out:
            self.notes[name] = f"checkpoint '{name}' is kept without {found.left_out} links, pipes or sockets in it"
        return True

    def _settle(self, name: str, entry: Complete, known: Complete | None) -> None:
        """What is known of it now; unless another one was renamed into its place meanwhile, which is still to do."""
        with self._ledgers.open() as ledger:
            if ledger.complete.get(name) != entry:
                return
            if known is None:
                del ledger.complete[name]
            else:
                ledger.complete[name] = known

    def _put(self, name: str, found: Found, entry: Complete) -> Checkpoint | None:
        """None when a file went away meanwhile."""
        files = []
        try:
            with self._blobs.batch() as put:
                for path, file in found.files:
                    # Not followed, not waited for: it may have become a link or a pipe meanwhile.
                    handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
                    with open(handle, "rb", buffering=0) as content:
                        blob = put(content)
                    files.append(File(path, blob.digest, blob.size))
        except FileNotFoundError:
            return None
        task, sha256 = self._task, digest_of(files)
        step, metrics = self._told(name)
        framework, entrypoint = self._recognised(files)
        return Checkpoint(
            id=checkpoint_id(task.job, name, sha256),
            namespace=task.namespace,
            model=task.model,
            version=task.version,
            version_uid=task.version_uid,
            job=task.job,
            job_uid=task.job_uid,
            name=name,
            files=tuple(files),
            sha256=sha256,
            created=entry.at,
            step=step,
            metrics=metrics,
            trusted=task.trusted,
            framework=framework,
            entrypoint=entrypoint,
        )

    def _told(self, name: str) -> tuple[int | None, dict[str, float]]:
        told = entries.told(self._folder, name)
        if told is not None:
            return told[0] if told[0] is not None else entries.step_of(name), told[1]
        progress = self._progress() or Progress()
        step = entries.step_of(name)
        return progress.step if step is None else step, dict(progress.metrics)

    def _recognised(self, files: list[File]) -> tuple[str, str]:
        """Framework and entrypoint, as far as the files tell; else empty."""
        from mizzen.blobs import formats

        try:
            return formats.recognised({file.path: self._blobs.path(file.digest) for file in files})
        except (OSError, Invalid):
            return "", ""

    def _look(self, name: str) -> Found | None:
        try:
            return entries.look(self._folder, name)
        except ValueError as error:
            self.notes[name] = f"'{name}' is not kept as a checkpoint: {error}"
            return None


def _known(ledger: Ledger, name: str, found: Found) -> bool:
    return name in ledger.complete and ledger.complete[name].signature == found.signature


def restore(task: Task, job: JobPlace, blobs: FileBlobs) -> None:
    """The newest checkpoint of the job, where the folder is gone: a command that goes on has something to go on from.

    Unavailable, NoRoom, OSError. For one runner at a time.
    """
    if job.checkpoints.exists():
        return
    new = job.folder / ".checkpoints.new"
    for found in Shelf(blobs.documents).of_job(task.namespace, task.model, task.version, task.job_uid):
        with suppress(NotFound):  # a file of it is gone: an older one, then
            new.mkdir(parents=True, exist_ok=True)
            alone = [file.path for file in found.files] == [found.name]
            _lay_out(blobs, found, new if alone else new / found.name)
            records.write(new / f".{found.name}.meta.json", {"step": found.step, "metrics": dict(found.metrics)})
            break
    new.mkdir(parents=True, exist_ok=True)
    new.rename(job.checkpoints)


def _lay_out(blobs: FileBlobs, checkpoint: Checkpoint, target: Path) -> None:
    blobs.lay_out(checkpoint.files, target)
    with suppress(FileNotFoundError):
        target.with_name(f".{target.name}.laid").unlink()
    for file in checkpoint.files:
        (target / file.path).chmod(0o644)
