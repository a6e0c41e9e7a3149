"""Properties of the components that train. Each renders to a TrainingJob, whose words they share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from mizzen.errors import Fault
from mizzen.kinds.application.version_reference import WrittenVersionRef
from mizzen.kinds.parts import env
from mizzen.kinds.parts.datasets import Dataset
from mizzen.kinds.parts.env import EnvVar
from mizzen.kinds.parts.pods import image_warning, unrunnable_images
from mizzen.kinds.schema.findings import Context, Finding, Warn
from mizzen.kinds.schema.resource import Part
from mizzen.kinds.schema.size_limits import Most
from mizzen.kinds.text.frameworks import Framework, framework_warning
from mizzen.kinds.text.quantities import Gpu, Resources, gpu_warning
from mizzen.kinds.training import ReplicaSpec, RestartPolicy, Retention, map_faults, untemplated


class Replica(ReplicaSpec):
    """The replicas of one type."""

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        # The component warns of images: it can say by name what comes of them.
        yield from gpu_warning(self.gpu, f"{at}.gpu", context)


class TrainingProperties(Part):
    """What every training component may say."""

    runnable: ClassVar[str] = "command, or templates of the replicas"

    model_version: WrittenVersionRef | None = Field(
        None, description="The version that training makes. Absent: the next one of a model called like the component."
    )
    command: Annotated[tuple[str, ...], Most(1000)] = Field(
        (), description="What each replica runs, in place of what its image says."
    )
    env: Annotated[tuple[EnvVar, ...], Most(256)] = Field(
        (), description="Variables of its environment: values and references to secrets."
    )
    dataset: Dataset | None = Field(None, description="What is fetched before the command starts.")
    hyperparameters: Annotated[dict[str, Any], Most(10_000)] = Field(
        default_factory=dict, description="Handed to the code as JSON."
    )
    success_policy: Literal["Chief", "AllWorkers"] = Field(
        "Chief", description="It succeeds with its chief (else worker 0), or when all workers have."
    )
    restart_policy: RestartPolicy = Field("Never", description="For replica types that do not say their own.")
    backoff_limit: int = Field(6, ge=0, description="Restarts after which it has failed.")
    clean_pod_policy: Literal["Running", "All", "None"] = Field(
        "Running", description="At the end: stop what still runs, remove everything, or leave everything."
    )
    ttl_seconds_after_finished: int | None = Field(
        None, ge=0, description="Remove the job so long after its end; checkpoints stay. Absent: never."
    )
    active_deadline_seconds: int | None = Field(
        None, ge=1, description="Running time, over restarts, after which it has failed."
    )
    gpu: Gpu | None = Field(None, description="Of each replica: a share of one GPU, such as 0.5, or whole ones.")
    resources: Resources | None = Field(None, description="What each replica may use.")
    priority: int = Field(0, ge=-1000, le=1000, description="Higher ones start first when not all can.")
    retention: Retention | None = Field(None, description="What is kept after the end. Absent: everything.")

    def replica_map(self) -> tuple[str, Mapping[str, Replica]]:
        """The field that says how many replicas of which type there are, and what it says."""
        raise NotImplementedError

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        yield from gpu_warning(self.gpu, f"{at}.gpu", context)
        yield from env.repeated(self.env, f"{at}.env")
        if self.model_version is not None and self.model_version.alias is not None:
            yield Fault(f"{at}.modelVersion", "a version is made under a version, not under an alias")
        field, replicas = self.replica_map()
        yield from map_faults(replicas, f"{at}.{field}")
        read = context.read(at, field)
        if self.success_policy == "AllWorkers" and not ("Worker" in replicas and replicas["Worker"].replicas) and read:
            yield Fault(f"{at}.successPolicy", "AllWorkers needs at least one Worker")
        read = context.read(at, "command", "image", "replicaSpecs", field)
        if not (self.command or self.packed) and read and untemplated(replicas, f"{at}.{field}", context):
            yield Fault(at, f"has nothing to run: give {self.runnable}")

    @property
    def packed(self) -> bool:
        """Comes as an image of its own."""
        return False

    def unrunnable(self, at: str, context: Context, so: str) -> Iterator[Warn]:
        """Images that the engine cannot run; `so` says what comes of it."""
        field, replicas = self.replica_map()
        for type_, replica in replicas.items():
            if replica.template is not None:
                place = f"{at}.{field}.{type_}.template.spec"
                yield from unrunnable_images(replica.template.spec, place, context, so)


class TFJobProperties(TrainingProperties):
    """A TFJob: TensorFlow, with one chief, workers, parameter servers and an evaluator."""

    tf_replica_specs: Annotated[dict[str, Replica], Most(256)] = Field(
        alias="tfReplicaSpecs", description="Replicas by type: Chief (or Master), Worker, PS, Evaluator."
    )

    def replica_map(self) -> tuple[str, Mapping[str, Replica]]:
        return "tfReplicaSpecs", self.tf_replica_specs


class PyTorchJobProperties(TrainingProperties):
    """A PyTorchJob: PyTorch, with one master and workers."""

    pytorch_replica_specs: Annotated[dict[str, Replica], Most(256)] = Field(
        alias="pytorchReplicaSpecs", description="Replicas by type: Master (or Chief), Worker."
    )

    def replica_map(self) -> tuple[str, Mapping[str, Replica]]:
        return "pytorchReplicaSpecs", self.pytorch_replica_specs


class Storage(Part):
    """A volume that the job finds at a path."""

    open: ClassVar[bool] = True

    name: str = Field(description="The volume's name.")
    mount_path: str = Field(description="Where it is mounted.")


class TrainingTaskProperties(TrainingProperties):
    """Training with any framework, from an image or a command."""

    synonyms: ClassVar[dict[str, str]] = {"cmd": "command"}
    runnable: ClassVar[str] = "image, command, or templates of the replicas"

    framework: Framework | None = Field(None, description="What trains.")
    image: str = Field("", description="A container image to train with. Empty: not given.")
    storage: Annotated[tuple[Storage, ...], Most(256)] = Field((), description="Volumes of the job.")
    replicas: int | None = Field(None, ge=0, le=1000, description="So many workers, in place of a replica map.")
    replica_specs: Annotated[dict[str, Replica] | None, Most(256)] = Field(
        None, description="Replicas by type: Chief (or Master), Worker, PS, Evaluator."
    )

    def replica_map(self) -> tuple[str, Mapping[str, Replica]]:
        if self.replica_specs is not None:
            return "replicaSpecs", self.replica_specs
        workers = 1 if self.replicas is None else self.replicas
        return "replicas", {"Worker": Replica.model_validate({"replicas": workers})}

    @property
    def packed(self) -> bool:
        return bool(self.image)

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        yield from super().check(at, context)
        yield from framework_warning(self.framework, f"{at}.framework")
        if self.replicas is not None and self.replica_specs is not None:
            yield Fault(f"{at}.replicas", "replicaSpecs says the same; give one of the two")

    def unrunnable(self, at: str, context: Context, so: str) -> Iterator[Warn]:
        yield from super().unrunnable(at, context, so)
        if self.image and "containers" not in context.capabilities:
            yield image_warning(f"{at}.image", so)
