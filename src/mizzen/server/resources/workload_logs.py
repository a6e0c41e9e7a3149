"""GET …/log: what the processes of a server printed, and how to go on where one broke off.

Who asks for `places` gets a line between the others now and then that says how far they have read: it begins with a
NUL, which is in no text. What it says, sent as `after`, is where the next answer begins: so whoever follows through a
restart of the plane gets every line, and none twice.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Self

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from mizzen.errors import BadRequest, NotFound
from mizzen.kinds.schema.resource import Resource
from mizzen.server.http.context import Plane, plane_of
from mizzen.server.http.query import Query
from mizzen.server.http.streaming import closing, until_stopped
from mizzen.server.resources import request_path
from mizzen.stores.store import Where

MARK = b"\0place "
_READ = "[0-9]{1,6}=[0-9]{1,18}-[0-9]{1,20}"
PLACE = re.compile(f"[0-9a-f]{{32}}(:{_READ}(,{_READ}){{0,999}})?")


@dataclass(frozen=True, slots=True)
class Place:
    """How far somebody has read: in which Workload's logs, and where in each replica's, as the engine says it."""

    workload: str
    read: dict[int, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Self:
        if not PLACE.fullmatch(text):
            raise BadRequest(
                "after: this is no place in a log", hint="send what a line of the log says with places=true"
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
    resource = await request_path.found(request, "read", subresource="logs")
    query = Query(request, "tail", "follow", "places", "after", "build")
    tail, follow = query.number("tail"), query.flag("follow")
    after = Place.parse(query.text("after")) if query.text("after") else None
    plane = plane_of(request)
    if query.flag("build"):
        told = _build(plane, resource, tail=tail, follow=follow)
    else:
        told = _chunks(plane, resource, tail=tail, follow=follow, places=query.flag("places"), after=after)
    return StreamingResponse(until_stopped(told, plane.stopping), media_type="text/plain; charset=utf-8")


async def _build(plane: Plane, server: Resource, *, tail: int | None, follow: bool) -> AsyncGenerator[bytes, None]:
    """What was printed while the environment was built that the server's newest workload runs in."""
    for workload in (await _workloads(plane, server))[-1:]:
        async with closing(plane.logs(workload, tail=tail, follow=follow, places=None, build=True)) as chunks:
            async for chunk in chunks:
                yield chunk


async def _workloads(plane: Plane, server: Resource) -> tuple[Resource, ...]:
    where = Where(namespace=server.meta.namespace, owner=server.meta.uid)
    return (await plane.store.list("Workload", where)).items


async def _chunks(
    plane: Plane, server: Resource, *, tail: int | None, follow: bool, places: bool, after: Place | None
) -> AsyncGenerator[bytes, None]:
    """What the server's workloads printed, one after the other; following goes on with the last one."""
    workloads = await _workloads(plane, server)
    uids = [workload.meta.uid for workload in workloads]
    if after is not None:
        # What came after the place is new, whatever was to be left out before it; a workload that is gone is read.
        workloads, tail = workloads[uids.index(after.workload) if after.workload in uids else 0 :], None
    for workload in workloads:
        uid, last = workload.meta.uid, workload is workloads[-1]
        place = Place(uid, after.read if after is not None and after.workload == uid else {})
        kept = place.read if places or after is not None else None
        async with closing(plane.logs(workload, tail=tail, follow=follow and last, places=kept)) as chunks:
            async for chunk in chunks:
                yield chunk + place.line() if places else chunk
