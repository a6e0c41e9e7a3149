"""Steps of a workflow. Each type is a module with typed parameters, listed in one table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from mizzen.errors import Fault
from mizzen.kinds.application.components import Family
from mizzen.kinds.application.version_reference import WrittenVersionRef
from mizzen.kinds.parts.datasets import Dataset
from mizzen.kinds.parts.typed_properties import ModuleType, NoProperties, TypedPart
from mizzen.kinds.schema.findings import Context, Finding, Warn
from mizzen.kinds.schema.resource import Part, name_faults
from mizzen.kinds.schema.size_limits import MaxItems
from mizzen.kinds.text.durations import Duration

TRAINING = "ml-model-training"
CHECKPOINT = "ml-model-checkpoint"
SERVING = "ml-model-serving"
SUSPEND = "suspend"
GROUP = "step-group"

ENVS = ("dev", "prod")
"""Named placements that always exist. Clusters of Initializers and settings add others."""


class ApplyProperties(Part):
    component: str = Field(description="The component to apply.")


class TrainingStep(Part):
    component: str = Field(description="The training component to run.")
    dataset: Dataset | None = Field(None, description="The data to download before the command starts.")


class CheckpointStep(Part):
    model_version: WrittenVersionRef = Field(description="The version to create: `mymodel-v2`, or an object.")
    from_step: str | None = Field(
        None,
        alias="from",
        description="The training step whose newest checkpoint to use. Default: the nearest earlier one.",
    )

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        wanted = self.model_version
        if wanted.alias is not None:
            yield Fault(f"{at}.modelVersion", "a new version needs a version, not an alias")
        if wanted.suffixed:
            yield Warn(
                f"{at}.modelVersion.modelName",
                f"'{wanted.model_name}' is read as model '{wanted.model}', version {wanted.number}",
            )


class ServingStep(Part):
    component: str = Field(description="The serving component to apply.")
    env: str = Field(description="The env to serve in: `dev` or `prod`.")

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        if self.env not in ENVS:
            yield Fault(f"{at}.env", f"no env '{self.env}'; envs are {', '.join(ENVS)}")


class SuspendStep(Part):
    duration: Duration | None = Field(None, description="The time after which the run continues automatically.")
    timeout: Duration | None = Field(None, description="The time without a decision after which the step fails.")
    approvers: Annotated[tuple[str, ...], MaxItems(256)] = Field(
        (), description="The users who may decide. Default: everyone who may write the application."
    )
    message: str | None = Field(None, description="A message for the approvers: what to decide.")


@dataclass(frozen=True, slots=True)
class StepType(ModuleType):
    applies: tuple[Family, ...] = ()
    """The families that its `component` may have; empty if it has no such parameter."""
    once: bool = False
    """Whether two steps of this type should not apply the same component."""


TYPES: tuple[StepType, ...] = (
    StepType(TRAINING, TrainingStep, "Runs a training component on a dataset.", applies=("training",)),
    StepType(CHECKPOINT, CheckpointStep, "Creates a model version from the newest checkpoint of this run."),
    StepType(SERVING, ServingStep, "Serves a component's predictors in an env.", applies=("serving",)),
    StepType(SUSPEND, SuspendStep, "Waits for a decision: resume continues the run, terminate fails it."),
    StepType(GROUP, NoProperties, "Runs its subSteps, in parallel unless the workflow's mode says otherwise."),
    StepType("terraform-apply", ApplyProperties, "Plans and applies with "
    "Terraform.", applies=("terraform",), once=True),
    StepType("helm-apply", ApplyProperties, "Installs or upgrades a chart with Helm.", applies=("helm",), once=True),
    StepType(
        "apply-component", ApplyProperties, "Applies a component of any type.",
        applies=("training", "serving", "terraform", "helm"), once=True,
    ),
)  # fmt: skip


class StepInput(Part):
    """Sets a parameter to the output of another step."""

    source: str = Field(alias="from", description="The name of the output.")
    parameter_key: str = Field(description="The parameter to set, as a dotted path.")


class StepOutput(Part):
    """A value for later steps."""

    name: str = Field(description="The name that inputs refer to.")
    value_from: str = Field(description="Where to find the value when the step has finished.")


class Retry(Part):
    limit: int = Field(10, ge=0, description="The number of retries after which the step fails permanently.")
    interval: Duration | None = Field(None, description="The time between two attempts. Default: growing delays.")


class SubStep(TypedPart):
    """One step, and when it runs."""

    noun: ClassVar[str] = "step"
    types: ClassVar[tuple[ModuleType, ...]] = TYPES

    name: str = Field(description="The name of the step, unique in the workflow.")
    condition: str | None = Field(
        None,
        alias="if",
        description="`always`, or an expression such as `status.train.failed`. Default: run if nothing failed.",
    )
    depends_on: Annotated[tuple[str, ...], MaxItems(256)] = Field(
        (), description="Steps that must finish before it starts."
    )
    inputs: Annotated[tuple[StepInput, ...], MaxItems(256)] = Field(
        (), description="Parameters to set from outputs of other steps."
    )
    outputs: Annotated[tuple[StepOutput, ...], MaxItems(256)] = Field((), description="Values for other steps.")
    timeout: Duration | None = Field(
        None, description="The time, counted from its first start, after which the step fails."
    )
    retry: Retry | None = Field(None, description="How often to retry after an error.")

    @property
    def component(self) -> str | None:
        """The component it names, as written."""
        named = self.properties.get("component")
        return named if isinstance(named, str) else None

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        yield from name_faults(self.name, f"{at}.name")
        if self.type == GROUP and not isinstance(self, WorkflowStep):
            yield Fault(f"{at}.type", "a group within a group is not allowed")
        yield from super().check(at, context)


class WorkflowStep(SubStep):
    """One step, and when it runs; or a group of steps."""

    sub_steps: Annotated[tuple[SubStep, ...], MaxItems(256)] = Field((), description=f"The steps of a `{GROUP}`.")

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        yield from super().check(at, context)
        if self.type == GROUP and not self.sub_steps:
            yield Fault(f"{at}.subSteps", f"required in a {GROUP}")
        if self.type != GROUP and self.sub_steps:
            yield Fault(f"{at}.subSteps", f"only possible in a {GROUP}")
