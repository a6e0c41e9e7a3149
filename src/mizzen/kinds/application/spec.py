"""Application: components, traits, policies and a workflow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Literal

from pydantic import Field

from mizzen.errors import Fault
from mizzen.kinds.application.component_usage import find_used_components, usage_findings
from mizzen.kinds.application.components import Component
from mizzen.kinds.application.policies import ApplicationPolicy
from mizzen.kinds.application.predictors import ServingProperties
from mizzen.kinds.application.steps import CHECKPOINT, TRAINING, CheckpointStep
from mizzen.kinds.application.training import TrainingProperties
from mizzen.kinds.application.version_reference import VersionRef
from mizzen.kinds.application.workflow import (
    DEFAULT_MODE,
    StepPosition,
    Workflow,
    addresses,
    describe_cycle,
    find_cycle,
    order_findings,
    positions_of,
)
from mizzen.kinds.parts import uniqueness
from mizzen.kinds.schema.findings import Context, Finding, Warn, suggestion
from mizzen.kinds.schema.resource import Part, Spec, Status
from mizzen.kinds.schema.size_limits import MaxItems


class ApplicationSpec(Spec):
    """The components of an application, and the steps that apply them. Without steps, all components are applied."""

    components: Annotated[tuple[Component, ...], MaxItems(256)] = Field(
        min_length=1, description="The components of the application."
    )
    workflow: Workflow | None = Field(
        None, description="The steps. If set, only the components that the steps name are applied."
    )
    policies: Annotated[tuple[ApplicationPolicy, ...], MaxItems(256)] = Field(
        (), description="Policies for the application as a whole."
    )

    @property
    def by_name(self) -> dict[str, Component]:
        return {component.name: component for component in self.components if component.name}

    def step_positions(self, at: str = "spec") -> tuple[StepPosition, ...]:
        """All steps with their paths; empty without a workflow."""
        return positions_of(self.workflow.steps, f"{at}.workflow.steps") if self.workflow else ()

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        yield from uniqueness.name_faults(self.components, f"{at}.components", "component")
        yield from uniqueness.name_faults(self.policies, f"{at}.policies", "policy")
        yield from _component_order(self, at)
        steps = self.step_positions(at)
        if steps:
            yield from order_findings(steps, self.workflow.mode if self.workflow else DEFAULT_MODE)
            yield from _checkpoint_findings(self, steps)
            yield from usage_findings(self.by_name, steps)


def find_needed_versions(spec: ApplicationSpec) -> tuple[tuple[str, str, str], ...]:
    """(component, model, version) of each version that a predictor serves and no step creates."""
    steps = spec.step_positions()
    applied = find_used_components(spec.by_name, steps) if steps else spec.by_name
    made = _find_created_versions(spec, steps)
    needed: dict[tuple[str, str, str], None] = {}
    for component in spec.components:
        properties = component.typed
        if not isinstance(properties, ServingProperties) or component.name not in applied:
            continue
        for predictor in properties.predictors:
            wanted = predictor.model_version
            if wanted and wanted.number and not _makes(made, wanted.model, wanted.number):
                needed[component.name, wanted.model, wanted.number] = None
    return tuple(needed)


def missing_versions_warnings(spec: ApplicationSpec, exists: Callable[[str, str], bool]) -> tuple[Warn, ...]:
    """A warning for each required version that is not registered; `exists` takes a model and a version."""
    return tuple(
        Warn(
            "", f"component '{component}' needs {model} version {version}, which does not exist and which no step makes"
        )
        for component, model, version in find_needed_versions(spec)
        if not exists(model, version)
    )


def _component_order(spec: ApplicationSpec, at: str) -> Iterator[Fault]:
    names = spec.by_name
    for index, component in enumerate(spec.components):
        for number, name in enumerate(component.depends_on):
            if name not in names:
                hint = suggestion(name, names, "components")
                yield Fault(f"{at}.components[{index}].dependsOn[{number}]", f"no component '{name}'; {hint}")
    circle = find_cycle({name: component.depends_on for name, component in names.items()})
    for index, component in enumerate(spec.components):
        if component.name in circle:
            yield Fault(f"{at}.components[{index}].dependsOn", describe_cycle(circle))
            return


def _checkpoint_findings(spec: ApplicationSpec, steps: tuple[StepPosition, ...]) -> Iterator[Finding]:
    components, known = spec.by_name, addresses(steps)
    earlier: dict[str, StepPosition] = {}
    for one in steps:
        properties = one.step.readable_properties
        if isinstance(properties, CheckpointStep) and isinstance(one.step.properties.get("from"), str | None):
            fault = _source_fault(properties, known, earlier)
            if fault:
                yield Fault(f"{one.path}.properties.from", fault)
            else:
                source = known[properties.from_step] if properties.from_step else next(reversed(earlier.values()))
                yield from _repo_warnings(properties, one.path, components.get(source.step.component or ""))
        if one.step.type in (TRAINING, ""):  # a type that could not be read may be a training step
            earlier[one.path] = one


def _source_fault(
    properties: CheckpointStep, known: Mapping[str, StepPosition], earlier: Mapping[str, StepPosition]
) -> str | None:
    """`known` has all steps by name, `earlier` the training steps that come before, by path."""
    if properties.from_step is None:
        return None if earlier else f"no earlier step is of type {TRAINING}, so there is nothing to save"
    source = known.get(properties.from_step)
    if source is None:
        return f"no step '{properties.from_step}'; {suggestion(properties.from_step, known, 'steps')}"
    return (
        None if source.path in earlier else f"step '{properties.from_step}' is not an earlier step of type {TRAINING}"
    )


def _repo_warnings(properties: CheckpointStep, at: str, component: Component | None) -> Iterator[Warn]:
    trained = _model_version_of(component) if component else None
    repo = properties.model_version.image_repo
    if component and trained and trained.image_repo and repo and repo != trained.image_repo:
        of = f"'{trained.image_repo}' of component '{component.name}'"
        yield Warn(f"{at}.properties.modelVersion.imageRepo", f"'{repo}' differs from {of}; the step's value is used")


def _find_created_versions(spec: ApplicationSpec, steps: tuple[StepPosition, ...]) -> frozenset[tuple[str, str | None]]:
    """(model, version) of what a run creates; the version is None if it is the next free number."""
    if not steps:
        return frozenset(made for component in spec.components if (made := _version_created_by(component)))
    found: set[tuple[str, str | None]] = set()
    saved: set[str] = set()
    for one in reversed(steps):
        properties = one.step.typed
        if one.step.type == CHECKPOINT and isinstance(properties, CheckpointStep):
            found.add((properties.model_version.model, properties.model_version.number))
            saved.add(properties.model_version.model)
        component = spec.by_name.get(one.step.component or "")
        made_here = _version_created_by(component) if component else None
        # If a later checkpoint step names the model, only that step creates a version of it.
        if made_here and made_here[0] not in saved:
            found.add(made_here)
    return frozenset(found)


def _makes(made: frozenset[tuple[str, str | None]], model: str, version: str) -> bool:
    return (model, version) in made or ((model, None) in made and version.isdigit())


def _version_created_by(component: Component) -> tuple[str, str | None] | None:
    if not isinstance(component.typed, TrainingProperties):
        return None
    trained = _model_version_of(component)
    return (trained.model, trained.number) if trained else (component.name, None)


def _model_version_of(component: Component) -> VersionRef | None:
    properties = component.typed
    return properties.model_version if isinstance(properties, TrainingProperties) else None


StepPhase = Literal["pending", "running", "succeeded", "failed", "skipped", "suspending"]


class RunDecision(Part):
    """A user's decision about a suspended run."""

    action: Literal["resume", "terminate", "restart"] = Field(description="The decision; `resume` approves.")
    actor: str = Field("", description="The user who decided.")
    time: str = Field("", description="The time of the decision.")
    reason: str = Field("", description="The reason that the user gave.")
    verified: bool = Field(True, description="False if it was written directly to the cluster, bypassing the API.")


