"""The workflow of an Application: its steps, their order, and the rules for that order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Annotated, Literal

from pydantic import Field

from mizzen.errors import Fault
from mizzen.kinds.application.steps import SubStep, WorkflowStep
from mizzen.kinds.parts import uniqueness
from mizzen.kinds.schema.findings import Finding, Warn, suggestion
from mizzen.kinds.schema.resource import Part
from mizzen.kinds.schema.size_limits import MaxItems
from mizzen.kinds.text import expressions

Order = Literal["StepByStep", "DAG"]


class Mode(Part):
    """`StepByStep`: one after another, as listed. `DAG`: each as soon as its dependencies have finished."""

    steps: Order = Field("StepByStep", description="The order of the steps.")
    sub_steps: Order = Field("DAG", description="The order of the steps within a group.")


DEFAULT_MODE = Mode.model_validate({})


class Workflow(Part):
    """The steps and their order. Only components that steps name are applied."""

    steps: Annotated[tuple[WorkflowStep, ...], MaxItems(256)] = Field(min_length=1, description="The steps.")
    mode: Mode = Field(DEFAULT_MODE, description="The order in which they run.")
    on_failure: Literal["terminate", "suspend"] = Field(
        "terminate", description="What happens to the run if a step fails after all its retries."
    )


@dataclass(frozen=True, slots=True)
class StepPosition:
    """A step and its position."""

    path: str
    step: SubStep
    index: int
    """The index of the step, or of its group, in the workflow."""
    group: WorkflowStep | None = None
    """Its group, if it is in one."""
    number: int = 0
    """Its index in the group."""


def positions_of(steps: Iterable[WorkflowStep], at: str) -> tuple[StepPosition, ...]:
    """All steps in written order, those of a group after the group; `at` is the path of the list."""
    found = []
    for index, step in enumerate(steps):
        path = f"{at}[{index}]"
        found.append(StepPosition(path, step, index))
        for number, inner in enumerate(step.sub_steps):
            found.append(StepPosition(f"{path}.subSteps[{number}]", inner, index, step, number))
    return tuple(found)


def order_findings(steps: tuple[StepPosition, ...], mode: Mode) -> Iterator[Finding]:
    """Repeated names, and dependencies and inputs that do not exist, come too late or form a cycle."""
    yield from uniqueness.path_faults([(f"{one.path}.name", one.step.name) for one in steps], "step")
    outputs = [
        (f"{one.path}.outputs[{index}].name", output.name, one)
        for one in steps
        for index, output in enumerate(one.step.outputs)
    ]
    yield from uniqueness.path_faults([(path, name) for path, name, _ in outputs], "output")
    by_name = addresses(steps)
    edges = _edges_of_groups(steps)
    for wait in _waits(steps, by_name, {name: one for _, name, one in outputs}):
        fault = wait.fault(mode)
        if fault:
            yield fault
        else:
            edges[wait.one.step.name].append(wait.known[wait.name].step.name)
    circle = find_cycle(edges) if len(edges) == len(steps) else ()  # repeated names would form false cycles
    first = next((one for one in steps if one.step.name in circle), None)
    if first:
        yield Fault(f"{first.path}.dependsOn", describe_cycle(circle))
    yield from _condition_warnings(steps, by_name)


def addresses(steps: Iterable[StepPosition]) -> dict[str, StepPosition]:
    """Steps by every name they can be addressed by: their own, and the name or component of their properties."""
    found: dict[str, StepPosition] = {}
    for one in steps:
        found.setdefault(one.step.name, one)
    for one in steps:
        for key in ("name", "component"):
            other = one.step.properties.get(key)
            if isinstance(other, str):
                found.setdefault(other, one)
    return found


def find_cycle(edges: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    """The members of a dependency cycle, in order; empty if there is none. `edges` maps a name to its dependencies."""
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        found = frozenset(error.args[1])
        return tuple(name for name in edges if name in found)
    return ()


def describe_cycle(circle: tuple[str, ...]) -> str:
    if len(circle) == 1:
        return f"'{circle[0]}' waits for itself"
    return f"{', '.join(repr(name) for name in circle)} wait for each other"


def _condition_warnings(steps: Iterable[StepPosition], by_name: Mapping[str, StepPosition]) -> Iterator[Warn]:
    for one in steps:
        problem = expressions.problem(one.step.condition, by_name) if one.step.condition is not None else None
        if problem:
            yield Warn(f"{one.path}.if", f"{problem}; the step would be skipped")


def _edges_of_groups(steps: Iterable[StepPosition]) -> dict[str, list[str]]:
    """A group finishes with its steps, which wait for all dependencies of the group."""
    edges: dict[str, list[str]] = {one.step.name: [] for one in steps}
    for one in steps:
        if one.group:
            edges[one.group.name].append(one.step.name)
            edges[one.step.name].extend(one.group.depends_on)
    return edges


@dataclass(frozen=True, slots=True)
class _Wait:
    """A dependency of a step on another, given by the step's name or by one of its outputs."""

    one: StepPosition
    name: str
    known: Mapping[str, StepPosition]
    noun: str
    at: str

    def fault(self, mode: Mode) -> Fault | None:
        other = self.known.get(self.name)
        if other is None:
            return Fault(self.at, f"no {self.noun} '{self.name}'; {suggestion(self.name, self.known, f'{self.noun}s')}")
        if _comes_later(other, self.one, mode):
            later = f"step '{other.step.name}' comes later"
            return Fault(self.at, f"{later}, and the steps run one after another (mode StepByStep)")
        return None


def _waits(
    steps: tuple[StepPosition, ...], by_name: Mapping[str, StepPosition], makers: Mapping[str, StepPosition]
) -> Iterator[_Wait]:
    for one in steps:
        for index, name in enumerate(one.step.depends_on):
            yield _Wait(one, name, by_name, "step", f"{one.path}.dependsOn[{index}]")
        for index, taken in enumerate(one.step.inputs):
            yield _Wait(one, taken.source, makers, "output", f"{one.path}.inputs[{index}].from")


def _comes_later(other: StepPosition, one: StepPosition, mode: Mode) -> bool:
    if other.index != one.index:
        return mode.steps == "StepByStep" and other.index > one.index
    within = one.group is not None and other.group is not None
    return within and mode.sub_steps == "StepByStep" and other.number > one.number
