"""Initializer: components and steps that prepare infrastructure. It owns an Application with its own name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from mizzen.errors import Fault
from mizzen.kinds.application.spec import ApplicationSpec
from mizzen.kinds.application.steps import WorkflowStep
from mizzen.kinds.application.workflow import StepPosition, positions_of
from mizzen.kinds.schema.findings import Context, Finding
from mizzen.kinds.schema.resource import Part, Spec, Status, name_fault
from mizzen.kinds.schema.size_limits import MaxItems


class TemplateSpec(ApplicationSpec):
    """The spec of the Application. Its steps may also be in `workflows`, as a plain list."""

    workflows: Annotated[tuple[WorkflowStep, ...] | None, MaxItems(256)] = Field(
        None, min_length=1, description="The steps, in place of `workflow.steps`."
    )

    def step_positions(self, at: str = "spec") -> tuple[StepPosition, ...]:
        if self.workflow is None and self.workflows is not None:
            return positions_of(self.workflows, f"{at}.workflows")
        return super().step_positions(at)

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        if self.workflow is not None and self.workflows is not None:
            yield Fault(f"{at}.workflows", "the steps are already in workflow: set only one of the two")
        yield from super().check(at, context)


class AppTemplate(Part):
    spec: TemplateSpec = Field(description="The components and the steps that apply them.")


class InitializerRef(Part):
    """Another Initializer. Its short form is its name."""

    api_version: str | None = Field(None, description="Accepted but not used.")
    kind: Literal["Initializer"] = Field("Initializer", description="Always `Initializer`.")
    name: str = Field(description="The name of the Initializer.")
    namespace: str | None = Field(None, description="The namespace of the Initializer. Default: the object's own.")


def _long_form(value: Any) -> Any:
    return {"name": value} if isinstance(value, str) else value


class Dependency(Part):
    ref: Annotated[InitializerRef, BeforeValidator(_long_form)] = Field(description="The Initializer to wait for.")


class InitializerSpec(Spec):
    """What to prepare, and what must be ready before."""

    app_template: AppTemplate = Field(description="The Application that prepares it.")
    depends_on: Annotated[tuple[Dependency, ...], MaxItems(256)] = Field(
        (), description="Initializers that must succeed first."
    )

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        for index, one in enumerate(self.depends_on):
            place = f"{at}.dependsOn[{index}].ref"
            fault = name_fault(one.ref.name, f"{place}.name")
            if fault:
                yield fault
            elif one.ref.name == context.name and one.ref.namespace in (None, context.namespace):
                yield Fault(place, f"'{context.name}' waits for itself")


class InitializerStatus(Status):
    """Condition `Accepted`: the spec is valid."""

    phase: Literal["checkingDependsOn", "initializing", "success", "failed"] | None = Field(
        None, description="The current phase."
    )
    message: str = Field("", description="What it waits for, or why it failed.")
