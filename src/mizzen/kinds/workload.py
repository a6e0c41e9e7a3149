"""Workload, an internal kind: a command to run, its place and its replicas. Controllers write it; an Engine runs it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field

from mizzen.errors import Fault
from mizzen.kinds.model import Artifact
from mizzen.kinds.parts.datasets import Dataset
from mizzen.kinds.parts.env import SecretKeyRef
from mizzen.kinds.parts.signatures import Signature
from mizzen.kinds.schema.findings import Context, Finding
from mizzen.kinds.schema.resource import Part, Spec, Status
from mizzen.kinds.text.quantities import Gpu, ResourceRequirements

EXIT_PERMANENT = 78
"""Exit code of a process that can never work, and so is not restarted (sysexits EX_CONFIG)."""

EXIT_OUT_OF_MEMORY = 71
"""Exit code of a process that ran out of memory and exited rather than continue (sysexits EX_OSERR)."""

RELOAD_REFUSED = "ReloadRefused"

MODEL_LABEL = "mizzen.dev/model"
"""The model it serves. A label, so that running Workloads can get one without a restart."""

WireProtocol = Literal["v2", "v1", "seldon"]
"""The protocols that an HTTP server of models can speak."""


class Environment(Part):
    """The Python packages of its processes. Of Mizzen's own packages, they see only the runtime."""

    python: str = Field(default="", description="The Python version, such as `3.12`. Empty: that of the plane.")
    requirements: tuple[str, ...] = Field(default=(), description="Requirements as for pip. numpy is added if missing.")


class TrainingTask(Part):
    """One attempt of one replica of a job set (purpose `train`). The engine turns it into a `runs.records.Task`."""

    job: str = Field(description="The TrainingJob.")
    job_uid: str = Field(description="The uid of the job, which names the folder of its files.")
    model: str = Field(description="The model to train.")
    version: str = Field(default="", description="The version whose code to run. Empty: none.")
    version_uid: str = Field(default="", description="The uid of the version.")
    replica: str = Field(description="Type and index, such as `worker-0`.")
    attempt: int = Field(
        default=0,
        ge=0,
        description="The number of the attempt, counted over the life of the job. Each attempt is a new process.",
    )
    git: dict[str, str] | None = Field(default=None, description="Code that is not in artifacts: `repo` and `commit`.")
    dataset: Dataset | None = Field(default=None, description="The data to download before the command starts.")
    hyperparameters: dict[str, Any] = Field(
        default_factory=dict, description="Hyperparameters, passed to the code as JSON."
    )
    cluster: dict[str, tuple[str, ...]] = Field(
        default_factory=dict, description="The host:port of all replicas, by type in lower case."
    )
    framework: str = Field(default="", description="The framework to train with, if it is known.")
    trusted: bool = Field(default=False, description="Whether its checkpoints may be unpickled.")


