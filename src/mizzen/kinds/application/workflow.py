"""The workflow of an Application: its steps, their order, and what is wrong with that order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Annotated, Literal

from pydantic import Field

from mizzen.errors import Fault
from mizzen.kinds.application.steps import Step, SubStep
from mizzen.kinds.parts.typed_properties import repeated
from mizzen.kinds.schema.findings import Finding, Warn, suggestion
from mizzen.kinds.schema.resource import Part
from mizzen.kinds.schema.size_limits import Most
from mizzen.kinds.text import expressions

Order = Literal["StepByStep", "DAG"]


class Mode(Part):
    """`StepByStep`: one after another, as listed. `DAG`: each as soon as what it depends on has finished."""

    steps: Order = Field("StepByStep", description="Order of the steps.")
    sub_steps: Order = Field("DAG", description="Order of the steps within a group.")


DEFAULT_MODE = Mode.model_validate({})


class Workflow(Part):
    """What is done, in which order. Nothing outside its steps is applied."""

    steps: Annotated[tuple[Step, ...], Most(256)] = Field(min_length=1, description="The steps.")
    mode: Mode = Field(DEFAULT_MODE, description="The order in which they run.")
    on_failure: Literal["terminate", "suspend"] = Field(
        "terminate", description="What a step that failed after all its tries does to the run."
    )


@dataclass(frozen=True, slots=True)
class Placed:
    """A step and where it stands."""

    path: str
    step: SubStep
    index: int
    """Of the step, or of its group, in the workflow."""
    group: Step | None = None
    """The group it is in."""
    number: int = 0
    """Its index there."""


def placed(steps: Iterable[Step], at: str) -> tuple[Placed, ...]:
    """All steps in the order they are written, those of a group after it; `at` is the path of the list."""
    found = []
    for index, step in enumerate(steps):
        path = f"{at}[{index}]"
        found.append(Placed(path, step, index))
        for number, inner in enumerate(step.sub_steps):
            found.append(Placed(f"{path}.subSteps[{number}]", inner, index, step, number))
    return tuple(found)


def order_findings(steps: tuple[Placed, ...], mode: Mode) -> Iterator[Finding]:
    """Names given twice, dependencies and inputs that are not there, come too late or wait for each other."""
    yield from repeated([(f"{one.path}.name", one.step.name) for one in steps], "step")
    outputs = [
        (f"{one.path}.outputs[{index}].name", output.name, one)
        for one in steps
        for index, output in enumerate(one.step.outputs)
    ]
    yield from repeated([(path, name) for path, name, _ in outputs], "output")
    by_name = addresses(steps)
    edges = _edges_of_groups(steps)
    for wait in _waits(steps, by_name, {name: one for _, name, one in outputs}):
        fault = wait.fault(mode)
        if fault:
            yield fault
        else:
            edges[wait.one.step.name].append(wait.known[wait.name].step.name)
    circle = circle_in(edges) if len(edges) == len(steps) else ()  # names given twice would make false ones
    first = next((one for one in steps if one.step.name in circle), None)
    if first:
        yield Fault(f"{first.path}.dependsOn", waiting(circle))
    yield from _condition_warnings(steps, by_name)


def addresses(steps: Iterable[Placed]) -> dict[str, Placed]:
    """Steps by every name they can be addressed by: their own, or the name or component of their properties."""
    found: dict[str, Placed] = {}
    for one in steps:
        found.setdefault(one.step.name, one)
    for one in steps:
        for key in ("name", "component"):
            other = one.step.properties.get(key)
            if isinstance(other, str):
                found.setdefault(other, one)
    return found


def circle_in(edges: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    """Names that wait for each other, in their order; empty when none do. `edges`: a name to the names it waits for."""
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        found = frozenset(error.args[1])
        return tuple(name for name in edges if name in found)
    return ()


def waiting(circle: tuple[str, ...]) -> str:
    if len(circle) == 1:
        return f"'{circle[0]}' waits for itself"
    return f"{', '.join(repr(name) for name in circle)} wait for each other"


def _condition_warnings(steps: Iterable[Placed], by_name: Mapping[str, Placed]) -> Iterator[Warn]:
    for one in steps:
        problem = expressions.problem(one.step.condition, by_name) if one.step.condition is not None else None
        if problem:
            yield Warn(f"{one.path}.if", f"{problem}; as it stands the step is skipped")


def _edges_of_groups(steps: Iterable[Placed]) -> dict[str, list[str]]:
    """A group has finished when its steps have; they wait for all that the group waits for."""
    edges: dict[str, list[str]] = {one.step.name: [] for one in steps}
    for one in steps:
        if one.group:
            edges[one.group.name].append(one.step.name)
            edges[one.step.name].extend(one.group.depends_on)
    return edges


@dataclass(frozen=True, slots=True)
class _Wait:
    """A step waits for another, which it names by the step's name or by one of its outputs."""

    one: Placed
    name: str
    known: Mapping[str, Placed]
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


def _waits(steps: tuple[Placed, ...], by_name: Mapping[str, Placed], makers: Mapping[str, Placed]) -> Iterator[_Wait]:
    for one in steps:
        for index, name in enumerate(one.step.depends_on):
            yield _Wait(one, name, by_name, "step", f"{one.path}.dependsOn[{index}]")
        for index, taken in enumerate(one.step.inputs):
            yield _Wait(one, taken.source, makers, "output", f"{one.path}.inputs[{index}].from")


def _comes_later(other: Placed, one: Placed, mode: Mode) -> bool:
    if other.index != one.index:
        return mode.steps == "StepByStep" and other.index > one.index
    within = one.group is not None and other.group is not None
    return within and mode.sub_steps == "StepByStep" and other.number > one.number
