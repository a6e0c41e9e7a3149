"""The rules for how steps apply components: unknown names, components that no step applies, or that two steps apply."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mizzen.errors import Fault
from mizzen.kinds.application import components, steps
from mizzen.kinds.application.components import Component
from mizzen.kinds.application.workflow import StepPosition
from mizzen.kinds.parts import typed_properties
from mizzen.kinds.schema.findings import Finding, Warn, close_to, suggestion


def usage_findings(parts: Mapping[str, Component], placed: tuple[StepPosition, ...]) -> Iterator[Finding]:
    """`parts` maps names to components."""
    for one in placed:
        yield from _reference_faults(one, parts)
    yield from _repeat_warnings(parts, placed)
    used = find_used_components(parts, placed)
    for name in parts:
        if name not in used:
            yield Warn("", f"component '{name}' is applied by no step{_mistake_hint(name, parts, placed)}")


def find_used_components(parts: Mapping[str, Component], placed: tuple[StepPosition, ...]) -> frozenset[str]:
    """Components that a step names, or would name if a reported misspelling were corrected."""
    used: set[str | None] = set()
    for one in placed:
        named = one.step.component
        if named is not None:
            used.add(named if named in parts else close_to(named, parts))
        elif _applies(one):
            used.update(name for name in parts if _is_named_after(one, name))
    return frozenset(name for name in used if name)


def _reference_faults(one: StepPosition, parts: Mapping[str, Component]) -> Iterator[Fault]:
    named, families, at = one.step.component, _applies(one), f"{one.path}.properties.component"
    if named is None or not families:
        return
    component = parts.get(named)
    if component is None:
        yield Fault(at, f"no component '{named}'; {suggestion(named, parts, 'components')}")
        return
    if component.family is not None and component.family not in families:
        fitting = ", ".join(type_.name for type_ in components.TYPES if type_.family in families)
        yield Fault(at, f"component '{named}' is of type {component.type}; this step needs {fitting}")


def _repeat_warnings(parts: Mapping[str, Component], placed: tuple[StepPosition, ...]) -> Iterator[Warn]:
    by_component: dict[str | None, list[str]] = {}
    for one in placed:
        if _once(one):
            by_component.setdefault(one.step.component, []).append(f"'{one.step.name}'")
    for name in parts:
        names = by_component.get(name, [])
        if len(names) > 1:
            all_ = "both" if len(names) == 2 else "all"
            yield Warn("", f"steps {', '.join(names[:-1])} and {names[-1]} {all_} apply '{name}'")


def _mistake_hint(name: str, parts: Mapping[str, Component], placed: tuple[StepPosition, ...]) -> str:
    """A hint at a step that is named after this component but applies another one, which is probably a mistake."""
    for one in placed:
        other = one.step.component
        if other is None or other not in parts:
            continue
        if _is_named_after(one, name) and not _is_named_after(one, other):
            return f"; did you mean it in '{one.step.name}'?"
    return ""


def _is_named_after(one: StepPosition, component: str) -> bool:
    return f"-{component}-" in f"-{one.step.name}-"


def _applies(one: StepPosition) -> tuple[components.Family, ...]:
    known = typed_properties.find(steps.TYPES, one.step.type)
    return known.applies if known else ()


def _once(one: StepPosition) -> bool:
    known = typed_properties.find(steps.TYPES, one.step.type)
    return known is not None and known.once
