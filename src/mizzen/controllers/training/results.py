"""Files of jobs on disk and in Blobs: read while a job runs, cleaned up after its end. Blocking."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from mizzen.blobs.documents import FileDocuments
from mizzen.blobs.fs.remove_tree import remove_tree
from mizzen.controllers.training import checkpoint_retention
from mizzen.controllers.training.facts import SavedCheckpoints
from mizzen.errors import MizzenError
from mizzen.kinds.schema.resource import format_time
from mizzen.kinds.training import JobProgress, JobRetention
from mizzen.runs import progress, records
from mizzen.runs.checkpoints import Checkpoint, CheckpointStore
from mizzen.runs.paths import JobPlace

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class JobKey:
    """Identifies the files of a job."""

    namespace: str
    model: str
    version: str
    uid: str
    leader: str


@dataclass(frozen=True, slots=True)
class JobFiles:
    progress: JobProgress | None = None
    saved: int = 0
    """The number of checkpoints that runners report as saved; the checkpoint store lists them."""
    leader_is_done: bool = False


class JobResults:
    def __init__(self, data_dir: Path, documents: FileDocuments) -> None:
        self._data_dir = data_dir
        self._documents = documents
        self._checkpoints = CheckpointStore(documents)

    def read(self, job: JobKey) -> JobFiles:
        """Reads the reports on disk."""
        place = JobPlace(self._data_dir, job.uid)
        reports = {each.name: records.read(each.report) or {} for each in place.replicas()}
        counts = [report.get("checkpoints") for report in reports.values()]
        return JobFiles(
            progress=_progress(progress.read(place.replica(job.leader))),
            saved=sum(count for count in counts if isinstance(count, int)),
            leader_is_done=reports.get(job.leader, {}).get("phase") == "keeping",
        )

    def checkpoints(self, job: JobKey) -> list[Checkpoint] | None:
        """Newest first; None when the blob store is not available."""
        try:
            return self._checkpoints.of_job(job.namespace, job.model, job.version, job.uid)
        except (MizzenError, OSError) as error:
            log.warning("checkpoints of job %s cannot be listed: %s", job.uid, error)
            return None

    def prune(
        self, found: list[Checkpoint], retention: JobRetention | None, served: checkpoint_retention.ServedCheckpoints
    ) -> list[Checkpoint]:
        """Remove surplus checkpoints and return the rest."""
        gone: set[str] = set()
        for each in checkpoint_retention.find_surplus(found, retention, served):
            try:
                self._checkpoints.remove(each)
            except (MizzenError, OSError) as error:
                log.warning("checkpoint %s cannot be removed: %s; trying again later", each.id, error)
                break
            gone.add(each.id)
        return [each for each in found if each.id not in gone]

    def restore(self, removed: list[Checkpoint]) -> list[Checkpoint]:
        """Add checkpoints again, and return those. Their files still exist: they were unreferenced only briefly."""
        back = []
        for each in removed:
            try:
                self._checkpoints.add(each)
            except (MizzenError, OSError) as error:
                log.warning("checkpoint %s is served, and cannot be put back: %s", each.id, error)
                continue
            back.append(each)
        return back

    def clear_files(self, uid: str) -> None:
        """Remove files that an ended job no longer needs: its checkpoints are in Blobs."""
        place = JobPlace(self._data_dir, uid)
        for folder in (place.checkpoints, place.dataset):
            if folder.exists():
                _remove(folder)

    def remove_logs(self, uid: str) -> None:
        """Remove the job's logs after their retention."""
        try:
            for name in self._documents.names(f"logs/{uid}/"):
                self._documents.delete(name)
        except (MizzenError, OSError) as error:
            log.warning("logs of job %s cannot be removed: %s; trying again later", uid, error)
            return
        folder = JobPlace(self._data_dir, uid).folder
        if folder.exists():
            _remove(folder)


def saved_of(found: list[Checkpoint]) -> SavedCheckpoints:
    return SavedCheckpoints(len(found), found[0].id if found else None)


def _progress(now: records.Progress | None) -> JobProgress | None:
    if now is None:
        return None
    try:
        time = format_time(datetime.fromtimestamp(now.time, UTC))
    except (OverflowError, ValueError, OSError):
        time = None
    return JobProgress(step=now.step, total=now.total, metrics=dict(now.metrics), message=now.message, time=time)


def _remove(folder: Path) -> None:
    try:
        remove_tree(folder)
    except OSError as error:
        log.warning("%s cannot be removed: %s", folder, error)
