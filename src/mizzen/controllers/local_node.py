"""This machine as a Node: its capabilities, heartbeat and disk space. Servers with a node selector find it like any
other Node."""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final, NoReturn

from mizzen.blobs.disk_room import Level, Room
from mizzen.errors import AlreadyExists, MizzenError
from mizzen.kinds.node import NodeStatus
from mizzen.kinds.rules.placement import HOSTNAME
from mizzen.kinds.schema.resource import Condition, Meta, Ref, Resource, format_time, merge_conditions
from mizzen.reconcile.apply import ACTOR
from mizzen.reconcile.controller import find
from mizzen.reconcile.recorder import NULL_RECORDER, EventSink, find_condition_changes
from mizzen.reconcile.workloads import false_condition
from mizzen.stores.store import Store

log = logging.getLogger(__name__)

HEARTBEAT_INTERVAL: Final = 30.0
DISK_CHECK_INTERVAL: Final = 2.0
"""Seconds between two checks of the disk."""
MAX_NAME_LENGTH: Final = 63


def node_name(host: str) -> str:
    """The host's name as a valid object name: a DNS label."""
    label = re.sub(r"[^a-z0-9]+", "-", host.partition(".")[0].lower())[:MAX_NAME_LENGTH].strip("-")
    return label or "localhost"


def node_of(host: str, capabilities: Iterable[str], gpus: int = 0) -> Resource:
    """The Node to register. It has the labels that a Kubernetes node would have."""
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
    store: Store,
    wanted: Resource,
    now: Callable[[], datetime],
    *,
    room: Room | None = None,
    recorder: EventSink = NULL_RECORDER,
    more: Sequence[Condition] = (),
    every: float = HEARTBEAT_INTERVAL,
    look: float = DISK_CHECK_INTERVAL,
) -> NoReturn:
    """Runs forever, in the plane's task tree. A failed heartbeat is logged; the next one makes up for it.

    When the disk gets low, or has room again, a heartbeat is sent at once. `more`: conditions that do not change while
    the plane runs.
    """
    level: Level | None = None
    left = 0.0
    while True:
        seen = room.level() if room is not None else None
        if left <= 0 or seen is not level:
            if level is not None and seen is not level and room is not None:
                log.warning("the disk: %s", room.describe())
            level, left = seen, every
            try:
                await send_heartbeat(store, wanted, now(), room=room, recorder=recorder, more=more)
            except MizzenError as error:
                log.warning("cannot update the Node of this machine: %s; retrying", error)
        await asyncio.sleep(min(look, every))
        left -= look


async def send_heartbeat(
    store: Store,
    wanted: Resource,
    now: datetime,
    *,
    room: Room | None = None,
    recorder: EventSink = NULL_RECORDER,
    more: Sequence[Condition] = (),
) -> None:
    """Write the Node's current state. Labels and fields that others set are kept."""
    node = await _register(store, wanted)
    last_status = NodeStatus.of(node)
    ours = [Condition(type="Ready", status="True", reason="Heard", message="this machine runs the plane"), *more]
    if room is not None:
        ours.append(disk_condition(room))
    types = {condition.type for condition in ours}
    others = (condition for condition in last_status.conditions if condition.type not in types)
    conditions = merge_conditions(last_status.conditions, (*others, *ours), generation=node.meta.generation, now=now)
    status = {
        **node.status,
        "conditions": [condition.wire() for condition in conditions],
        "lastHeartbeat": format_time(now),
    }
    written = await store.update_status(replace(node, status=status), ACTOR)
    for condition in find_condition_changes(node, written):
        recorder.record_condition(written, condition)


def disk_condition(room: Room) -> Condition:
    """Its message stays the same while the level does, so it does not name the free bytes, which change constantly."""
    match room.level():
        case Level.ENOUGH:
            return Condition(type="DiskRoom", status="True", reason="EnoughRoom", message="uploads are accepted")
        case Level.LOW:
            message = f"fewer than {room.low:,} bytes are free, so uploads are rejected; delete unused versions"
            return false_condition("DiskRoom", "DiskLow", message)
        case Level.CRITICAL:
            message = f"fewer than {room.critical:,} bytes are free, so writes are rejected; free space on that disk"
            return false_condition("DiskRoom", "DiskCritical", message)


async def _register(store: Store, wanted: Resource) -> Resource:
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
