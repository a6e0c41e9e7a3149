"""TrainingJob: one job set with all its replicas, for a version and a configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from mizzen.errors import Fault
from mizzen.kinds.parts import uniqueness
from mizzen.kinds.parts.datasets import Dataset
from mizzen.kinds.parts.env import EnvVar
from mizzen.kinds.parts.pods import PodTemplate, image_warning, unrunnable_images
from mizzen.kinds.schema.findings import Context, Finding, suggestion
from mizzen.kinds.schema.resource import Part, Spec, Status
from mizzen.kinds.schema.size_limits import MaxItems
from mizzen.kinds.serving import Layer
from mizzen.kinds.text.durations import Duration
from mizzen.kinds.text.frameworks import Framework, framework_warning
from mizzen.kinds.text.names import Name, NameOrNothing
from mizzen.kinds.text.quantities import Gpu, ResourceRequirements, gpu_warning
from mizzen.kinds.text.versions import VersionOrNothing

REPLICA_TYPES = ("Chief", "Master", "Worker", "PS", "Evaluator")
LEADERS = ("Chief", "Master")
"""The replica type whose success decides about the job. Without one, the first worker decides."""

TRUSTED_ANNOTATION = "mizzen.dev/trusted"
"""`true`: the user who started the job may trust code, so its checkpoints may be unpickled. Only admission sets it."""
IDEMPOTENCY_ANNOTATION = "mizzen.dev/idempotency"
"""The call that created the job (`server/admission/idempotency.py`). Only that call sets it."""
CHANGEABLE = frozenset(
    {
        "suspend", "priority", "ttlSecondsAfterFinished", "activeDeadlineSeconds", "retention", "cleanPodPolicy",
        "backoffLimit",
    }
)  # fmt: skip
"""Fields that may change: when it runs, for how long, and what is kept. All others record how the model was trained."""

RestartPolicy = Literal["Never", "OnFailure", "Always", "ExitCode"]


class ReplicaSpec(Part):
    """The replicas of one type."""

    replicas: int = Field(1, ge=0, le=1000, description="The number of replicas.")
    restart_policy: RestartPolicy | None = Field(
        None,
        description="Never, OnFailure, Always, or ExitCode, which retries exit codes from 128. Default: the job's.",
    )
    template: PodTemplate | None = Field(None, description="The pod that each replica runs in.")
    gpu: Gpu | None = Field(None, description="The GPUs of each replica. Default: those of the job.")
    resources: ResourceRequirements | None = Field(
        None, description="The resources of each replica. Default: those of the job."
    )

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        yield from gpu_warning(self.gpu, f"{at}.gpu", context)
        if self.template is not None:
            yield from unrunnable_images(self.template.spec, f"{at}.template.spec", context, "the job cannot run here")


class JobRetention(Part):
    """What to keep of a job. Checkpoints that are served are always kept."""

    checkpoints: int | None = Field(None, ge=1, description="The number of newest checkpoints to keep. Default: all.")
    best: int | None = Field(None, ge=1, description="The number of best checkpoints to keep in addition, by `metric`.")
    metric: str | None = Field(None, min_length=1, description="The metric for `best`.")
    mode: Literal["max", "min"] = Field(
        "max", description="Whether higher (`max`) or lower (`min`) values of `metric` are better."
    )
    logs: Duration | None = Field(
        None, description="How long to keep logs after the job ends, such as `30d`. Default: forever."
    )

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        if self.best is not None and self.metric is None and context.was_read(at, "metric"):
            yield Fault(f"{at}.metric", "required, to decide which checkpoints are the best")


class TrainingSettings(Part):
    """How a training job runs, regardless of its code."""

    dataset: Dataset | None = Field(None, description="The data to download before the command starts.")
    hyperparameters: Annotated[dict[str, Any], MaxItems(10_000)] = Field(
        default_factory=dict, description="Hyperparameters, passed to the code as JSON."
    )
    success_policy: Literal["Chief", "AllWorkers"] = Field(
        "Chief",
        description="`Chief`: the job succeeds when its chief (else worker 0) does; `AllWorkers`: when all workers do.",
    )
    restart_policy: RestartPolicy = Field("Never", description="The restart policy of replica types without their own.")
    backoff_limit: int = Field(6, ge=0, description="The number of restarts after which the job fails.")
    clean_pod_policy: Literal["Running", "All", "None"] = Field(
        "Running", description="At the end, `Running` stops running replicas, `All` removes all, `None` leaves all."
    )
    ttl_seconds_after_finished: int | None = Field(
        None, ge=0, description="Delete the job this long after it ends; checkpoints are kept. Default: never."
    )
    active_deadline_seconds: int | None = Field(
        None, ge=1, description="The running time, restarts included, after which the job fails."
    )
    gpu: Gpu | None = Field(
        None, description="The GPUs of each replica: a share of one, such as 0.5, or a number of whole GPUs."
    )
    resources: ResourceRequirements | None = Field(None, description="The resources of each replica.")
    priority: int = Field(0, ge=-1000, le=1000, description="Jobs with higher priority start first if not all fit.")
    retention: JobRetention | None = Field(None, description="What to keep after the job ends. Default: everything.")
    env: Annotated[tuple[EnvVar, ...], MaxItems(256)] = Field(
        (), description="Environment variables: values, or references to secrets."
    )

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        yield from gpu_warning(self.gpu, f"{at}.gpu", context)
        yield from uniqueness.name_faults(self.env, f"{at}.env", "variable")


class TrainingTarget(Spec):
    """What a job trains, with which code, and where."""

    model_name: Name = Field(description="The model to train.")
    version: VersionOrNothing = Field(None, description="The version whose code to run.")
    deploy_to_layer: Layer = Field("cloud", description="The layer to run in: `cloud` or `edge`.")
    framework_type: Framework | None = Field(
        None, description="The framework to train with. Default: that of the model."
    )
    node_selector: Annotated[dict[str, str], MaxItems(256)] = Field(
        default_factory=dict, description="Labels that the nodes must have."
    )
    node_name: NameOrNothing = Field("", description="The node to run on.")
    image: str = Field("", description="A container image to train with. Empty means not set.")
    command: Annotated[tuple[str, ...], MaxItems(1000)] = Field(
        (), description="The command of each replica. Default: that of the version or the image."
    )
    replicas: int | None = Field(None, ge=0, le=1000, description="The number of workers, in place of a replica map.")
    replica_specs: Annotated[dict[str, ReplicaSpec] | None, MaxItems(256)] = Field(
        None, description="The replica map. Types: Chief (or Master), Worker, PS, Evaluator."
    )
    tf_replica_specs: Annotated[dict[str, ReplicaSpec] | None, MaxItems(256)] = Field(
        None, alias="tfReplicaSpecs", description="The replica map, as in a TFJob."
    )
    pytorch_replica_specs: Annotated[dict[str, ReplicaSpec] | None, MaxItems(256)] = Field(
        None, alias="pytorchReplicaSpecs", description="The replica map, as in a PyTorchJob."
    )


class TrainingJobSpec(TrainingSettings, TrainingTarget):
    """Runs the code of a `version`, an `image`, a `command`, or the templates of the replica map."""

    suspend: bool = Field(False, description="Stop all replicas until this is false again.")

    @property
    def replica_map(self) -> Mapping[str, ReplicaSpec]:
        """The replicas by type, in whichever form they were written. Policies of the job are not filled in."""
        given = [specs for specs in self._maps().values() if specs is not None]
        if given:
            return given[0]
        return {"Worker": ReplicaSpec.model_validate({"replicas": 1 if self.replicas is None else self.replicas})}

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        yield from framework_warning(self.framework_type, f"{at}.frameworkType")
        yield from super().check(at, context)
        if self.image and "containers" not in context.capabilities:
            yield image_warning(f"{at}.image", "the job cannot run here")
        if not (self.version or self.image or self.command) and self._bare(at, context):
            yield Fault(at, "has nothing to run: set version, image, command, or templates in replicaSpecs")
        yield from self._replica_faults(at, context)

    def _bare(self, at: str, context: Context) -> bool:
        """Whether it is certain that no field says what to run."""
        given = (name for name, specs in self._maps().items() if specs is not None)
        where = f"{at}.{next(given, 'replicaSpecs')}"
        sure = context.was_read(at, "version", "image", "command", *self._maps())
        return sure and has_no_templates(self.replica_map, where, context)

    def _replica_faults(self, at: str, context: Context) -> Iterator[Fault]:
        given = [name for name, specs in self._maps().items() if specs is not None]
        if self.replicas is not None:
            given.append("replicas")
        if len(given) > 1:
            yield Fault(at, f"{' and '.join(given)} have the same meaning; set only one of them")
            return
        where = f"{at}.{given[0]}" if given else at
        yield from map_faults(self.replica_map, where)
        sure = context.was_read(at, "replicas", *self._maps())
        if self.success_policy == "AllWorkers" and not _count(self.replica_map, "Worker") and sure:
            yield Fault(f"{at}.successPolicy", "AllWorkers needs at least one Worker")

    def _maps(self) -> dict[str, dict[str, ReplicaSpec] | None]:
        return {
            "replicaSpecs": self.replica_specs,
            "tfReplicaSpecs": self.tf_replica_specs,
            "pytorchReplicaSpecs": self.pytorch_replica_specs,
        }


def has_no_templates(replicas: Mapping[str, ReplicaSpec], at: str, context: Context) -> bool:
    """Whether it is certain that no replica has a template."""
    return all(
        replica.template is None and context.was_read(f"{at}.{type_}", "template")
        for type_, replica in replicas.items()
    )


def map_faults(replicas: Mapping[str, ReplicaSpec], at: str) -> Iterator[Fault]:
    unknown = [type_ for type_ in replicas if type_ not in REPLICA_TYPES]
    for type_ in unknown:
        yield Fault(at, f"unknown replica type '{type_}'; {suggestion(type_, REPLICA_TYPES, 'types')}")
    if all(leader in replicas for leader in LEADERS):
        yield Fault(at, "has both Chief and Master, which are two names of the same type")
    for leader in LEADERS:
        if _count(replicas, leader) > 1:
            yield Fault(f"{at}.{leader}.replicas", f"must be at most 1, not {_count(replicas, leader)}")
    if unknown:
        return  # an unknown type may be a misspelling of the missing one
    if not sum(replica.replicas for replica in replicas.values()):
        yield Fault(at, "has no replicas; at least 1 is needed")
    elif not any(_count(replicas, type_) for type_ in (*LEADERS, "Worker")):
        yield Fault(at, "needs a Chief, Master or Worker, which decides whether the job succeeds")


def _count(replicas: Mapping[str, ReplicaSpec], type_: str) -> int:
    return replicas[type_].replicas if type_ in replicas else 0


class ReplicaCounts(Part):
    """The replicas of one type, counted by state."""

    active: int = Field(default=0, description="Replicas that run or are about to.")
    succeeded: int = Field(default=0, description="Replicas that succeeded.")
    failed: int = Field(default=0, description="Replicas that failed permanently.")


class JobReplica(Part):
    """One replica, over all its attempts."""

    name: str = Field(description="Type and index, such as `worker-0`.")
    state: Literal["waiting", "starting", "running", "restarting", "succeeded", "failed", "stopped"] = Field(
        description="The state of the replica."
    )
    attempt: int = Field(default=0, description="The attempt that this describes, counted from 0.")
    restarts: int = Field(default=0, description="How often it was restarted after it exited.")
    exit_code: int | None = Field(
        default=None, description="The exit code of the last attempt that ended; 128 + s for signal s."
    )
    reason: str = Field(default="", description="The reason in one word, if there is one.")
    message: str = Field(default="", description="What it does, what it waits for, or how it ended.")
    restart_at: str | None = Field(default=None, description="When it will be restarted, in UTC.")


class JobProgress(Part):
    """The last progress that the code reported, updated at most every 30 seconds."""

    step: int | None = Field(default=None, description="The current step.")
    total: int | None = Field(default=None, description="The total number of steps.")
    metrics: dict[str, float] = Field(default_factory=dict, description="The latest values of the metrics.")
    message: str = Field(default="", description="The message of the code.")
    time: str | None = Field(default=None, description="When the code reported it, in UTC.")


class Termination(Part):
    """The decision of a user to terminate the job set."""

    actor: str = Field(description="The user who terminated it.")
    time: str = Field(description="When, in UTC.")


JobState = Literal["Created", "Queued", "Running", "Restarting", "Suspended", "Succeeded", "Failed"]


class TrainingJobStatus(Status):
    """Conditions: `Accepted`; those of Created, Queued, Running, Restarting, Suspended, Succeeded and Failed that are
    true; `NoCheckpoint` if the job succeeded without saving one."""

    state: JobState | None = Field(default=None, description="The most important condition, as a summary.")
    replicas: dict[str, ReplicaCounts] = Field(
        default_factory=dict, description="The replicas of each type, counted by state."
    )
    replica_states: tuple[JobReplica, ...] = Field(default=(), description="The state of each replica.")
    restarts: int = Field(
        default=0,
        description="The restarts that `backoffLimit` counts. Replicas that exited together count once.",
    )
    start_time: str | None = Field(default=None, description="When the job first ran, in UTC.")
    completion_time: str | None = Field(default=None, description="When the job ended, in UTC.")
    ran_seconds: float = Field(
        default=0.0, description="The running time before `runningSince`, which counts toward `activeDeadlineSeconds`."
    )
    running_since: str | None = Field(default=None, description="The start of the current uninterrupted run, in UTC.")
    ports: dict[str, int] = Field(default_factory=dict, description="The port of each replica, on 127.0.0.1.")
    admitted: bool = Field(
        default=False, description="Whether resources of this machine are reserved for the job. They are until it ends."
    )
    progress: JobProgress | None = Field(default=None, description="The progress that the code reported.")
    checkpoints: int = Field(default=0, description="The number of its checkpoints that are kept.")
    newest_checkpoint: str | None = Field(default=None, description="The id of the newest checkpoint.")
    terminated: Termination | None = Field(default=None, description="The user who terminated the job, and when.")
