"""What runners are told, and what they tell: plain data, as JSON in files that are replaced whole."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

from mizzen.runs import safe_read

MOST_BYTES = 64 << 20
"""Of one record."""
Phase = Literal["fetching", "running", "keeping"]
"""Of a runner: it brings code and data, the command runs, it puts away what the command left."""


@dataclass(frozen=True, slots=True)
class File:
    path: str
    digest: str
    size: int


@dataclass(frozen=True, slots=True)
class Task:
    """One attempt of one replica: all that its runner needs to know. Secrets are in the runner's environment."""

    namespace: str
    model: str
    version: str
    """Empty: the job has a command and no version."""
    version_uid: str
    job: str
    job_uid: str
    replica: str
    """`<type in lower case>-<index>`."""
    attempt: int
    """Counted from 0 over the whole life of the job; a suspended and resumed job goes on with the next one."""
    command: tuple[str, ...]
    files: tuple[File, ...] = ()
    """The version's code and parameters, in Blobs."""
    git: Mapping[str, str] | None = None
    """`repo` and `commit`, for a version whose code is in no files."""
    dataset: Mapping[str, Any] | None = None
    """As the job's spec says it: s3, http or path."""
    hyperparameters: Mapping[str, Any] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    """For the command."""
    secret_names: tuple[str, ...] = ()
    """Variables of the runner's own environment that are for the command, too."""
    cluster: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """host:port of every replica by type in lower case, in the order of their indices."""
    framework: str = ""
    trusted: bool = False
    """Whether what the job saves may be unpickled when it is served."""
    working_dir: str = ""
    """Where the command runs, when not in the version's folder."""
    grace: float = 10.0
    """Seconds between TERM and KILL."""
    keep_seconds: float = 600.0
    """How long a store of blobs that does not answer is waited for at the end."""

    @property
    def type(self) -> str:
        return self.replica.rpartition("-")[0]

    @property
    def index(self) -> int:
        return int(self.replica.rpartition("-")[2])

    @property
    def several(self) -> bool:
        return sum(map(len, self.cluster.values())) > 1

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        listed = {
            "command": tuple(data["command"]),
            "files": tuple(File(**file) for file in data.get("files", ())),
            "secret_names": tuple(data.get("secret_names", ())),
            "cluster": {type_: tuple(hosts) for type_, hosts in data.get("cluster", {}).items()},
        }
        return cls(**{**data, **listed})


@dataclass(frozen=True, slots=True)
class Report:
    """What a runner does just now."""

    attempt: int
    phase: Phase
    message: str = ""
    """How far it is, or what it waits for."""
    pid: int | None = None
    """Of the command."""
    started: float | None = None
    """When the command was first started in this attempt; seconds since 1970."""
    checkpoints: int = 0
    """Kept so far by this runner."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(**data)


@dataclass(frozen=True, slots=True)
class Exit:
    """How an attempt ended by itself: the truth of it, whatever the process that was watched reports."""

    attempt: int
    code: int
    """Of the command; killed by signal s is 128 + s. Of an attempt whose command never ran: 1."""
    reason: str = ""
    """Empty: the command ended, and `code` says how. Else one of `EXIT_REASONS`."""
    message: str = ""
    """In our own words: what it was, and what to do about it. Whoever may read the job may read them."""
    started: float | None = None
    """When the command was; None: it never was."""
    ended: float = 0.0
    retry: bool = False
    """The command never ran, or something else than it failed, and another attempt may do better."""
    last_lines: str = ""
    """That the command printed, when it ended badly. For those only who may read the job's log."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(**data)


EXIT_REASONS: Mapping[str, str] = {
    "CodeUnavailable": "The version's files cannot be had.",
    "DatasetUnavailable": "The dataset cannot be had, or is not what its digest says.",
    "CommandNotFound": "The command is not there, or cannot be started.",
    "NoRoom": "The disk is full.",
    "OutOfMemory": "The command was ended for want of memory.",
    "StorageUnavailable": "What the command saved could not be kept: the store of blobs did not answer.",
    "Interrupted": "The machine or all of its processes went down while the command ran.",
    "RunnerLost": "The process that watched the command was killed, and the command with it.",
}


@dataclass(frozen=True, slots=True)
class Progress:
    """As the code reports it in MIZZEN_PROGRESS; every field may be missing there."""

    step: int | None = None
    total: int | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    message: str = ""
    time: float = 0.0
    """When it was written."""

    @property
    def fraction(self) -> float | None:
        if self.step is None or not self.total or self.total <= 0:
            return None
        return min(max(self.step / self.total, 0.0), 1.0)


def write(path: Path, data: Mapping[str, Any]) -> None:
    """Whole or not at all, and on disk when this returns. OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(handle, "w") as file:
            json.dump(data, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def read(path: Path) -> dict[str, Any] | None:
    """None when it is not there, or is none of ours: code that runs beside it may have put anything there."""
    try:
        data = json.loads(safe_read.small(path, MOST_BYTES)[0])
    except (OSError, ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None
