"""Workload, internal: run this command, here, so many times. Controllers write it; only an Engine acts on it."""

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
from mizzen.kinds.text.quantities import Gpu, Resources

EXIT_PERMANENT = 78
"""Exit code of a process that cannot work however often it is started: it is not started again (sysexits EX_CONFIG)."""

EXIT_OUT_OF_MEMORY = 71
"""Exit code of a process that was refused memory, and ended rather than go on with what it has (sysexits EX_OSERR)."""

RELOAD_REFUSED = "ReloadRefused"

MODEL_LABEL = "mizzen.dev/model"
"""Which model it serves: a label, so that what runs already can be given one without a restart."""

Spoken = Literal["v2", "v1", "seldon"]
"""What something that answers HTTP can speak."""


class Environment(Part):
    """The Python packages that its processes find, and nothing else of ours but the runtime."""

    python: str = Field(default="", description="Which Python, such as `3.12`; empty: that of the plane.")
    requirements: tuple[str, ...] = Field(
        default=(), description="As for pip. numpy is added when it is not among them."
    )


class TrainingTask(Part):
    """One attempt of one replica of a job set (purpose `train`). `runs.records.Task` is what becomes of it."""

    job: str = Field(description="The TrainingJob.")
    job_uid: str = Field(description="Its uid: where its files lie.")
    model: str = Field(description="The model that is trained.")
    version: str = Field(default="", description="The version whose code runs; empty: none.")
    version_uid: str = Field(default="", description="Its uid.")
    replica: str = Field(description="Type and index, such as `worker-0`.")
    attempt: int = Field(
        default=0, ge=0, description="Counted over the life of the job. Another one is another process."
    )
    git: dict[str, str] | None = Field(default=None, description="Code that is in no artifacts: `repo` and `commit`.")
    dataset: Dataset | None = Field(default=None, description="What is fetched before the command starts.")
    hyperparameters: dict[str, Any] = Field(default_factory=dict, description="Handed to the code as JSON.")
    cluster: dict[str, tuple[str, ...]] = Field(
        default_factory=dict, description="host:port of all replicas, by type in lower case."
    )
    framework: str = Field(default="", description="What trains it, as far as it is said.")
    trusted: bool = Field(default=False, description="Whether what it saves may be unpickled.")


class WorkloadSpec(Spec):
    """What every replica runs with, set by the engine beside `env` and `secretEnv`:

    MIZZEN_SOCKET            where to listen for frames (purpose `serve`)
    MIZZEN_PORT              where to answer HTTP, on 127.0.0.1 (purpose `answer`); the same is said by PORT,
                             PREDICTIVE_UNIT_SERVICE_PORT and PREDICTIVE_UNIT_HTTP_SERVICE_PORT
    MIZZEN_ARTIFACTS         a folder holding the artifacts at their paths
    MIZZEN_ARTIFACTS_DIGEST  what they are called, by `running.files_digest`
    MIZZEN_RELOADED          the folder to use instead, and
    MIZZEN_RELOADED_DIGEST   what those are called, when it was begun with others and has been given these since
    MIZZEN_TERMINATION_LOG   a file for the last words: why the process gave up
    MIZZEN_DATA_DIR          the plane's data dir
    MIZZEN_THREADS           how many threads its libraries may use
    MIZZEN_MEMORY            bytes of memory it may use; absent: as many as there are
    CUDA_VISIBLE_DEVICES     which GPUs it may use, where the machine has any; empty: none
    MIZZEN_GPU_MEMORY_SHARE  how much of the memory of each, up to 1
    MIZZEN_GPU_MEMORY        the same in bytes, where the engine knows them
    MIZZEN_ENVIRONMENT       what its environment is called, when it has one of its own
    MIZZEN_TASK              a file that holds a `runs.records.Task` (purpose `train`), and
    MIZZEN_ATTEMPT           which attempt it is,
    MIZZEN_PYTHON            the interpreter that `python` is to its command,
    MIZZEN_COMMAND_PYTHONPATH  where that finds modules beside its environment

    With purpose `train` it is a runner of ours that is started, and `command` is what that runs. With purposes `answer`
    and `show`, `$(NAME)` in `command` and in the values of `env` stands for a variable, as in Kubernetes: of the port,
    or of `env`; never for one of `secretEnv`, whose values stand nowhere.
    """

    purpose: Literal["serve", "answer", "show", "train"] = Field(
        description="What it is for: `serve`, it takes frames on a socket; `answer`, it answers HTTP on a port that it "
        "is given; `show`, so does a tool for people; `train`, it does a task and ends."
    )
    command: tuple[str, ...] = Field(min_length=1, description="`python` as the first word is that of its environment.")
    protocol: Spoken | None = Field(
        None, description="What it speaks (purpose `answer`). Absent: it is asked, once for each process."
    )
    model: str = Field("", description="The model whose readiness it is asked for (purpose `answer`).")
    ready_path: str = Field("", description="What answers 200 once it is ready (purpose `show`).")
    task: TrainingTask | None = Field(None, description="What is to be done (purpose `train`).")
    working_dir: str | None = Field(
        None,
        description="Where it is started (purposes `answer` and `train`), if that is the absolute path of a folder "
        "that is there; else in a folder of its own.",
    )
    env: dict[str, str] = Field(default_factory=dict, description="Variables of its environment.")
    secret_env: dict[str, SecretKeyRef] = Field(
        default_factory=dict, description="Variables whose values are those of secrets when a process is started."
    )
    environment: Environment | None = Field(
        None, description="What `python` finds; absent: what the plane itself is installed with."
    )
    artifacts: tuple[Artifact, ...] = Field((), description="Files that are laid out for it.")
    began: str = Field(
        "",
        description="Digest of the files its processes were begun with, where they take those of `artifacts` without a "
        "restart.",
    )
    replicas: int = Field(1, ge=0, description="How many processes.")
    resources: Resources | None = Field(None, description="What each of them may use.")
    gpu: Gpu | None = Field(None, description="A share of one GPU for each of them, or a number of whole ones.")
    restart: Literal["Always", "Never"] = Field("Always", description="Whether one that ended is started again.")
    grace_seconds: float = Field(10, ge=0, description="Between TERM and KILL.")

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        for name in self.secret_env:
            if name in self.env:
                yield Fault(f"{at}.secretEnv.{name}", "is given in env, too")
        needed = {"answer": ("model", self.model), "show": ("readyPath", self.ready_path), "train": ("task", self.task)}
        for purpose, (field, value) in needed.items():
            if (self.purpose == purpose) != bool(value):
                yield Fault(f"{at}.{field}", f"is needed with purpose {purpose}, and with no other")
        if self.protocol and self.purpose != "answer":
            yield Fault(f"{at}.protocol", "is for purpose answer only")
        if self.working_dir and self.purpose not in ("answer", "train"):
            yield Fault(f"{at}.workingDir", "is for purposes answer and train only")
        if self.purpose == "train" and (self.replicas > 1 or self.restart == "Always"):
            yield Fault(at, "a task is done by one process, and whether again is for its job to say")