class StepStatus(Part):
    """
    pending ──> running ──> succeeded
       │         │   └────> failed ──retry──> running
       │         └──> suspending ──resume──> succeeded, ──terminate──> failed
       └──> skipped
    """

    name: str = Field(description="The step's name.")
    type: str = Field("", description="The step's type.")
    phase: StepPhase = Field("pending", description="The current phase.")
    reason: str = Field(
        "", description="The reason in one word: Execute, FailedAfterRetries, Timeout, Terminate, Wait…"
    )
    message: str = Field("", description="The reason as a sentence, for people.")
    first_execute_time: str = Field("", description="When it first started; its timeout counts from here.")
    last_execute_time: str = Field("", description="When it was last checked.")
    looks: int = Field(0, description="How often it was checked since its message changed; the back-off grows with it.")
    failures: int = Field(0, description="The number of failed attempts.")
    decision: RunDecision | None = Field(None, description="The decision about a suspended step.")
    sub_steps: tuple[StepStatus, ...] = Field((), description="The steps of a group.")


class WorkflowStatus(Part):
    """The complete state of a run."""

    revision: int = Field(0, description="The revision of the spec that this run executes.")
    mode: str = Field("", description="The order of steps and of sub-steps, such as StepByStep-DAG.")
    suspended: bool = Field(False, description="Whether it waits for a decision.")
    terminated: bool = Field(
        False, description="Whether it was terminated; later steps are skipped unless their `if` says otherwise."
    )
    finished: bool = Field(False, description="Whether all steps are done.")
    message: str = Field("", description="Why it ended, or what it waits for.")
    start_time: str = Field("", description="When it started.")
    end_time: str = Field("", description="When it finished.")
    steps: tuple[StepStatus, ...] = Field((), description="Every step, in order.")


class ComponentStatus(Part):
    """The state of one component."""

    name: str = Field(description="The component's name.")
    env: str = Field("", description="The env that it is applied in, if a step names one.")
    healthy: bool = Field(False, description="Whether it is healthy. Training: it succeeded. Serving: it is ready.")
    message: str = Field("", description="Why it is not healthy.")


ApplicationPhase = Literal[
    "starting", "rendering", "generatingPolicy", "runningWorkflow", "workflowSuspending", "workflowTerminated",
    "workflowFailed", "running", "unhealthy", "deleting",
]  # fmt: skip


class ApplicationStatus(Status):
    """Condition `Accepted`: the spec is valid."""

    phase: ApplicationPhase | None = Field(None, description="The current phase of the application.")
    workflow: WorkflowStatus | None = Field(None, description="The run of its workflow.")
    components: tuple[ComponentStatus, ...] = Field((), description="The state of each applied component.")
