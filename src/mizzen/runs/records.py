"""The records between engine and runners: plain data, as JSON in files that are replaced atomically."""

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
"""Maximum bytes of one record."""
Phase = Literal["fetching", "running", "keeping"]
"""The phases of a runner: it fetches code and data, runs the command, and stores the results."""


@dataclass(frozen=True, slots=True)
class File:
    path: str
    digest: str
    size: int


@dataclass(frozen=True, slots=True)
class JsonRecord:
    """The base of what is stored as JSON. Subclasses whose fields are not plain data read them in `from_json`."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(**data)


@dataclass(frozen=True, slots=True)
class Task(JsonRecord):
    """One attempt of one replica: everything its runner needs to know. Secrets are in the runner's environment."""

    namespace: str
    model: str
    version: str
    """Empty: the job has a command without a version."""
    version_uid: str
    job: str
    job_uid: str
    replica: str
    """`<type in lower case>-<index>`."""
    attempt: int
    """Counted from 0 over the whole life of the job; a resumed job continues with the next one."""
    command: tuple[str, ...]
    files: tuple[File, ...] = ()
    """The version's code and parameters, in blobs."""
    git: Mapping[str, str] | None = None
    """`repo` and `commit`, for a version whose code is not in files."""
    dataset: Mapping[str, Any] | None = None
    """As in the job's spec: s3, http or path."""
    hyperparameters: Mapping[str, Any] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables for the command."""
    secret_names: tuple[str, ...] = ()
    """Variables of the runner's own environment that the command gets, too."""
    cluster: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """host:port of every replica by lower-case type, in the order of their indices."""
    framework: str = ""
    trusted: bool = False
    """Whether the job's checkpoints may be unpickled when they are served."""
    working_dir: str = ""
    """The command's working folder, if not the version's folder."""
    grace: float = 10.0
    """Seconds between TERM and KILL."""
    confinement: Mapping[str, Any] | None = None
    """What the command may reach (`confinement/spec.py`); None: whatever the plane may."""
    keep_seconds: float = 600.0
    """How long to wait at the end for an unresponsive blob store."""

    @property
    def type(self) -> str:
        return self.replica.rpartition("-")[0]

    @property
    def index(self) -> int:
        return int(self.replica.rpartition("-")[2])

    @property
    def several(self) -> bool:
        return sum(map(len, self.cluster.values())) > 1

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
class Report(JsonRecord):
    """The present activity of a runner."""

    attempt: int
    phase: Phase
    message: str = ""
    """Its progress, or what it waits for."""
    pid: int | None = None
    """The command's process id."""
    started: float | None = None
    """When the command was first started in this attempt; seconds since 1970."""
    checkpoints: int = 0
    """Number of checkpoints stored so far by this runner."""


@dataclass(frozen=True, slots=True)
class Exit(JsonRecord):
    """How an attempt ended by itself: authoritative, also if the watched process reports something else."""

    attempt: int
    code: int
    """The command's exit code; 128 + s if killed by signal s. 1 if the command never ran."""
    reason: str = ""
    """Empty: the command ended, and `code` says how. Else a reason of `kinds.schema.conditions`."""
    message: str = ""
    """Mizzen's own explanation and advice. Everyone who may read the job may read it."""
    started: float | None = None
    """When the command was started; None: it never was."""
    ended: float = 0.0
    retry: bool = False
    """Whether another attempt may succeed: the command never ran, or something else failed."""
    last_lines: str = ""
    """The last output of a command that failed. Only for users who may read the job's log."""


LOST_MESSAGES: Mapping[str, str] = {
    "Interrupted": "The machine or all of its processes went down while the command ran.",
    "RunnerLost": "The process that watched the command was killed, and the command with it.",
}
"""The messages of attempts without an end of their own, by reason."""


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
    """Write atomically; the file is on disk when this returns. Raises OSError."""
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
    """Return the record; None if absent or invalid: the user's code may have written anything there."""
    try:
        data = json.loads(safe_read.read_small(path, MOST_BYTES)[0])
    except (OSError, ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None
