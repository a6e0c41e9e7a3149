"""The inventory of served versions, their processes, and the names that resolve to them.

A call counts for the model that serves it, whether the caller used the model's name, a server's name or an alias.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from mizzen.graph.table_types import Table
from mizzen.kinds.schema.resource import Resource

Key = tuple[str, str, str]
"""Namespace, model and version."""

_HASH_SUFFIX = re.compile(r"-[0-9a-f]{8}$")


@dataclass(frozen=True, slots=True)
class ServedVersion:
    """A version of a model that is served or should be."""

    servers: tuple[str, ...] = ()
    """Names of the InferenceModels that serve it."""
    wanted: int = 0
    ready: int = 0


@dataclass(frozen=True, slots=True)
class WorkloadRole:
    """The version and the server that the processes of one Workload belong to."""

    key: Key
    server: str


@dataclass(frozen=True, slots=True)
class Inventory:
    served: Mapping[Key, ServedVersion] = field(default_factory=dict)
    workloads: Mapping[str, WorkloadRole] = field(default_factory=dict)
    """By uid of the Workload."""
    models: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """The model that a name in a namespace resolves to, where it is not the name itself."""
    feedback_targets: Mapping[tuple[str, str], tuple[str, str]] = field(default_factory=dict)
    """Namespace and model that feedback is about, by uid of the graph or InferenceModel, and node."""

    def resolve_model(self, namespace: str, name: str) -> str:
        return self.models.get((namespace, name), name)

    def find_workload(self, process: str) -> tuple[WorkloadRole, int] | None:
        """The role and index of the process with key `<uid>.<index>`; None when it is not a known replica."""
        uid, _, index = process.rpartition(".")
        found = self.workloads.get(uid)
        return (found, int(index)) if found is not None and index.isdecimal() else None


class InventoryCache:
    """The inventory, rebuilt only when something has changed."""

    def __init__(self, read: Callable[[], tuple[str, Table | None, Iterable[Resource], Iterable[Resource]]]) -> None:
        """`read` returns the position of the store, the table, and all InferenceModels and Workloads."""
        self._read = read
        self._at: tuple[str, int] | None = None
        self._inventory = Inventory()

    def __call__(self) -> Inventory:
        position, table, servers, workloads = self._read()
        at = position, table.serial if table is not None else -1
        if at != self._at:
            self._inventory, self._at = build_inventory(table, servers, workloads), at
        return self._inventory


def build_inventory(table: Table | None, servers: Iterable[Resource], workloads: Iterable[Resource]) -> Inventory:
    """Specs are read without validation: an invalid one is reported elsewhere and must not stop the measuring."""
    served: dict[Key, ServedVersion] = {}
    works: dict[str, WorkloadRole] = {}
    models = {(route.namespace, route.name): route.model for route in table.routes if route.model} if table else {}
    own: dict[str, list[Resource]] = {}
    for workload in workloads:
        for owner in workload.meta.owners:
            own.setdefault(owner.uid, []).append(workload)
    for server in servers:
        model = str(server.spec.get("modelName", ""))
        models.setdefault((server.meta.namespace, server.meta.name), model)
        target = _target_of(server)
        there = [(workload, _version_of(server, workload, target)) for workload in own.get(server.meta.uid, ())]
        if target not in (version for _, version in there):
            _add(served, (server.meta.namespace, model, target), server, _to_count(server.spec.get("replicas", 1)), 0)
        for workload, version in there:
            key = server.meta.namespace, model, version
            works[workload.meta.uid] = WorkloadRole(key, server.meta.name)
            replicas = workload.status.get("replicas") or ()
            ready = sum(replica.get("state") == "ready" for replica in replicas)
            _add(served, key, server, _to_count(workload.spec.get("replicas", 1)), ready)
    return Inventory(served, works, models, _feedback_targets_of(table, models) if table else {})


def _feedback_targets_of(table: Table, models: Mapping[tuple[str, str], str]) -> dict[tuple[str, str], tuple[str, str]]:
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


def _add(served: dict[Key, ServedVersion], key: Key, server: Resource, wanted: int, ready: int) -> None:
    before = served.get(key, ServedVersion())
    name = server.meta.name
    names = before.servers if name in before.servers else (*before.servers, name)
    served[key] = ServedVersion(names, before.wanted + wanted, before.ready + ready)


def _target_of(server: Resource) -> str:
    return str(server.status.get("targetVersion") or server.spec.get("targetVersion") or "")


def _version_of(server: Resource, workload: Resource, target: str) -> str:
    """The version that a Workload serves, from its name as `workload_template.workload_of` builds it."""
    if workload.meta.name == server.status.get("servingWorkload"):
        return str(server.status.get("servingVersion") or target)
    rest = workload.meta.name.removeprefix(f"{server.meta.name}.")
    return rest if rest == target else _HASH_SUFFIX.sub("", rest)


def _to_count(value: object) -> int:
    return value if type(value) is int else 1
