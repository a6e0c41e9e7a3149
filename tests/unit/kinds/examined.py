"""What is found of a spec, as texts `path: message`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mizzen.kinds import catalog
from mizzen.kinds.schema.findings import Context

EVERYTHING = Context(capabilities=frozenset({"containers", "gpus"}), namespace="default")
"""An engine that lacks nothing, so that only the spec itself is spoken of."""


def faults(kind: str, spec: Mapping[str, Any], context: Context = EVERYTHING, *, name: str = "iris") -> set[str]:
    return set(map(str, _examine(kind, spec, context, name).faults))


def warnings(kind: str, spec: Mapping[str, Any], context: Context = EVERYTHING, *, name: str = "iris") -> set[str]:
    """Of a spec without faults."""
    found = _examine(kind, spec, context, name)
    assert found.faults == ()
    return set(map(str, found.warnings))


def _examine(kind: str, spec: Mapping[str, Any], context: Context, name: str) -> Any:
    known = Context(context.capabilities, context.annotations, name, context.namespace)
    return catalog.BY_NAME[kind].examine(name, spec, known)
