"""TrainingJob: one job set, all its replicas, for a version and a configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from mizzen.errors import Fault
from mizzen.kinds.parts import env
from mizzen.kinds.parts.datasets import Dataset
from mizzen.kinds.parts.env import EnvVar
from mizzen.kinds.parts.pods import PodTemplate, image_warning, unrunnable_images
from mizzen.kinds.schema.findings import Context, Finding, suggestion
from mizzen.kinds.schema.resource import Part, Spec, Status
from mizzen.kinds.schema.size_limits import Most
from mizzen.kinds.serving import Layer
from mizzen.kinds.text.durations import Duration
from mizzen.kinds.text.frameworks import Framework, framework_warning
from mizzen.kinds.text.names import Name, NameOrNothing
from mizzen.kinds.text.quantities import Gpu, Resources, gpu_warning
from mizzen.kinds.text.versions import VersionOrNothing

REPLICA_TYPES = ("Chief", "Master", "Worker", "PS", "Evaluator")
LEADERS = ("Chief", "Master")
"""Whose success is the job's. Without one it is the first worker's."""

TRUSTED_ANNOTATION = "mizzen.dev/trusted"
"""`true`: whoever started the job may vouch for code, so what it saves may be unpickled. Stamped by admission alone."""
IDEMPOTENCY_ANNOTATION = "mizzen.dev/idempotency"
"""Which call made the job (`server/admission/idempotency.py`). Stamped by that call alone."""
CHANGEABLE = frozenset(
    {
        "suspend", "priority", "ttlSecondsAfterFinished", "activeDeadlineSeconds", "retention", "cleanPodPolicy",
        "backoffLimit",
    }
)  # fmt: skip
"""When it runs, for how long, and what is kept of it. All else is how it was trained, and stays the truth."""

RestartPolicy = Literal["Never", "OnFailure", "Always", "ExitCode"]


class ReplicaSpec(Part):
    """The replicas of one type."""

    replicas: int = Field(1, ge=0, le=1000, description="How many there are.")
    restart_policy: RestartPolicy | None = Field(
        None, description="Never, OnFailure, Always, or ExitCode: 128 and above are tried again. Absent: the job's."
    )
    template: PodTemplate | None = Field(None, description="The pod each of them runs in.")
    gpu: Gpu | None = Field(None, description="GPUs of each. Absent: the job's.")
    resources: Resources | None = Field(None, description="What each may use. Absent: the job's.")

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        yield from gpu_warning(self.gpu, f"{at}.gpu", context)
        if self.template is not None:
            yield from unrunnable_images(self.template.spec, f"{at}.template.spec", context, "the job cannot run here")


class Retention(Part):
    """What is kept of a job. What is served is kept in any case."""

    checkpoints: int | None = Field(
        None, ge=1, description="So many of the newest checkpoints; others go as new ones come. Absent: all."
    )
    best: int | None = Field(None, ge=1, description="And so many of the best, by `metric`.")
    metric: str | None = Field(None, min_length=1, description="The metric that `best` goes by.")
    mode: Literal["max", "min"] = Field("max", description="Whether more of it is better, or less.")
    logs: Duration | None = Field(
        None, description="How long logs are kept after the end, such as `30d`. Absent: always."
    )

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        if self.best is not None and self.metric is None and context.read(at, "metric"):
            yield Fault(f"{at}.metric", "is needed to tell which are the best")


class TrainingJobSpec(Spec):
    """Runs the code of a `version`, an `image`, a `command`, or the templates of the replica map."""

    model_name: Name = Field(description="The model that is trained.")
    version: VersionOrNothing = Field(None, description="The version whose code runs.")
    deploy_to_layer: Layer = Field("cloud", description="Where it runs: `cloud` or `edge`.")
    framework_type: Framework | None = Field(None, description="What trains it. Absent: the model's framework.")
    node_selector: Annotated[dict[str, str], Most(256)] = Field(
        default_factory=dict, description="Labels that its nodes must have."
    )
    node_name: NameOrNothing = Field("", description="The one node it may run on.")
    image: str = Field("", description="A container image to train with. Empty: not given.")
    command: Annotated[tuple[str, ...], Most(1000)] = Field(
        (), description="What each replica runs. Absent: what version or image say."
    )
    replicas: int | None = Field(None, ge=0, le=1000, description="So many workers, in place of a replica map.")
    replica_specs: Annotated[dict[str, ReplicaSpec] | None, Most(256)] = Field(
        None, description="Replica map: Chief (or Master), Worker, PS, Evaluator."
    )
    tf_replica_specs: Annotated[dict[str, ReplicaSpec] | None, Most(256)] = Field(
        None, alias="tfReplicaSpecs", description="The replica map, as a TFJob spells it."
    )
    pytorch_replica_specs: Annotated[dict[str, ReplicaSpec] | None, Most(256)] = Field(
        None, alias="pytorchReplicaSpecs", description="The replica map, as a PyTorchJob spells it."
    )
    dataset: Dataset | None = Field(None, description="What is fetched before the command starts.")
    hyperparameters: Annotated[dict[str, Any], Most(10_000)] = Field(
        default_factory=dict, description="Handed to the code as JSON."
    )
    success_policy: Literal["Chief", "AllWorkers"] = Field(
        "Chief", description="The set succeeds with its chief (else worker 0), or when all workers have."
    )
    restart_policy: RestartPolicy = Field("Never", description="For replica types that do not say their own.")
    backoff_limit: int = Field(6, ge=0, description="Restarts after which the set has failed.")
    clean_pod_policy: Literal["Running", "All", "None"] = Field(
        "Running", description="At the end: stop what still runs, remove everything, or leave everything."
    )
    ttl_seconds_after_finished: int | None = Field(
        None, ge=0, description="Remove the object so long after its end; checkpoints stay. Absent: never."
    )
    active_deadline_seconds: int | None = Field(
        None, ge=1, description="Running time, over restarts, after which it has failed."
    )
    suspend: bool = Field(False, description="Stop all replicas, until this is false again.")
    gpu: Gpu | None = Field(None, description="GPUs of each replica: a share of one, such as 0.5, or whole ones.")
    resources: Resources | None = Field(None, description="What each replica may use.")
    priority: int = Field(0, ge=-1000, le=1000, description="Higher ones start first when not all can.")
    retention: Retention | None = Field(None, description="What is kept after the end. Absent: everything.")
    env: Annotated[tuple[EnvVar, ...], Most(256)] = Field(
        (), description="Variables of its environment: values and references to secrets."
    )

    @property
    def replica_map(self) -> Mapping[str, ReplicaSpec]:
        """By type, whichever way they were written; policies of the job are not filled in."""
        given = [specs for specs in self._maps().values() if specs is not None]
        if given:
            return given[0]
        return {"Worker": ReplicaSpec.model_validate({"replicas": 1 if self.replicas is None else self.replicas})}

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        yield from framework_warning(self.framework_type, f"{at}.frameworkType")
        yield from gpu_warning(self.gpu, f"{at}.gpu", context)
        yield from env.repeated(self.env, f"{at}.env")
        if self.image and "containers" not in context.capabilities:
            yield image_warning(f"{at}.image", "the job cannot run here")
        if not (self.version or self.image or self.command) and self._bare(at, context):
            yield Fault(at, "has nothing to run: give version, image, command, or templates in replicaSpecs")
        yield from self._replica_faults(at, context)

    def _bare(self, at: str, context: Context) -> bool:
        """Is it certain that nothing says what to run?"""
        given = (name for name, specs in self._maps().items() if specs is not None)
        where = f"{at}.{next(given, 'replicaSpecs')}"
        sure = context.read(at, "version", "image", "command", *self._maps())
        return sure and untemplated(self.replica_map, where, context)

    def _replica_faults(self, at: str, context: Context) -> Iterator[Fault]:
        given = [name for name, specs in self._maps().items() if specs is not None]
        if self.replicas is not None:
            given.append("replicas")
        if len(given) > 1:
            yield Fault(at, f"{' and '.join(given)} say the same; give one of them")
            return
        where = f"{at}.{given[0]}" if given else at
        yield from map_faults(self.replica_map, where)
        sure = context.read(at, "replicas", *self._maps())
        if self.success_policy == "AllWorkers" and not _count(self.replica_map, "Worker") and sure:
            yield Fault(f"{at}.successPolicy", "AllWorkers needs at least one Worker")

    def _maps(self) -> dict[str, dict[str, ReplicaSpec] | None]:
        return {
            "replicaSpecs": self.replica_specs,
            "tfReplicaSpecs": self.tf_replica_specs,
            "pytorchReplicaSpecs": self.pytorch_replica_specs,
        }


def untemplated(replicas: Mapping[str, ReplicaSpec], at: str, context: Context) -> bool:
    """Is it certain that no replica has a template?"""
    return all(
        replica.template is None and context.read(f"{at}.{type_}", "template") for type_, replica in replicas.items()
    )


def map_faults(replicas: Mapping[str, ReplicaSpec], at: str) -> Iterator[Fault]:
    unknown = [type_ for type_ in replicas if type_ not in REPLICA_TYPES]
    for type_ in unknown:
        yield Fault(at, f"unknown replica type '{type_}'; {suggestion(type_, REPLICA_TYPES, 'types')}")
    if all(leader in replicas for leader in LEADERS):
        yield Fault(at, "has both Chief and Master; they are two names of one")
    for leader in LEADERS:
        if _count(replicas, leader) > 1:
            yield Fault(f"{at}.{leader}.replicas", f"there is one {leader}, not {_count(replicas, leader)}")
    if unknown:
        return  # what was meant by them may be what is missing
    if not sum(replica.replicas for replica in replicas.values()):
        yield Fault(at, "has no replicas at all; at least 1 is needed")
    elif not any(_count(replicas, type_) for type_ in (*LEADERS, "Worker")):
        yield Fault(at, "needs a Chief, Master or Worker: the success of one is the job's")


def _count(replicas: Mapping[str, ReplicaSpec], type_: str) -> int:
    return replicas[type_].replicas if type_ in replicas else 0


class ReplicaCounts(Part):
    """How the replicas of one type are doing."""

    active: int = Field(default=0, description="Running, or about to.")
    succeeded: int = Field(default=0, description="Ended well.")
    failed: int = Field(default=0, description="Ended badly, for good.")


class JobReplica(Part):
    """One replica, over all its attempts."""

    name: str = Field(description="Type and index, such as `worker-0`.")
    state: Literal["waiting", "starting", "running", "restarting", "succeeded", "failed", "stopped"] = Field(
        description="Where it is in its life."
    )
    attempt: int = Field(default=0, description="Which attempt this is about, counted from 0.")
    restarts: int = Field(default=0, description="How often it was started again because it had ended.")
    exit_code: int | None = Field(default=None, description="Of the last attempt that ended; signal s is 128 + s.")
    reason: str = Field(default="", description="One word for how that ended, where there is one.")
    message: str = Field(default="", description="What it does, waits for, or ended with.")
    restart_at: str | None = Field(default=None, description="When it is started again, in UTC.")


class JobProgress(Part):
    """What the code reported last; written here at most every 30 seconds."""

    step: int | None = Field(default=None, description="How far it is.")
    total: int | None = Field(default=None, description="Of how many steps.")
    metrics: dict[str, float] = Field(default_factory=dict, description="Their last values.")
    message: str = Field(default="", description="In its own words.")
    time: str | None = Field(default=None, description="When it said so, in UTC.")


class Terminated(Part):
    """Somebody decided to end the job set."""

    actor: str = Field(description="Who.")
    time: str = Field(description="When, in UTC.")


JobState = Literal["Created", "Queued", "Running", "Restarting", "Suspended", "Succeeded", "Failed"]


class TrainingJobStatus(Status):
    """Conditions: `Accepted`; of Created, Queued, Running, Restarting, Suspended, Succeeded and Failed those that hold;
    `NoCheckpoint` on one that succeeded and saved nothing."""

    state: JobState | None = Field(default=None, description="The condition that tells most, in one word.")
    replicas: dict[str, ReplicaCounts] = Field(default_factory=dict, description="Counts for each replica type.")
    replica_states: tuple[JobReplica, ...] = Field(default=(), description="Each replica.")
    restarts: int = Field(
        default=0,
        description="What `backoffLimit` counts: restarts, where those of replicas that ended together count once.",
    )
    start_time: str | None = Field(default=None, description="When it first ran, in UTC.")
    completion_time: str | None = Field(default=None, description="When it ended, in UTC.")
    ran_seconds: float = Field(
        default=0.0, description="How long it ran until `runningSince`; what `activeDeadlineSeconds` counts."
    )
    running_since: str | None = Field(default=None, description="Since when it runs without a break, in UTC.")
    ports: dict[str, int] = Field(default_factory=dict, description="Where each replica is to listen, on 127.0.0.1.")
    admitted: bool = Field(default=False, description="It has its share of this machine, and keeps it until it ends.")
    progress: JobProgress | None = Field(default=None, description="As the code reported it.")
    checkpoints: int = Field(default=0, description="How many it has saved and are kept.")
    newest_checkpoint: str | None = Field(default=None, description="The id of the last of them.")
    terminated: Terminated | None = Field(default=None, description="Who ended it, if somebody did.")
