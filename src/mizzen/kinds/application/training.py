"""Properties of training components. Each renders to a TrainingJob, whose fields they share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar

from pydantic import Field

from mizzen.errors import Fault
from mizzen.kinds.application.version_reference import WrittenVersionRef
from mizzen.kinds.parts.pods import image_warning, unrunnable_images
from mizzen.kinds.schema.findings import Context, Finding, Warn
from mizzen.kinds.schema.resource import Part
from mizzen.kinds.schema.size_limits import MaxItems
from mizzen.kinds.text.frameworks import Framework, framework_warning
from mizzen.kinds.text.quantities import gpu_warning
from mizzen.kinds.training import ReplicaSpec, TrainingSettings, has_no_templates, map_faults


class ComponentReplicas(ReplicaSpec):
    """The replicas of one type."""

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        # The component warns about images, since its warning can name the component.
        yield from gpu_warning(self.gpu, f"{at}.gpu", context)


class TrainingProperties(TrainingSettings):
    """The properties that all training components share."""

    runnable: ClassVar[str] = "command, or templates of the replicas"

    model_version: WrittenVersionRef | None = Field(
        None,
        description="The version to create. Default: the next version of the model with the name of the component.",
    )
    command: Annotated[tuple[str, ...], MaxItems(1000)] = Field(
        (), description="The command of each replica, in place of that of its image."
    )

    def replica_map(self) -> tuple[str, Mapping[str, ComponentReplicas]]:
        """The name of the field that declares the replicas, and the replicas by type."""
        raise NotImplementedError

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        yield from super().check(at, context)
        if self.model_version is not None and self.model_version.alias is not None:
            yield Fault(f"{at}.modelVersion", "a new version needs a version, not an alias")
        field, replicas = self.replica_map()
        yield from map_faults(replicas, f"{at}.{field}")
        read = context.was_read(at, field)
        if self.success_policy == "AllWorkers" and not ("Worker" in replicas and replicas["Worker"].replicas) and read:
            yield Fault(f"{at}.successPolicy", "AllWorkers needs at least one Worker")
        read = context.was_read(at, "command", "image", "replicaSpecs", field)
        if not (self.command or self.packed) and read and has_no_templates(replicas, f"{at}.{field}", context):
            yield Fault(at, f"has nothing to run: set {self.runnable}")

    @property
    def packed(self) -> bool:
        """Whether it has its own image."""
        return False

    def unrunnable(self, at: str, context: Context, so: str) -> Iterator[Warn]:
        """A warning for each image that the engine cannot run; `so` states the consequence."""
        field, replicas = self.replica_map()
        for type_, replica in replicas.items():
            if replica.template is not None:
                place = f"{at}.{field}.{type_}.template.spec"
                yield from unrunnable_images(replica.template.spec, place, context, so)


class TFJobProperties(TrainingProperties):
    """A TFJob: TensorFlow, with one chief, workers, parameter servers and an evaluator."""

    tf_replica_specs: Annotated[dict[str, ComponentReplicas], MaxItems(256)] = Field(
        alias="tfReplicaSpecs", description="Replicas by type: Chief (or Master), Worker, PS, Evaluator."
    )

    def replica_map(self) -> tuple[str, Mapping[str, ComponentReplicas]]:
        return "tfReplicaSpecs", self.tf_replica_specs


class PyTorchJobProperties(TrainingProperties):
    """A PyTorchJob: PyTorch, with one master and workers."""

    pytorch_replica_specs: Annotated[dict[str, ComponentReplicas], MaxItems(256)] = Field(
        alias="pytorchReplicaSpecs", description="Replicas by type: Master (or Chief), Worker."
    )

    def replica_map(self) -> tuple[str, Mapping[str, ComponentReplicas]]:
        return "pytorchReplicaSpecs", self.pytorch_replica_specs


class Storage(Part):
    """A volume that is mounted into the job."""

    open: ClassVar[bool] = True

    name: str = Field(description="The name of the volume.")
    mount_path: str = Field(description="The path to mount it at.")


class TrainingTaskProperties(TrainingProperties):
    """Training with any framework, from an image or a command."""

    synonyms: ClassVar[dict[str, str]] = {"cmd": "command"}
    runnable: ClassVar[str] = "image, command, or templates of the replicas"

    framework: Framework | None = Field(None, description="The framework to train with.")
    image: str = Field("", description="A container image to train with. Empty means not set.")
    storage: Annotated[tuple[Storage, ...], MaxItems(256)] = Field((), description="The volumes of the job.")
    replicas: int | None = Field(None, ge=0, le=1000, description="The number of workers, in place of a replica map.")
    replica_specs: Annotated[dict[str, ComponentReplicas] | None, MaxItems(256)] = Field(
        None, description="Replicas by type: Chief (or Master), Worker, PS, Evaluator."
    )

    def replica_map(self) -> tuple[str, Mapping[str, ComponentReplicas]]:
        if self.replica_specs is not None:
            return "replicaSpecs", self.replica_specs
        workers = 1 if self.replicas is None else self.replicas
        return "replicas", {"Worker": ComponentReplicas.model_validate({"replicas": workers})}

    @property
    def packed(self) -> bool:
        return bool(self.image)

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        yield from super().check(at, context)
        yield from framework_warning(self.framework, f"{at}.framework")
        if self.replicas is not None and self.replica_specs is not None:
            yield Fault(f"{at}.replicas", "replicaSpecs has the same meaning; set only one of them")

    def unrunnable(self, at: str, context: Context, so: str) -> Iterator[Warn]:
        yield from super().unrunnable(at, context, so)
        if self.image and "containers" not in context.capabilities:
            yield image_warning(f"{at}.image", so)
