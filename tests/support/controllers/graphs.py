"""MLGraphs, and what runs for them, as tests want them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from mizzen.controllers.graphs.controller import Graphs
from mizzen.controllers.graphs.facts import GraphFacts
from mizzen.kinds.graph.spec import MLGraphStatus
from mizzen.kinds.schema.findings import Context
from mizzen.kinds.schema.resource import Resource
from mizzen.reconcile.controller import Decision
from tests.support.controllers.objects import NOW, meta, workload


def graph(spec: dict[str, Any], name: str = "g", *, generation: int = 1, **more: Any) -> Resource:
    return Resource("MLGraph", meta(name, generation=generation, **more), spec)


def container(name: str = "c", *, command: Sequence[str] = ("serve",), **fields: Any) -> dict[str, Any]:
    return {"name": name, "command": list(command), **fields}


def custom(*containers: dict[str, Any], **fields: Any) -> list[dict[str, Any]]:
    return [{"spec": {"containers": list(containers)}, **fields}]


def running(wanted: Resource, *states: str, message: str = "") -> Resource:
    """A Workload that a decision asked for, as it is when its replicas are in these states."""
    seen = workload(wanted.meta.name, *states, message=message)
    kept = replace(wanted.meta, uid=f"uid-{wanted.meta.name}", generation=1)
    return replace(wanted, meta=kept, status=seen.status)


def decide(facts: GraphFacts, **how: Any) -> Decision:
    return Graphs("http://x", Context(), **how).decide(facts, NOW)


def status(decision: Decision) -> MLGraphStatus:
    assert isinstance(decision.status, MLGraphStatus)
    return decision.status


def after(resource: Resource, decision: Decision, **changed: Any) -> Resource:
    """The graph once the decision is written, and maybe applied again with another spec."""
    told = replace(resource, status=status(decision).wire())
    if "spec" in changed:
        told = replace(told, meta=replace(told.meta, generation=told.meta.generation + 1))
    return replace(told, **changed)


def conditions(decision: Decision) -> dict[str, tuple[str, str]]:
    return {one.type: (one.status, one.reason) for one in status(decision).conditions}


def reasons(decision: Decision) -> dict[str, str]:
    return {one.name: one.reason for one in status(decision).nodes}
