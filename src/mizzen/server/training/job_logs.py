"""GET …/train/{version}/{job}/logs: what the replicas of a job set print, each line with the name of its replica.

While it runs and long after: `runs/logs.py` reads the files that are still here, and those that are in Blobs by now.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Self

from mizzen.errors import BadRequest, NotFound
from mizzen.kinds.schema.findings import suggestion
from mizzen.kinds.text import durations
from mizzen.runs import logs
from mizzen.runs.paths import JobPlace
from mizzen.server.http.context import Plane
from mizzen.server.http.query import Query
from mizzen.server.http.streaming import closing
from mizzen.server.training import job_lookup
from mizzen.server.training.job_lookup import Known

_SECONDS = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")
REPLICA = re.compile(r"[a-z]{1,20}-[0-9]{1,4}")


@dataclass(frozen=True, slots=True)
class Wish:
    follow: bool = False
    tail: int | None = None
    since: float | None = None
    """Seconds since 1970."""
    replica: str = ""

    @classmethod
    def of(cls, query: Query, now: datetime) -> Self:
        replica = query.text("replica")
        if replica and not REPLICA.fullmatch(replica):
            raise BadRequest(f"replica={replica[:40]!r}: no such replica", hint="write it like worker-0")
        return cls(query.flag("follow"), query.number("tail"), _since(query, now), replica)


def _since(query: Query, now: datetime) -> float | None:
    """A time, or how long ago: 10m, or 600 for as many seconds."""
    text = query.text("since")
    if not text:
        return None
    if _SECONDS.fullmatch(text):
        return now.timestamp() - float(text)
    if durations.WRITTEN.fullmatch(text):
        return (now - timedelta(seconds=durations.seconds(text))).timestamp()
    time = query.time("since")
    return time.timestamp() if time is not None else None


async def lines(plane: Plane, known: Known, wish: Wish) -> AsyncGenerator[bytes, None]:
    """Blocks of whole lines. Following ends when the job set has, and all that it printed was given."""
    ended = asyncio.ensure_future(_ended(plane, known) if wish.follow else _now())
    try:
        told = logs.lines(
            plane.blobs.documents,
            plane.blobs,
            JobPlace(plane.data_dir, known.uid),
            replicas=[wish.replica] if wish.replica else None,
            tail=wish.tail,
            since=wish.since,
            follow=lambda: wish.follow and not ended.done(),
        )
        async with closing(told) as blocks:
            async for block in blocks:
                yield block
    finally:
        ended.cancel()
        await asyncio.gather(ended, return_exceptions=True)


def refuse_unknown_replica(known: Known, replica: str) -> None:
    """NotFound. What a job set was whose object is gone, nobody knows any more."""
    if not replica or known.job is None:
        return
    names = job_lookup.replicas(known.job)
    if names and replica not in names:
        raise NotFound(f"{known.ref} has no replica '{replica}'", hint=suggestion(replica, names, "replicas"))


async def _ended(plane: Plane, known: Known) -> None:
    if known.job is not None:
        await job_lookup.until_ended(plane.store, known.job)


async def _now() -> None:
    pass
