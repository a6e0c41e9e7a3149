"""GET …/train/{version}/{job}/logs: the output of a job set's replicas, each line with the name of its replica.

It works while the job runs and long after: `runs/logs.py` reads local files and those already in the blob store.
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
from mizzen.kinds.schema.resource import Resource
from mizzen.kinds.text import durations
from mizzen.runs import logs
from mizzen.runs.paths import JobPlace
from mizzen.server.http import streaming
from mizzen.server.http.context import ServerContext
from mizzen.server.http.query import Query
from mizzen.server.training import job_lookup
from mizzen.server.training.job_lookup import JobIdentity

_SECONDS = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")
REPLICA = re.compile(r"[a-z]{1,20}-[0-9]{1,4}")


@dataclass(frozen=True, slots=True)
class JobLogQuery:
    follow: bool = False
    tail: int | None = None
    since: float | None = None
    """Seconds since 1970."""
    replica: str = ""

    @classmethod
    def of(cls, query: Query, now: datetime) -> Self:
        replica = query.text("replica")
        if replica and not REPLICA.fullmatch(replica):
            raise BadRequest(
                f"replica={replica[:40]!r} is not a valid replica name", hint="expected a name such as worker-0"
            )
        return cls(query.flag("follow"), query.number("tail"), _parse_since(query, now), replica)


def _parse_since(query: Query, now: datetime) -> float | None:
    """A time, or an age: 10m, or 600 for seconds."""
    text = query.text("since")
    if not text:
        return None
    if _SECONDS.fullmatch(text):
        return now.timestamp() - float(text)
    if durations.PATTERN.fullmatch(text):
        return (now - timedelta(seconds=durations.seconds(text))).timestamp()
    time = query.time("since")
    return time.timestamp() if time is not None else None


async def stream_lines(context: ServerContext, job: JobIdentity, query: JobLogQuery) -> AsyncGenerator[bytes, None]:
    """Blocks of whole lines. With follow, it ends when the job set has ended and all its output was sent."""
    ended: asyncio.Task[Resource] | None = None
    if query.follow and job.job is not None:
        ended = asyncio.create_task(job_lookup.wait_ended(context.store, job.job))
    try:
        output = logs.lines(
            context.blobs.documents,
            context.blobs,
            JobPlace(context.data_dir, job.uid),
            replicas=[query.replica] if query.replica else None,
            tail=query.tail,
            since=query.since,
            follow=lambda: ended is not None and not ended.done(),
        )
        async with streaming.aclose_on_exit(output) as blocks:
            async for block in blocks:
                yield block
    finally:
        await streaming.cancel(ended)


def refuse_unknown_replica(job: JobIdentity, replica: str) -> None:
    """Raises NotFound. The replicas of a job set whose object is deleted are unknown, so any name passes."""
    if not replica or job.job is None:
        return
    names = job_lookup.replica_names(job.job)
    if names and replica not in names:
        raise NotFound(f"{job.ref} has no replica '{replica}'", hint=suggestion(replica, names, "replicas"))
