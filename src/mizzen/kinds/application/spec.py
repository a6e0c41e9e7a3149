"""Application: components, traits, policies and a workflow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Literal

from pydantic import Field

from mizzen.errors import Fault
from mizzen.kinds.application.component_usage import usage_findings, used_components
from mizzen.kinds.application.components import Component
from mizzen.kinds.application.policies import Policy
from mizzen.kinds.application.predictors import ServingProperties
from mizzen.kinds.application.steps import CHECKPOINT, TRAINING, CheckpointStep
from mizzen.kinds.application.training import TrainingProperties
from mizzen.kinds.application.version_reference import VersionRef
from mizzen.kinds.application.workflow import (
    DEFAULT_MODE,
    Placed,
    Workflow,
    addresses,
    circle_in,
    order_findings,
    placed,
    waiting,
)
from mizzen.kinds.parts.typed_properties import repeated
from mizzen.kinds.schema.findings import Context, Finding, Warn, suggestion
from mizzen.kinds.schema.resource import Part, Spec, Status
from mizzen.kinds.schema.size_limits import Most


class ApplicationSpec(Spec):
    """What an application consists of, and the steps that bring it up. Without steps all components are applied."""

    components: Annotated[tuple[Component, ...], Most(256)] = Field(min_length=1, description="What it consists of.")
    workflow: Workflow | None = Field(None, description="The steps. With it, nothing outside them is applied.")
    policies: Annotated[tuple[Policy, ...], Most(256)] = Field((), description="Rules for the application as a whole.")

    @property
    def by_name(self) -> dict[str, Component]:
        return {component.name: component for component in self.components if component.name}

    def placed_steps(self, at: str = "spec") -> tuple[Placed, ...]:
        """All steps with their paths; none without a workflow."""
        return placed(self.workflow.steps, f"{at}.workflow.steps") if self.workflow else ()

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        places = [(f"{at}.components[{index}].name", one.name) for index, one in enumerate(self.components)]
        yield from repeated(places, "component")
        yield from repeated(
            [(f"{at}.policies[{index}].name", one.name) for index, one in enumerate(self.policies)], "policy"
        )
        yield from _component_order(self, at)
        steps = self.placed_steps(at)
        if steps:
            yield from order_findings(steps, self.workflow.mode if self.workflow else DEFAULT_MODE)
            yield from _checkpoint_findings(self, steps)
            yield from usage_findings(self.by_name, steps)


def needed_versions(spec: ApplicationSpec) -> tuple[tuple[str, str, str], ...]:
    """(component, model, version) of each version that a predictor serves and that no step makes."""
    steps = spec.placed_steps()
    applied = used_components(spec.by_name, steps) if steps else spec.by_name
    made = _made_versions(spec, steps)
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
    """A warning for each needed version that is not registered; `exists` takes a model and a version."""
    return tuple(
        Warn(
            "", f"component '{component}' needs {model} version {version}, which does not exist and which no step makes"
        )
        for component, model, version in needed_versions(spec)
        if not exists(model, version)
    )


def _component_order(spec: ApplicationSpec, at: str) -> Iterator[Fault]:
    names = spec.by_name
    for index, component in enumerate(spec.components):
        for number, name in enumerate(component.depends_on):
            if name not in names:
                hint = suggestion(name, names, "components")
                yield Fault(f"{at}.components[{index}].dependsOn[{number}]", f"no component '{name}'; {hint}")
    circle = circle_in({name: component.depends_on for name, component in names.items()})
    for index, component in enumerate(spec.components):
        if component.name in circle:
            yield Fault(f"{at}.components[{index}].dependsOn", waiting(circle))
            return


def _checkpoint_findings(spec: ApplicationSpec, steps: tuple[Placed, ...]) -> Iterator[Finding]:
    components, known = spec.by_name, addresses(steps)
    earlier: dict[str, Placed] = {}
    for one in steps:
        properties = one.step.readable_properties
        if isinstance(properties, CheckpointStep) and isinstance(one.step.properties.get("from"), str | None):
            fault = _source_fault(properties, known, earlier)
            if fault:
                yield Fault(f"{one.path}.properties.from", fault)
            else:
                source = known[properties.from_step] if properties.from_step else next(reversed(earlier.values()))
                yield from _repo_warnings(properties, one.path, components.get(source.step.component or ""))
        if one.step.type in (TRAINING, ""):  # a type that could not be read may be meant
            earlier[one.path] = one


def _source_fault(properties: CheckpointStep, known: Mapping[str, Placed], earlier: Mapping[str, Placed]) -> str | None:
    """`known` are the steps by name; `earlier` those by path that train, and come before."""
    if properties.from_step is None:
        return None if earlier else f"no earlier step is of type {TRAINING}, so there is nothing to save"
    source = known.get(properties.from_step)
    if source is None:
        return f"no step '{properties.from_step}'; {suggestion(properties.from_step, known, 'steps')}"
    return None if source.path in earlier else f"step '{properties.from_step}' is no earlier step of type {TRAINING}"


def _repo_warnings(properties: CheckpointStep, at: str, component: Component | None) -> Iterator[Warn]:
    trained = _trained(component) if component else None
    repo = properties.model_version.image_repo
    if component and trained and trained.image_repo and repo and repo != trained.image_repo:
        of = f"'{trained.image_repo}' of component '{component.name}'"
        yield Warn(f"{at}.properties.modelVersion.imageRepo", f"'{repo}' differs from {of}; the step's value is used")


def _made_versions(spec: ApplicationSpec, steps: tuple[Placed, ...]) -> frozenset[tuple[str, str | None]]:
    """(model, version) of what a run makes; the version is None where it is the next free number."""
    if not steps:
        return frozenset(made for component in spec.components if (made := _made_by(component)))
    found: set[tuple[str, str | None]] = set()
    saved: set[str] = set()
    for one in reversed(steps):
        properties = one.step.typed
        if one.step.type == CHECKPOINT and isinstance(properties, CheckpointStep):
            found.add((properties.model_version.model, properties.model_version.number))
            saved.add(properties.model_version.model)
        component = spec.by_name.get(one.step.component or "")
        made_here = _made_by(component) if component else None
        # A later checkpoint step that names the model is the only one to make a version of it.
        if made_here and made_here[0] not in saved:
            found.add(made_here)
    return frozenset(found)


def _makes(made: frozenset[tuple[str, str | None]], model: str, version: str) -> bool:
    return (model, version) in made or ((model, None) in made and version.isdigit())


def _made_by(component: Component) -> tuple[str, str | None] | None:
    if not isinstance(component.typed, TrainingProperties):
        return None
    trained = _trained(component)
    return (trained.model, trained.number) if trained else (component.name, None)


def _trained(component: Component) -> VersionRef | None:
    properties = component.typed
    return properties.model_version if isinstance(properties, TrainingProperties) else None


StepPhase = Literal["pending", "running", "succeeded", "failed", "skipped", "suspending"]


class Decision(Part):
    """What a person decided about a run that waited."""

    action: Literal["resume", "terminate", "restart"] = Field(description="What was decided; resume is pass.")
    actor: str = Field("", description="Who did.")
    time: str = Field("", description="When.")
    reason: str = Field("", description="Why, in that person's words.")
    verified: bool = Field(True, description="False when it was patched in past our API.")


class StepStatus(Part):
    """
    pending ──> running ──> succeeded
       │         │   └────> failed ──retry──> running
       │         └──> suspending ──resume──> succeeded, ──terminate──> failed
       └──> skipped
    """

    name: str = Field(description="The step's name.")
    type: str = Field("", description="The step's type.")
    phase: StepPhase = Field("pending", description="How far it is.")
    reason: str = Field("", description="One word for why: Execute, FailedAfterRetries, Timeout, Terminate, Wait…")
    message: str = Field("", description="Why, in a person's words.")
    first_execute_time: str = Field("", description="When it was first started; its timeout counts from here.")
    last_execute_time: str = Field("", description="When it was last looked at.")
    looks: int = Field(0, description="How often it was looked at since its message changed; the back-off grows by it.")
    failures: int = Field(0, description="Tries that failed.")
    decision: Decision | None = Field(None, description="What was decided about a suspended step.")
    sub_steps: tuple[StepStatus, ...] = Field((), description="Of a group: its steps.")


class WorkflowStatus(Part):
    """The program counter of a run; there is no other."""

    revision: int = Field(0, description="The revision of the spec that is run.")
    mode: str = Field("", description="Order of steps and of sub-steps, such as StepByStep-DAG.")
    suspended: bool = Field(False, description="It waits for a decision.")
    terminated: bool = Field(
        False, description="It was ended; later steps are skipped unless their `if` says otherwise."
    )
    finished: bool = Field(False, description="No step is left to do.")
    message: str = Field("", description="What ended it or holds it up.")
    start_time: str = Field("", description="When it started.")
    end_time: str = Field("", description="When it finished.")
    steps: tuple[StepStatus, ...] = Field((), description="Every step, in order.")


class ComponentStatus(Part):
    """One component as it is applied."""

    name: str = Field(description="The component's name.")
    env: str = Field("", description="The env it is applied in, if a step named one.")
    healthy: bool = Field(False, description="Training: it succeeded. Serving: it answers.")
    message: str = Field("", description="Why it is not.")


ApplicationPhase = Literal[
    "starting", "rendering", "generatingPolicy", "runningWorkflow", "workflowSuspending", "workflowTerminated",
    "workflowFailed", "running", "unhealthy", "deleting",
]  # fmt: skip


class ApplicationStatus(Status):
    """Condition `Accepted`: the spec can be worked with."""

    phase: ApplicationPhase | None = Field(None, description="How far the application is.")
    workflow: WorkflowStatus | None = Field(None, description="The run of its workflow.")
    components: tuple[ComponentStatus, ...] = Field((), description="What is applied, and how it does.")
