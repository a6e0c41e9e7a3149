"""GET …/log: the output of a server's processes, and how to resume after an interruption.

With `places`, the response holds position lines between the others, which begin with a NUL, which no text has. Sent as
`after`, such a position is where the next response starts: so a client that follows through a restart of the plane gets
every line exactly once.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Self

from starlette.requests import Request
from starlette.responses import Response

from mizzen.errors import BadRequest, NotFound
from mizzen.kinds.schema.resource import Resource
from mizzen.server.http.context import ServerContext, context_of
from mizzen.server.http.query import Query
from mizzen.server.http.streaming import aclose_on_exit, log_response
from mizzen.server.resources import request_path
from mizzen.stores.all_pages import workloads_of

MARK = b"\0place "
_READ = "[0-9]{1,6}=[0-9]{1,18}-[0-9]{1,20}"
PLACE = re.compile(f"[0-9a-f]{{32}}(:{_READ}(,{_READ}){{0,999}})?")


@dataclass(frozen=True, slots=True)
class LogPosition:
    """A reader's position: the Workload, and the engine's position in the log of each replica."""

    workload: str
    read: dict[int, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Self:
        if not PLACE.fullmatch(text):
            raise BadRequest(
                "after: not a valid log position", hint="send the position that a log line has with places=true"
            )
        workload, _, rest = text.partition(":")
        pairs = (pair.split("=") for pair in rest.split(",") if pair)
        return cls(workload, {int(index): where for index, where in pairs})

    def line(self) -> bytes:
        read = ",".join(f"{index}={where}" for index, where in sorted(self.read.items()))
        return MARK + f"{self.workload}{':' if read else ''}{read}\n".encode()


async def log(request: Request) -> Response:
    if request.path_params["plural"] != "inferencemodels":
        raise NotFound(f"{request.path_params['plural']} have no log", hint="inferencemodels have one")
    resource = await request_path.find_object(request, "read", subresource="logs")
    query = Query(request, "tail", "follow", "places", "after", "build")
    tail, follow = query.number("tail"), query.flag("follow")
    after = LogPosition.parse(query.text("after")) if query.text("after") else None
    context, build = context_of(request), query.flag("build")
    places = query.flag("places") and not build
    chunks = _read_logs(context, resource, tail=tail, follow=follow, places=places, after=after, build=build)
    return log_response(chunks, context.stopping)


async def _read_logs(
    context: ServerContext,
    server: Resource,
    *,
    tail: int | None,
    follow: bool,
    places: bool,
    after: LogPosition | None,
    build: bool,
) -> AsyncGenerator[bytes, None]:
    """Yields the output of the server's workloads, one after the other; follows only the last one.

    `build`: instead, the output of building the environment of the newest workload.
    """
    workloads = await workloads_of(context.store, server)
    uids = [workload.meta.uid for workload in workloads]
    if build:
        workloads, after = workloads[-1:], None
    elif after is not None:
        # Everything after the position is new, so `tail` does not count; if its workload is gone, read all the others.
        workloads, tail = workloads[uids.index(after.workload) if after.workload in uids else 0 :], None
    for workload in workloads:
        uid, last = workload.meta.uid, workload is workloads[-1]
        place = LogPosition(uid, after.read if after is not None and after.workload == uid else {})
        read = place.read if places or after is not None else None
        log = context.logs(workload, tail=tail, follow=follow and last, places=read, build=build)
        async with aclose_on_exit(log) as chunks:
            async for chunk in chunks:
                yield chunk + place.line() if places else chunk
