"""This machine as a Node: what it offers, and that it is there. Servers that ask for a node find it like any other."""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from typing import Final, NoReturn

from mizzen.errors import AlreadyExists, MizzenError
from mizzen.kinds.meta import Condition, Meta, Ref, Resource, format_time, merge_conditions
from mizzen.kinds.node import NodeStatus
from mizzen.kinds.placement import HOSTNAME
from mizzen.reconcile.apply import ACTOR
from mizzen.reconcile.controller import find
from mizzen.stores.store import Store

HEARTBEAT: Final = 30.0
LONGEST: Final = 63


def node_name(host: str) -> str:
    """The name of a host as an object may have it: a DNS label."""
    label = re.sub(r"[^a-z0-9]+", "-", host.partition(".")[0].lower())[:LONGEST].strip("-")
    return label or "localhost"


def node_of(host: str, capabilities: Iterable[str], gpus: int = 0) -> Resource:
    """As it is to be registered. It has the labels that a node of Kubernetes would have."""
    name, offers = node_name(host), sorted(capabilities)
    labels = {
        HOSTNAME: name,
        "kubernetes.io/os": platform.system().lower(),
        "kubernetes.io/arch": {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine()),
    }
    spec = {
        "layer": "cloud",
        "cpu": str(os.cpu_count() or 1),
        "memory": str(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")),
        **({"capabilities": offers} if offers else {}),
        **({"gpus": gpus} if gpus else {}),
    }
    return Resource("Node", Meta(name, labels=labels), spec)


async def keep_registered(
    store: Store, wanted: Resource, now: Callable[[], datetime], *, every: float = HEARTBEAT
) -> NoReturn:
    """Runs for ever, in the plane's task tree. A beat that fails is told, and made up for with the next."""
    while True:
        try:
            await beat(store, wanted, now())
        except MizzenError as error:
            logging.getLogger(__name__).warning("cannot tell that this machine is there: %s; trying again", error)
        await asyncio.sleep(every)


async def beat(store: Store, wanted: Resource, now: datetime) -> None:
    """It is there, as it is now. What others wrote to it stays: labels they added, fields that we do not say."""
    node = await _registered(store, wanted)
    told = NodeStatus.of(node)
    ready = Condition(type="Ready", status="True", reason="Heard", message="it runs this plane")
    others = tuple(condition for condition in told.conditions if condition.type != ready.type)
    conditions = merge_conditions(told.conditions, (*others, ready), generation=node.meta.generation, now=now)
    status = {
        **node.status,
        "conditions": [condition.wire() for condition in conditions],
        "lastHeartbeat": format_time(now),
    }
    await store.update_status(replace(node, status=status), ACTOR)


async def _registered(store: Store, wanted: Resource) -> Resource:
    there = await find(store, Ref("Node", wanted.meta.name, wanted.meta.namespace))
    if there is None:
        try:
            return await store.create(wanted, ACTOR)
        except AlreadyExists:
            there = await store.get(wanted.ref)
    labels, spec = {**there.meta.labels, **wanted.meta.labels}, {**there.spec, **wanted.spec}
    if (labels, spec) == (there.meta.labels, there.spec) or there.deleting:
        return there
    return await store.update(replace(there, meta=replace(there.meta, labels=labels), spec=spec), ACTOR)