ReplicaState = Literal["starting", "ready", "waiting", "failed", "stopping", "ended"]


class ReplicaStatus(Part):
    """
    starting ──hello──> ready ──no longer wanted──> stopping ──> (gone)      (hello: or 200, of what answers HTTP)
        ^                 │
        ├── replaced ─────┤
        └── waiting <─────┴── exit    (back-off)
            failed                    (exit 78, or its files cannot be had: never again)

    With purpose `train`: starting (it brings code and data) ──> ready (the command runs) ──> ended; `waiting` before.

    Only a replica that is not wanted any more is stopping: one that ends to be started anew comes back at its address.
    """

    index: int = Field(description="Which one, counted from 0.")
    state: ReplicaState = Field(description="Where it is in its life.")
    address: str = Field(
        default="",
        description="unix:<path>, where the replica takes frames; or http://127.0.0.1:<port>, where it answers.",
    )
    pid: int | None = Field(default=None, description="Of its process.")
    restarts: int = Field(default=0, description="How often it was started again.")
    exit_code: int | None = Field(
        default=None, description="Of the last exit; killed by signal s is 128 + s; absent when unknown."
    )
    reason: str = Field(
        default="",
        description="One word for why it is not ready, where there is one: `SecretNotFound`, `OutOfMemory`, "
        "`BuildingEnvironment`, `EnvironmentFailed`. Of one that is ready: `ReloadRefused`, it goes on with the files "
        "it has.",
    )
    message: str = Field(default="", description="Why it is not ready, in a person's words.")
    files: str = Field(default="", description="Digest of the files it answers with, as it said; empty: it did not.")
    reloads: bool = Field(default=False, description="Whether it takes other files without a restart.")
    protocol: str = Field(
        default="", description="What it speaks: `v2`, `v1` or `seldon`, of one that answers HTTP and has said so."
    )
    attempt: int | None = Field(default=None, description="Of a task: which attempt all of this is about.")
    started: str | None = Field(default=None, description="Of a task: when its command was started, in UTC.")
    ended: str | None = Field(default=None, description="Of a task: when it ended by itself, in UTC.")
    retry: bool = Field(
        default=False, description="Of a task that ended: it was not its command that failed; another attempt may do."
    )


class WorkloadStatus(Status):
    """Condition `Available`: at least one replica is ready."""

    replicas: tuple[ReplicaStatus, ...] = Field(default=(), description="Each process.")
    signature: Signature | None = Field(default=None, description="What they take and give, as the last one said.")
