"""Single fields of the small bodies of the /model API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mizzen.errors import Fault
from mizzen.kinds.findings import suggestion, unknown

__all__ = ("suggestion", "text_fault", "unknown")


def text_fault(data: Mapping[str, Any], name: str, *, required: bool = False) -> tuple[Fault, ...]:
    value = data.get(name)
    if value in (None, ""):
        return (Fault(name, "required"),) if required else ()
    return () if isinstance(value, str) else (Fault(name, "must be a text"),)
