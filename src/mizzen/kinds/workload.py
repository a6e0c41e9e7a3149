"""Workload, internal: run this command, here, so many times. Controllers write it; only an Engine acts on it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from mizzen.kinds.meta import Part, Spec, Status
from mizzen.kinds.model import Artifact

EXIT_PERMANENT = 78
"""Exit code of a process that cannot work however often it is started: it is not started again (sysexits EX_CONFIG)."""


class WorkloadSpec(Spec):
    """What every replica runs with, set by the engine beside `env`:

    MIZZEN_SOCKET            where to listen for frames (purpose `serve`)
    MIZZEN_ARTIFACTS         a folder holding the artifacts at their paths
    MIZZEN_TERMINATION_LOG   a file for the last words: why the process gave up
    MIZZEN_DATA_DIR          the plane's data dir
    """

    purpose: Literal["serve"]
    command: tuple[str, ...] = Field(min_length=1, description="`python` as the first word is the plane's interpreter.")
    env: dict[str, str] = Field(default_factory=dict)
    artifacts: tuple[Artifact, ...] = ()
    replicas: int = Field(1, ge=0)
    restart: Literal["Always", "Never"] = "Always"
    grace_seconds: float = Field(10, ge=0, description="Between TERM and KILL.")


ReplicaState = Literal["starting", "ready", "waiting", "failed", "stopping"]


class ReplicaStatus(Part):
    """
    starting ──hello──> ready ──no longer wanted──> stopping ──> (gone)
        ^                 │
        ├── replaced ─────┤
        └── waiting <─────┴── exit    (back-off)
            failed                    (exit 78, or its files cannot be had: never again)

    Only a replica that is not wanted any more is stopping: one that ends to be started anew comes back at its address.
    """

    index: int
    state: ReplicaState
    address: str = Field("", description="unix:<path>, where the replica takes frames.")
    pid: int | None = None
    restarts: int = 0
    exit_code: int | None = Field(
        None, description="Of the last exit; killed by signal s is 128 + s; absent when unknown."
    )
    message: str = Field("", description="Why it is not ready, in a person's words.")


class WorkloadStatus(Status):
    """Condition `Available`: at least one replica is ready."""

    replicas: tuple[ReplicaStatus, ...] = ()
