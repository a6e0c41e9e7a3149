"""Reference pages of the types of components, traits, policies and steps, from their tables."""

from __future__ import annotations

from collections.abc import Iterable

from mizzen.kinds.application import components, policies, steps, traits
from mizzen.kinds.parts.typed_properties import ModuleType
from tools.reference import fields, markdown
from tools.reference.kinds import PAGES

HOME = "[Application](kinds/application.md)"

COMPONENTS = f"""\
A component of an {HOME} or an [Initializer](kinds/initializer.md) has a `type`, which defines its `properties`."""
TRAITS = f"A trait is attached to a component of an {HOME}; its `type` defines its `properties`."
POLICIES = f"A policy is a rule for an {HOME} as a whole; its `type` defines its `properties`."
STEPS = f"""\
A step of the workflow of an {HOME} or of an [Initializer](kinds/initializer.md) has a `type`, which defines its
`properties`."""


def pages() -> dict[str, str]:
    """Path to content."""
    return {
        f"docs/reference/{PAGES[noun]}": page(title, intro, types)
        for noun, title, intro, types in (
            ("component", "Component types", COMPONENTS, components.TYPES),
            ("trait", "Trait types", TRAITS, traits.TYPES),
            ("policy", "Policy types", POLICIES, policies.TYPES),
            ("step", "Step types", STEPS, steps.TYPES),
        )
    }


def page(title: str, intro: str, types: Iterable[ModuleType]) -> str:
    types = tuple(types)
    own = [type_.properties for type_ in types]
    inner = [part for part in fields.parts(*own) if part not in own]
    return markdown.page(
        title,
        intro,
        *(block for type_ in types for block in _type(type_)),
        "## Parts" if inner else "",
        *(block for part in sorted(inner, key=lambda part: part.__name__) for block in fields.section(part, 3)),
    )


def _type(type_: ModuleType) -> list[str]:
    others = ", ".join(map(markdown.code, type_.aliases))
    return [
        f"## {type_.name}",
        f"{type_.description} Also written {others}." if others else type_.description,
        fields.docstring(type_.properties) if type_.properties.model_fields else "",
        fields.table(type_.properties) or "It has no properties.",
    ]
