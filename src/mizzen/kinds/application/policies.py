"""Policies: rules for an application as a whole."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from mizzen.kinds.parts.typed_properties import Nothing, Type, Typed

KEEP_DEV = "keep-dev"

TYPES: tuple[Type, ...] = (
    Type(KEEP_DEV, Nothing, "What runs in dev stays there after a promotion to prod, instead of going to 0 replicas."),
)


class Policy(Typed):
    noun: ClassVar[str] = "policy"
    types: ClassVar[tuple[Type, ...]] = TYPES

    name: str | None = Field(None, description="A name of one's own for it; its type by default.")
