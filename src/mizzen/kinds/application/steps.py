"""Steps of a workflow. Each type is a module with typed parameters; the table is the one lookup of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from mizzen.errors import Fault
from mizzen.kinds.application.components import Family
from mizzen.kinds.application.version_reference import WrittenVersionRef
from mizzen.kinds.parts.datasets import Dataset
from mizzen.kinds.parts.typed_properties import Nothing, Type, Typed
from mizzen.kinds.schema.findings import Context, Finding, Warn
from mizzen.kinds.schema.resource import Part, name_fault
from mizzen.kinds.schema.size_limits import Most
from mizzen.kinds.text.durations import Duration

TRAINING = "ml-model-training"
CHECKPOINT = "ml-model-checkpoint"
SERVING = "ml-model-serving"
SUSPEND = "suspend"
GROUP = "step-group"

ENVS = ("dev", "prod")
"""Named placements. These two are everywhere; clusters of Initializers and settings add theirs when they are served."""


class ApplyProperties(Part):
    component: str = Field(description="The component to apply.")


class TrainingStep(Part):
    component: str = Field(description="The component that trains.")
    dataset: Dataset | None = Field(None, description="Fetched into the job before its command starts.")


class CheckpointStep(Part):
    model_version: WrittenVersionRef = Field(description="The version to make: `mymodel-v2`, or an object.")
    from_step: str | None = Field(
        None, alias="from", description="The training step whose newest checkpoint is taken; the nearest earlier one."
    )

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        wanted = self.model_version
        if wanted.alias is not None:
            yield Fault(f"{at}.modelVersion", "a version is made under a version, not under an alias")
        if wanted.suffixed:
            yield Warn(
                f"{at}.modelVersion.modelName",
                f"'{wanted.model_name}' is read as model '{wanted.model}', version {wanted.number}",
            )


class ServingStep(Part):
    component: str = Field(description="The component that serves.")
    env: str = Field(description="Where: `dev` or `prod`.")

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        if self.env not in ENVS:
            yield Fault(f"{at}.env", f"no env '{self.env}'; envs are {', '.join(ENVS)}")


class SuspendStep(Part):
    duration: Duration | None = Field(None, description="After this time it goes on by itself.")
    timeout: Duration | None = Field(None, description="After this time without a decision the step has failed.")
    approvers: Annotated[tuple[str, ...], Most(256)] = Field(
        (), description="Who may decide; whoever may write the application, if empty."
    )
    message: str | None = Field(None, description="What is to be decided, for whoever looks at it.")


@dataclass(frozen=True, slots=True)
class StepType(Type):
    applies: tuple[Family, ...] = ()
    """Families of the components that its `component` may name; none when it has no such parameter."""
    once: bool = False
    """To apply one component by two of these is odd."""


TYPES: tuple[StepType, ...] = (
    StepType(TRAINING, TrainingStep, "Runs a training component on a dataset.", applies=("training",)),
    StepType(CHECKPOINT, CheckpointStep, "Makes a model version of the newest checkpoint of this run."),
    StepType(SERVING, ServingStep, "Serves a component's predictors in an env.", applies=("serving",)),
    StepType(SUSPEND, SuspendStep, "Waits until somebody decides: resume is pass, terminate is fail."),
    StepType(GROUP, Nothing, "Runs its subSteps, at the same time unless the workflow's mode says otherwise."),
    StepType("terraform-apply", ApplyProperties, "Plans and applies by Terraform.", applies=("terraform",), once=True),
    StepType("helm-apply", ApplyProperties, "Installs or upgrades a chart by Helm.", applies=("helm",), once=True),
    StepType(
        "apply-component", ApplyProperties, "Applies a component of any type.",
        applies=("training", "serving", "terraform", "helm"), once=True,
    ),
)  # fmt: skip


class Input(Part):
    """Fills a parameter with what another step put out."""

    source: str = Field(alias="from", description="The name of the output.")
    parameter_key: str = Field(description="The parameter it fills, with dots for what is deeper.")


class Output(Part):
    """A value that later steps may take in."""

    name: str = Field(description="The name inputs take it by.")
    value_from: str = Field(description="Where it is found when the step has finished.")


class Retry(Part):
    limit: int = Field(10, ge=0, description="Tries after the first one until the step has failed for good.")
    interval: Duration | None = Field(None, description="Between two tries; growing by itself if not given.")


class SubStep(Typed):
    """One thing to do, and when."""

    noun: ClassVar[str] = "step"
    types: ClassVar[tuple[Type, ...]] = TYPES

    name: str = Field(description="Its name, unique in the workflow.")
    condition: str | None = Field(
        None,
        alias="if",
        description="`always`, or an expression such as `status.train.failed`. Absent: it runs when nothing failed.",
    )
    depends_on: Annotated[tuple[str, ...], Most(256)] = Field(
        (), description="Steps that must have finished before it starts."
    )
    inputs: Annotated[tuple[Input, ...], Most(256)] = Field(
        (), description="Parameters that other steps' outputs fill."
    )
    outputs: Annotated[tuple[Output, ...], Most(256)] = Field((), description="Values for other steps.")
    timeout: Duration | None = Field(None, description="Counts from its first start; after it the step has failed.")
    retry: Retry | None = Field(None, description="How often it is tried again after an error.")

    @property
    def component(self) -> str | None:
        """The component it names, as written."""
        named = self.properties.get("component")
        return named if isinstance(named, str) else None

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        fault = name_fault(self.name, f"{at}.name")
        if fault:
            yield fault
        if self.type == GROUP and not isinstance(self, Step):
            yield Fault(f"{at}.type", "a group within a group is not possible")
        yield from super().check(at, context)


class Step(SubStep):
    """One thing to do, and when; or a group of them."""

    sub_steps: Annotated[tuple[SubStep, ...], Most(256)] = Field((), description=f"Steps of a `{GROUP}`.")

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        yield from super().check(at, context)
        if self.type == GROUP and not self.sub_steps:
            yield Fault(f"{at}.subSteps", f"required in a {GROUP}")
        if self.type != GROUP and self.sub_steps:
            yield Fault(f"{at}.subSteps", f"only a {GROUP} has them")
