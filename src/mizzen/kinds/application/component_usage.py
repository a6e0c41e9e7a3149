"""Which steps apply which components: names that are not there, components nobody applies, or two steps apply."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mizzen.errors import Fault
from mizzen.kinds.application import components, steps
from mizzen.kinds.application.components import Component
from mizzen.kinds.application.workflow import Placed
from mizzen.kinds.parts import typed_properties
from mizzen.kinds.schema.findings import Finding, Warn, close_to, suggestion


def usage_findings(parts: Mapping[str, Component], placed: tuple[Placed, ...]) -> Iterator[Finding]:
    """`parts` are the components by name."""
    for one in placed:
        yield from _reference_faults(one, parts)
    yield from _twice(parts, placed)
    used = used_components(parts, placed)
    for name in parts:
        if name not in used:
            yield Warn("", f"component '{name}' is applied by no step{_perhaps(name, parts, placed)}")


def used_components(parts: Mapping[str, Component], placed: tuple[Placed, ...]) -> frozenset[str]:
    """Components that a step names, or would name without the fault that is reported of it."""
    used: set[str | None] = set()
    for one in placed:
        named = one.step.component
        if named is not None:
            used.add(named if named in parts else close_to(named, parts))
        elif _applies(one):
            used.update(name for name in parts if _called_after(one, name))
    return frozenset(name for name in used if name)


def _reference_faults(one: Placed, parts: Mapping[str, Component]) -> Iterator[Fault]:
    named, families, at = one.step.component, _applies(one), f"{one.path}.properties.component"
    if named is None or not families:
        return
    component = parts.get(named)
    if component is None:
        yield Fault(at, f"no component '{named}'; {suggestion(named, parts, 'components')}")
        return
    if component.family is not None and component.family not in families:
        fitting = ", ".join(type_.name for type_ in components.TYPES if type_.family in families)
        yield Fault(at, f"component '{named}' is of type {component.type}; this step takes {fitting}")


def _twice(parts: Mapping[str, Component], placed: tuple[Placed, ...]) -> Iterator[Warn]:
    by_component: dict[str | None, list[str]] = {}
    for one in placed:
        if _once(one):
            by_component.setdefault(one.step.component, []).append(f"'{one.step.name}'")
    for name in parts:
        names = by_component.get(name, [])
        if len(names) > 1:
            all_ = "both" if len(names) == 2 else "all"
            yield Warn("", f"steps {', '.join(names[:-1])} and {names[-1]} {all_} apply '{name}'")


def _perhaps(name: str, parts: Mapping[str, Component], placed: tuple[Placed, ...]) -> str:
    """A step that is called after this component and applies another one is probably the mistake."""
    for one in placed:
        other = one.step.component
        if other is None or other not in parts:
            continue
        if _called_after(one, name) and not _called_after(one, other):
            return f"; did you mean it in '{one.step.name}'?"
    return ""


def _called_after(one: Placed, component: str) -> bool:
    return f"-{component}-" in f"-{one.step.name}-"


def _applies(one: Placed) -> tuple[components.Family, ...]:
    known = typed_properties.find(steps.TYPES, one.step.type)
    return known.applies if known else ()


def _once(one: Placed) -> bool:
    known = typed_properties.find(steps.TYPES, one.step.type)
    return known is not None and known.once
