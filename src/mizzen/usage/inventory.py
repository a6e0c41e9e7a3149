"""What there is to measure: which served versions, which processes belong to them, and which names stand for them.

Calls count for the model that answers them, under whatever name they come: that of a server, or a second name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from mizzen.graph.table_types import Table
from mizzen.kinds.schema.resource import Resource

Key = tuple[str, str, str]
"""Namespace, model and version."""

_AGAIN = re.compile(r"-[0-9a-f]{8}$")


@dataclass(frozen=True, slots=True)
class Served:
    """A version of a model that is served, or is to be."""

    servers: tuple[str, ...] = ()
    """Names of the InferenceModels that do so."""
    wanted: int = 0
    ready: int = 0


@dataclass(frozen=True, slots=True)
class Work:
    """What the processes of one Workload are for."""

    key: Key
    server: str


@dataclass(frozen=True, slots=True)
class Known:
    served: Mapping[Key, Served] = field(default_factory=dict)
    works: Mapping[str, Work] = field(default_factory=dict)
    """By uid of the Workload."""
    models: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """The model that answers to a name in a namespace, where that is another one's."""
    judged: Mapping[tuple[str, str], tuple[str, str]] = field(default_factory=dict)
    """Namespace and model of what feedback is kept for: by uid of the graph or InferenceModel, and node."""

    def model(self, namespace: str, name: str) -> str:
        return self.models.get((namespace, name), name)

    def work(self, process: str) -> tuple[Work, int] | None:
        """Of the process with this key: `<uid>.<index>`; None when it is no replica of something known."""
        uid, _, index = process.rpartition(".")
        found = self.works.get(uid)
        return (found, int(index)) if found is not None and index.isdecimal() else None


class Kept:
    """What is known, made anew only when something has changed."""

    def __init__(self, told: Callable[[], tuple[str, Table | None, Iterable[Resource], Iterable[Resource]]]) -> None:
        """`told`: a word that changes with what follows, the table, InferenceModels and Workloads."""
        self._told = told
        self._at: tuple[str, int] | None = None
        self._known = Known()

    def __call__(self) -> Known:
        position, table, servers, workloads = self._told()
        at = position, table.serial if table is not None else -1
        if at != self._at:
            self._known, self._at = known(table, servers, workloads), at
        return self._known


def known(table: Table | None, servers: Iterable[Resource], workloads: Iterable[Resource]) -> Known:
    """Specs are read as they are: what is wrong with one is told elsewhere, and must not end the counting."""
    served: dict[Key, Served] = {}
    works: dict[str, Work] = {}
    models = {(route.namespace, route.name): route.model for route in table.routes if route.model} if table else {}
    own: dict[str, list[Resource]] = {}
    for workload in workloads:
        for owner in workload.meta.owners:
            own.setdefault(owner.uid, []).append(workload)
    for server in servers:
        model = str(server.spec.get("modelName", ""))
        models.setdefault((server.meta.namespace, server.meta.name), model)
        target = _target(server)
        there = [(workload, _version(server, workload, target)) for workload in own.get(server.meta.uid, ())]
        if target not in (version for _, version in there):
            _add(served, (server.meta.namespace, model, target), server, _count(server.spec.get("replicas", 1)), 0)
        for workload, version in there:
            key = server.meta.namespace, model, version
            works[workload.meta.uid] = Work(key, server.meta.name)
            replicas = workload.status.get("replicas") or ()
            ready = sum(replica.get("state") == "ready" for replica in replicas)
            _add(served, key, server, _count(workload.spec.get("replicas", 1)), ready)
    return Known(served, works, models, _judged(table, models) if table else {})


def _judged(table: Table, models: Mapping[tuple[str, str], str]) -> dict[tuple[str, str], tuple[str, str]]:
    found: dict[tuple[str, str], tuple[str, str]] = {}
    for route in table.routes:
        for plan in (route.plan, *route.versions.values()):
            if plan.kept is None:
                continue
            called = {"": route.name}
            if plan.graph is not None:
                called = {node.name: node.call.name for node in plan.graph.nodes if node.call is not None}
            for node, name in called.items():
                if name:
                    model = models.get((route.namespace, name), name)
                    found[plan.kept.uid, node] = route.namespace, model
    return found


def _add(served: dict[Key, Served], key: Key, server: Resource, wanted: int, ready: int) -> None:
    before = served.get(key, Served())
    name = server.meta.name
    names = before.servers if name in before.servers else (*before.servers, name)
    served[key] = Served(names, before.wanted + wanted, before.ready + ready)


def _target(server: Resource) -> str:
    return str(server.status.get("targetVersion") or server.spec.get("targetVersion") or "")


def _version(server: Resource, workload: Resource, target: str) -> str:
    """What a Workload serves: its name says so, as `running.workload_of` gives it."""
    if workload.meta.name == server.status.get("servingWorkload"):
        return str(server.status.get("servingVersion") or target)
    rest = workload.meta.name.removeprefix(f"{server.meta.name}.")
    return rest if rest == target else _AGAIN.sub("", rest)


def _count(value: object) -> int:
    return value if type(value) is int else 1
