"""Publishing entries of the checkpoint folder as checkpoints: first their files as blobs, then the manifest.

    renamed into place   -> complete at once
    written in place     -> complete when the command has succeeded, and no other replica may be writing to it

Several runners of a set watch one folder: the first one publishes, the others find it done.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

from mizzen.blobs.file_store import FileBlobs
from mizzen.errors import Invalid, NotFound
from mizzen.runner.checkpoints import entries
from mizzen.runner.checkpoints.entries import CheckpointEntry
from mizzen.runner.checkpoints.ledger import CheckpointLedger, Complete, LedgerFile, locked
from mizzen.runner.checkpoints.log_marks import append_line
from mizzen.runner.failures import describe, may_pass
from mizzen.runs import records, safe_read
from mizzen.runs.checkpoints import Checkpoint, CheckpointStore, checkpoint_id, digest_of
from mizzen.runs.paths import JobPlace
from mizzen.runs.records import File, Progress, Task

QUIET = 5.0
"""Seconds after which an entry written in place counts as finished, even if other replicas still run."""
MOST_NOTES = 100
"""Maximum number of notes by one runner."""


class Publisher:
    """Publishes checkpoints. Blocking; for one thread. After Unavailable, NoRoom or OSError the rest is pending and may
    be retried."""

    def __init__(self, task: Task, job: JobPlace, blobs: FileBlobs, progress: Callable[[], Progress | None]) -> None:
        self._task = task
        self._job = job
        self._blobs = blobs
        self._store = CheckpointStore(blobs.documents)
        self._progress = progress
        self._folder = job.checkpoints
        self._ledger_file = LedgerFile(job)
        self._turn = job.folder / ".publishing.lock"
        self.published = 0
        self.notes: dict[str, str] = {}
        """Notes for users about entries, by name."""

    def begin(self) -> list[str]:
        """Call before the command starts: marks entries not known to be complete as doubtful. Returns the
        same as `record_renamed`."""
        self._ledger_file.compact()
        whole = self.record_renamed()
        looked = self._look_at_all(entries.list_names(self._folder))
        with self._ledger_file.open(sync=True) as ledger:
            ledger.doubt({name: found.signature for name, found in looked if not _is_known(ledger, name, found)})
        return whole

    def record_renamed(self) -> list[str]:
        """Record entries that were renamed into place unobserved as complete, too. Returns their names."""
        since = {name: entries.whole_since(self._folder, name) for name in entries.list_names(self._folder)}
        whole = {name: at for name, at in since.items() if at is not None}
        self._record_complete(whole)
        return list(whole)

    def on_rename(self, names: Iterable[str]) -> None:
        """Record these as complete in their present form. Names that are gone are ignored: the code may remove them."""
        self._record_complete(dict.fromkeys(filter(entries.is_name, names), time.time()))

    def record_sidecars(self) -> None:
        """Where renames cannot be observed: find the checkpoints of `mizzen.training` by their sidecar files, which it
        writes first."""
        names = entries.list_names(self._folder)
        self.on_rename(name for name in names if entries.read_sidecar(self._folder, name) is not None)

    def sweep(self, *, alone: bool) -> bool:
        """Call when the command succeeded: entries written in place are complete. False: some may be another replica's,
        unless `alone`, and must be checked again."""
        settled = True
        looked = self._look_at_all(entries.list_names(self._folder))
        with self._ledger_file.open(sync=True) as ledger:
            for name, found in looked:
                if _is_known(ledger, name, found) or ledger.doubtful.get(name) == found.signature:
                    continue
                if alone or time.time() - found.newest >= QUIET:
                    ledger.record_complete(name, Complete(found.signature, found.newest))
                else:
                    settled = False
        return settled

    def note_unusable(self) -> None:
        """Note entries that cannot be checkpoints. Call at the end, successful or not."""
        self._look_at_all(entries.list_names(self._folder))

    def publish(self) -> bool:
        """Publish all complete entries. False: some changed meanwhile, and must be tried again."""
        with self._ledger_file.open() as ledger:
            pending = ledger.pending()
        done = [self._publish_one(name) for name in pending]
        # Once for all of them: entries not on disk after a crash are read again, and give the same checkpoints.
        with self._ledger_file.open(sync=True):
            return all(done)

    def _record_complete(self, since: Mapping[str, float]) -> None:
        """Record these as complete in their present form."""
        looked = self._look_at_all(since)
        with self._ledger_file.open(sync=True) as ledger:
            for name, found in looked:
                if not _is_known(ledger, name, found):
                    ledger.record_complete(name, Complete(found.signature, since[name]))
                ledger.trust(name)

    def _publish_one(self, name: str) -> bool:
        # A separate lock: this may take long, and runners that start meanwhile must not wait for it.
        with locked(self._turn):
            with self._ledger_file.open() as ledger:
                entry = ledger.complete.get(name)
            if entry is None or not entry.pending:  # another runner was faster
                return True
            found = self._look(name)
            try:
                known = self._publish(name, found, entry) if found is not None else None
            except Exception as error:
                if found is None or may_pass(error):
                    raise
                # No later attempt would succeed, and the job has to end.
                self._note(name, f"was not stored: {_explain(error)}")
                known = replace(entry, signature=found.signature, left_out=True)
            self._settle(name, entry, known)
        return known is None or not known.pending

    def _publish(self, name: str, found: CheckpointEntry, entry: Complete) -> Complete | None:
        """Return the new record of it; None: it is gone."""
        checkpoint = self._put(name, found, entry)
        again = self._look(name)
        if again is None:
            return None
        if checkpoint is None or again.signature != found.signature:
            return replace(entry, signature=again.signature)
        if self._store.add(checkpoint):
            self.published += 1
        if found.left_out:
            self._note(name, f"was stored without {found.left_out} links, pipes or sockets in it")
        return Complete(found.signature, entry.at, checkpoint.id)

    def _settle(self, name: str, entry: Complete, known: Complete | None) -> None:
        """Store the new record, unless another entry was renamed into its place meanwhile: that one is still
        pending."""
        with self._ledger_file.open() as ledger:
            if ledger.complete.get(name) != entry:
                return
            if known is None:
                ledger.forget(name)
            else:
                ledger.record_complete(name, known)

    def _put(self, name: str, found: CheckpointEntry, entry: Complete) -> Checkpoint | None:
        """Store the files; None if a file disappeared meanwhile."""
        files = []
        try:
            with self._blobs.batch() as put:
                for path, file in found.files:
                    # Do not follow or block: it, or a folder above, may have become a link or a pipe meanwhile.
                    with safe_read.open_beneath(self._folder, str(file.relative_to(self._folder))) as content:
                        blob = put(content)
                    files.append(File(path, blob.digest, blob.size))
        except FileNotFoundError:
            return None
        task, sha256 = self._task, digest_of(files)
        step, metrics = self._read_sidecar(name)
        framework, entrypoint = self._detect_framework(files)
        return Checkpoint(
            id=checkpoint_id(task.job, name, sha256, found.written_ns),
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

    def _read_sidecar(self, name: str) -> tuple[int | None, dict[str, float]]:
        sidecar = entries.read_sidecar(self._folder, name)
        if sidecar is not None:
            return sidecar[0] if sidecar[0] is not None else entries.step_of(name), sidecar[1]
        progress = self._progress() or Progress()
        step = entries.step_of(name)
        return progress.step if step is None else step, dict(progress.metrics)

    def _detect_framework(self, files: list[File]) -> tuple[str, str]:
        """Return framework and entrypoint, if the files show them; else empty."""
        from mizzen.blobs import model_formats

        try:
            return model_formats.detect_framework({file.path: self._blobs.path(file.digest) for file in files})
        except (OSError, Invalid):
            return "", ""

    def _look_at_all(self, names: Iterable[str]) -> list[tuple[str, CheckpointEntry]]:
        """Return the entries that exist and can be stored."""
        looked = ((name, self._look(name)) for name in names)
        return [(name, found) for name, found in looked if found is not None]

    def _look(self, name: str) -> CheckpointEntry | None:
        """Never call this with the ledger open: problems are noted there."""
        try:
            return entries.read_entry(self._folder, name)
        except (ValueError, OSError) as error:
            if may_pass(error):
                raise
            self._note(name, f"was not stored: {_explain(error)}")
            return None

    def _note(self, name: str, what: str) -> None:
        """Add a note for users: to the report while the job runs and, by one runner only, to the permanent log."""
        printable = entries.printable_name(name)
        text = f"checkpoint '{printable}' {what}"
        if self.notes.get(name) == text or len(self.notes) >= MOST_NOTES:
            return
        self.notes[name] = text
        with self._ledger_file.open() as ledger:
            new = ledger.note(printable, text)
        if new:
            with suppress(OSError):
                append_line(self._job.replica(self._task.replica).log(self._task.attempt), f"mizzen: {text}")


def _is_known(ledger: CheckpointLedger, name: str, found: CheckpointEntry) -> bool:
    return name in ledger.complete and ledger.complete[name].signature == found.signature


def restore(task: Task, job: JobPlace, blobs: FileBlobs) -> None:
    """Restore the newest checkpoint of the job if the folder is gone, so that a resumed command can continue from it.

    Raises Unavailable, NoRoom, OSError. For one runner at a time.
    """
    if job.checkpoints.exists():
        return
    new = job.folder / ".checkpoints.new"
    for found in CheckpointStore(blobs.documents).of_job(task.namespace, task.model, task.version, task.job_uid):
        with suppress(NotFound):  # one of its files is gone: try an older one
            new.mkdir(parents=True, exist_ok=True)
            alone = [file.path for file in found.files] == [found.name]
            _lay_out(blobs, found, new if alone else new / found.name)
            records.write(new / f".{found.name}.meta.json", {"step": found.step, "metrics": dict(found.metrics)})
            _record_restored(job, new, found)
            break
    new.mkdir(parents=True, exist_ok=True)
    new.rename(job.checkpoints)


def _record_restored(job: JobPlace, folder: Path, checkpoint: Checkpoint) -> None:
    """Record that the restored entry is that checkpoint, not a new one."""
    laid_out = entries.read_entry(folder, checkpoint.name)
    if laid_out is None:
        return
    with closing(LedgerFile(job)) as file, file.open(sync=True) as ledger:
        ledger.record_complete(checkpoint.name, Complete(laid_out.signature, checkpoint.created, checkpoint.id))


def _lay_out(blobs: FileBlobs, checkpoint: Checkpoint, target: Path) -> None:
    blobs.lay_out(checkpoint.files, target)
    with suppress(FileNotFoundError):
        target.with_name(f".{target.name}.laid").unlink()
    for file in checkpoint.files:
        (target / file.path).chmod(0o644)


def _explain(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"it cannot be read: {error.strerror or describe(error)}"
    return describe(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {describe(error)}"