class WorkloadSpec(Spec):
    """The engine sets these variables for every replica, in addition to `env` and `secretEnv`:

    MIZZEN_SOCKET            where to listen for frames (purpose `serve`)
    MIZZEN_PORT              the HTTP port to listen on, on 127.0.0.1 (purpose `answer`); also set as PORT,
                             PREDICTIVE_UNIT_SERVICE_PORT and PREDICTIVE_UNIT_HTTP_SERVICE_PORT
    MIZZEN_ARTIFACTS         the folder with the artifacts at their paths
    MIZZEN_ARTIFACTS_DIGEST  their digest, by `workload_template.files_digest`
    MIZZEN_RELOADED          the folder to use instead, and
    MIZZEN_RELOADED_DIGEST   its digest, if the process started with other files and got new ones since
    MIZZEN_TERMINATION_LOG   a file for the reason why the process exited
    MIZZEN_DATA_DIR          the plane's data dir
    MIZZEN_THREADS           how many threads its libraries may use
    MIZZEN_MEMORY            bytes of memory it may use; absent: all
    CUDA_VISIBLE_DEVICES     the GPUs it may use, if the machine has any; empty: none
    MIZZEN_GPU_MEMORY_SHARE  the share of the memory of each GPU, up to 1
    MIZZEN_GPU_MEMORY        the same in bytes, if the engine knows them
    MIZZEN_ENVIRONMENT       the name of its environment, if it has its own
    MIZZEN_TASK              a file with a `runs.records.Task` (purpose `train`), and
    MIZZEN_ATTEMPT           the number of the attempt,
    MIZZEN_PYTHON            the interpreter that `python` means in its command,
    MIZZEN_COMMAND_PYTHONPATH  where that interpreter finds modules outside its environment

    With purpose `train`, the engine starts a runner, which runs `command`. With purposes `answer` and `show`, `$(NAME)`
    in `command` and in the values of `env` is replaced as in Kubernetes, by the port or by a variable of `env`.
    Variables of `secretEnv` are never replaced, so that their values appear nowhere.
    """

    purpose: Literal["serve", "answer", "show", "train"] = Field(
        description="`serve`: receives frames on a socket; `answer`: serves HTTP on the port it is given; `show`: a "
        "tool for people, which also serves HTTP; `train`: runs a task and exits."
    )
    command: tuple[str, ...] = Field(
        min_length=1, description="The command. `python` as its first word is the interpreter of its environment."
    )
    protocol: WireProtocol | None = Field(
        None, description="The protocol it speaks (purpose `answer`). Absent: each process is asked once."
    )
    model: str = Field("", description="The model whose readiness is checked (purpose `answer`).")
    ready_path: str = Field("", description="The path that returns 200 once it is ready (purpose `show`).")
    task: TrainingTask | None = Field(None, description="The task to run (purpose `train`).")
    working_dir: str | None = Field(
        None,
        description="The working directory (purposes `answer` and `train`), if it is the absolute path of an existing "
        "folder. Otherwise a folder of its own.",
    )
    env: dict[str, str] = Field(default_factory=dict, description="Environment variables.")
    secret_env: dict[str, SecretKeyRef] = Field(
        default_factory=dict,
        description="Environment variables with the values of secrets, read when a process starts.",
    )
    environment: Environment | None = Field(
        None, description="The environment of `python`. Absent: that of the plane itself."
    )
    artifacts: tuple[Artifact, ...] = Field((), description="The files it gets.")
    began: str = Field(
        "",
        description="The digest of the files that its processes started with, if they load those of `artifacts` "
        "without a restart.",
    )
    replicas: int = Field(1, ge=0, description="The number of processes.")
    resources: ResourceRequirements | None = Field(None, description="The resources of each process.")
    gpu: Gpu | None = Field(None, description="A share of one GPU for each process, or a number of whole GPUs.")
    restart: Literal["Always", "Never"] = Field("Always", description="Whether a process that exited is restarted.")
    grace_seconds: float = Field(10, ge=0, description="The time between SIGTERM and SIGKILL.")

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        for name in self.secret_env:
            if name in self.env:
                yield Fault(f"{at}.secretEnv.{name}", "is also set in env")
        needed = {"answer": ("model", self.model), "show": ("readyPath", self.ready_path), "train": ("task", self.task)}
        for purpose, (field, value) in needed.items():
            if (self.purpose == purpose) != bool(value):
                yield Fault(f"{at}.{field}", f"required with purpose {purpose}, and not possible with others")
        if self.protocol and self.purpose != "answer":
            yield Fault(f"{at}.protocol", "only possible with purpose answer")
        if self.working_dir and self.purpose not in ("answer", "train"):
            yield Fault(f"{at}.workingDir", "only possible with purposes answer and train")
        if self.purpose == "train" and (self.replicas > 1 or self.restart == "Always"):
            yield Fault(at, "a task has one process, and its job decides about restarts")


ReplicaState = Literal["starting", "ready", "waiting", "failed", "stopping", "ended"]


class ReplicaStatus(Part):
    """
    starting ──hello──> ready ──no longer wanted──> stopping ──> (gone)      (hello: or 200 from an HTTP server)
        ^                 │
        ├── replaced ─────┤
        └── waiting <─────┴── exit    (back-off)
            failed                    (exit 78, or its files are unavailable: no restart)

    With purpose `train`: starting (fetches code and data) ──> ready (the command runs) ──> ended; `waiting` before.

    Only a replica that is no longer wanted is stopping: one that exits to be restarted comes back at its address.
    """

    index: int = Field(description="The index of the replica, counted from 0.")
    state: ReplicaState = Field(description="The state of the replica.")
    address: str = Field(
        default="",
        description="Where it listens: unix:<path> for frames, or http://127.0.0.1:<port> for HTTP.",
    )
    pid: int | None = Field(default=None, description="The id of its process.")
    restarts: int = Field(default=0, description="How often it was restarted.")
    exit_code: int | None = Field(
        default=None, description="The code of the last exit; 128 + s if killed by signal s; absent if unknown."
    )
    reason: str = Field(
        default="",
        description="Why it is not ready, in one word: `SecretNotFound`, `OutOfMemory`, `BuildingEnvironment`, "
        "`EnvironmentFailed`. If it is ready: `ReloadRefused`, it keeps the files it has.",
    )
    message: str = Field(default="", description="Why it is not ready, for people.")
    files: str = Field(
        default="", description="The digest of the files it serves, as it reported; empty if it did not."
    )
    reloads: bool = Field(default=False, description="Whether it can load other files without a restart.")
    protocol: str = Field(
        default="", description="The protocol it speaks, `v2`, `v1` or `seldon`, if it serves HTTP and has reported it."
    )
    attempt: int | None = Field(default=None, description="For a task: the attempt that this describes.")
    started: str | None = Field(default=None, description="For a task: when its command started, in UTC.")
    ended: str | None = Field(default=None, description="For a task: when it exited, in UTC.")
    retry: bool = Field(
        default=False, description="For a task that ended: its command did not fail, so another attempt may succeed."
    )


class WorkloadStatus(Status):
    """Condition `Available`: at least one replica is ready."""

    replicas: tuple[ReplicaStatus, ...] = Field(default=(), description="The state of each process.")
    signature: Signature | None = Field(default=None, description="Their inputs and outputs, as last reported.")
