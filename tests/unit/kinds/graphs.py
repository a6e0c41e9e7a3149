"""Short ways to write graphs and to say what is found in them."""

from __future__ import annotations

from typing import Any

from mizzen.kinds import catalog
from mizzen.kinds.schema.findings import Context, Findings

CONTAINERS = Context(capabilities=frozenset({"containers"}))


def examined(spec: Any, context: Context = CONTAINERS, *, strict: bool = True) -> Findings:
    return catalog.find("mlgraph").examine("g", spec, context, strict=strict)


def found(spec: Any, context: Context = CONTAINERS) -> list[str]:
    """Every fault, then every warning."""
    return [str(item) for item in examined(spec, context)]


def node(name: str, *dependencies: str, **fields: Any) -> dict[str, Any]:
    """A node that calls something served, unless the fields say what it does."""
    runs = {} if {"implementation", "route", "merge"} & set(fields) else {"implementation": {"kfservice": name}}
    return {"name": name, **({"dependencies": list(dependencies)} if dependencies else {}), **runs, **fields}


def dag(*nodes: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"dag": list(nodes), **fields}


def routed(route: Any, *children: str) -> dict[str, Any]:
    """A node `a` with this route, and its children."""
    return dag(node("a", route=route), *(node(child, "a") for child in children))


def merged(merge: Any, *dependencies: str, **fields: Any) -> dict[str, Any]:
    """Nodes, and then a node `m` that merges them."""
    return dag(*map(node, dependencies), node("m", *dependencies, merge=merge), **fields)


def pods(*names: str, image: str | None = "x:1") -> list[dict[str, Any]]:
    """One pod with containers of these names."""
    return [{"spec": {"containers": [{"name": name, **({"image": image} if image else {})} for name in names]}}]
