"""Policies: rules for an application as a whole."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from mizzen.kinds.parts.typed_properties import ModuleType, NoProperties, TypedPart

KEEP_DEV = "keep-dev"

TYPES: tuple[ModuleType, ...] = (
    ModuleType(
        KEEP_DEV, NoProperties, "Keeps the dev replicas after a promotion to prod, instead of scaling them to 0."
    ),
)


class ApplicationPolicy(TypedPart):
    noun: ClassVar[str] = "policy"
    types: ClassVar[tuple[ModuleType, ...]] = TYPES

    name: str | None = Field(None, description="The name of the policy. Default: its type.")
