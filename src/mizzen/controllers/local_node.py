"""This machine as a Node: what it offers, that it is there, and whether its disk has room. Servers that ask for a node
find it like any other."""

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

from mizzen.blobs.disk_room import Level, Room
from mizzen.errors import AlreadyExists, MizzenError
from mizzen.kinds.node import NodeStatus
from mizzen.kinds.rules.placement import HOSTNAME
from mizzen.kinds.schema.resource import Condition, Meta, Ref, Resource, format_time, merge_conditions
from mizzen.reconcile.apply import ACTOR
from mizzen.reconcile.controller import find
from mizzen.reconcile.recorder import NOBODY, Recorder, turns
from mizzen.stores.store import Store

log = logging.getLogger(__name__)

HEARTBEAT: Final = 30.0
LOOK: Final = 2.0
"""Seconds between two looks at the disk."""
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
    store: Store,
    wanted: Resource,
    now: Callable[[], datetime],
    *,
    room: Room | None = None,
    recorder: Recorder = NOBODY,
    every: float = HEARTBEAT,
    look: float = LOOK,
) -> NoReturn:
    """Runs for ever, in the plane's task tree. A beat that fails is told, and made up for with the next.

    When the disk gets low, or has room again, that is told at once.
    """
    level: Level | None = None
    left = 0.0
    while True:
        seen = room.level() if room is not None else None
        if left <= 0 or seen is not level:
            if level is not None and seen is not level and room is not None:
                log.warning("the disk: %s", room.said())
            level, left = seen, every
            try:
                await beat(store, wanted, now(), room=room, recorder=recorder)
            except MizzenError as error:
                log.warning("cannot tell that this machine is there: %s; trying again", error)
        await asyncio.sleep(min(look, every))
        left -= look


async def beat(
    store: Store, wanted: Resource, now: datetime, *, room: Room | None = None, recorder: Recorder = NOBODY
) -> None:
    """It is there, as it is now. What others wrote to it stays: labels they added, fields that we do not say."""
    node = await _registered(store, wanted)
    told = NodeStatus.of(node)
    ours = [Condition(type="Ready", status="True", reason="Heard", message="it runs this plane")]
    if room is not None:
        ours.append(disk_room(room))
    others = tuple(condition for condition in told.conditions if condition.type not in {each.type for each in ours})
    conditions = merge_conditions(told.conditions, (*others, *ours), generation=node.meta.generation, now=now)
    status = {
        **node.status,
        "conditions": [condition.wire() for condition in conditions],
        "lastHeartbeat": format_time(now),
    }
    written = await store.update_status(replace(node, status=status), ACTOR)
    for condition in turns(node, written):
        recorder.turned(written, condition)


def disk_room(room: Room) -> Condition:
    """Said in words that stay the same while nothing turns: what is free changes all the time."""
    match room.level():
        case Level.ENOUGH:
            return Condition(type="DiskRoom", status="True", reason="EnoughRoom", message="files are taken")
        case Level.LOW:
            message = f"less than {room.low:,} bytes are free: no files are taken; delete versions that nobody needs"
            return Condition(type="DiskRoom", status="False", reason="DiskLow", message=message)
        case Level.CRITICAL:
            message = f"less than {room.critical:,} bytes are free: nothing is added; delete something on that disk"
            return Condition(type="DiskRoom", status="False", reason="DiskCritical", message=message)


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
