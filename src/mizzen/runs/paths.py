"""Paths of the files of job sets.

<data_dir>/training/<uid of the job>/
    checkpoints/              MIZZEN_CHECKPOINT_DIR of all replicas: a restarted one finds earlier checkpoints
    dataset/                  MIZZEN_DATASET_DIR, unless the dataset is a local path
    replicas/<replica>/       `worker-0`, `chief-0`, …
        task.json             the task of its runner; the engine writes it
        report.json           the present activity of its runner
        reported/             the only folder here that the command may write to
            progress.json     MIZZEN_PROGRESS, written by the code
        progress.jsonl        earlier reports, a line each
        <attempt>.log         the command's output; it writes there itself, so a killed process loses no line
        <attempt>.times       when the log reached which size (`log_times.py`)
        <attempt>.begun       its command was started
        <attempt>.stopped     it stopped on request: it continues when the same attempt is started again
        <attempt>.lost        its runner was killed: another stores the command's results, and does not run it
        <attempt>.exit.json   how it ended by itself; written last of all
<data_dir>/events/<namespace>/<model>/<version, or `unversioned`>/<job>[/<replica>]
                              MIZZEN_LOG_DIR: event files, `metrics.jsonl`; with the replica if there are several
<data_dir>/work/<uid of the workload>/code/
                              the version's files; the command's working folder
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

UNVERSIONED = "unversioned"
METRICS_FILE = "metrics.jsonl"
"""In MIZZEN_LOG_DIR, one report per line: {"step": 3, "time": 1700000000.5, "metrics": {"loss": 0.25}}."""


@dataclass(frozen=True, slots=True)
class ReplicaPlace:
    folder: Path

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def task(self) -> Path:
        return self.folder / "task.json"

    @property
    def report(self) -> Path:
        return self.folder / "report.json"

    @property
    def reported(self) -> Path:
        return self.folder / "reported"

    @property
    def progress(self) -> Path:
        # Jobs of earlier releases have no such folder.
        return (self.reported if self.reported.is_dir() else self.folder) / "progress.json"

    @property
    def past_progress(self) -> Path:
        return self.folder / "progress.jsonl"

    def log(self, attempt: int) -> Path:
        return self.folder / f"{attempt}.log"

    def times(self, attempt: int) -> Path:
        return self.folder / f"{attempt}.times"

    def path_of_begun(self, attempt: int) -> Path:
        return self.folder / f"{attempt}.begun"

    def path_of_stopped(self, attempt: int) -> Path:
        return self.folder / f"{attempt}.stopped"

    def path_of_lost(self, attempt: int) -> Path:
        return self.folder / f"{attempt}.lost"

    def exit(self, attempt: int) -> Path:
        return self.folder / f"{attempt}.exit.json"


@dataclass(frozen=True, slots=True)
class JobPlace:
    data_dir: Path
    uid: str

    @property
    def folder(self) -> Path:
        return self.data_dir / "training" / self.uid

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    @property
    def dataset(self) -> Path:
        return self.folder / "dataset"

    def replica(self, name: str) -> ReplicaPlace:
        return ReplicaPlace(self.folder / "replicas" / name)

    def replicas(self) -> list[ReplicaPlace]:
        """List the replicas that ever ran, by name."""
        return [ReplicaPlace(folder) for folder in sorted((self.folder / "replicas").glob("*")) if folder.is_dir()]


def events_of_model(data_dir: Path, namespace: str, model: str) -> Path:
    return data_dir / "events" / namespace / model


def events(data_dir: Path, *, namespace: str, model: str, version: str, job: str, replica: str = "") -> Path:
    """`replica` is set if the job has several."""
    return events_of_model(data_dir, namespace, model) / (version or UNVERSIONED) / job / replica
