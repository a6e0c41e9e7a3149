"""GET /metrics of the control API: what the plane knows and gateways do not, as text for Prometheus.

Processes and what they use, how controllers keep up, and how much is kept. Whoever may read a model is told of its
replicas, and of kinds whoever may read all of them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from mizzen.protocol.prometheus_text import CONTENT_TYPE, Family, Labels, Sample, render
from mizzen.reconcile.loop import Backlog
from mizzen.server.admin.usage import own, sees
from mizzen.server.auth import authorization, targets
from mizzen.server.http.context import plane_of
from mizzen.server.http.query import Query
from mizzen.usage.rates import Process
from mizzen.usage.sampler import Now

Row = TypeVar("Row")


async def _nothing() -> Mapping[str, int]:
    return {}


@dataclass(frozen=True, slots=True)
class Inside:
    """What only the plane's own process can tell."""

    objects: Callable[[], Awaitable[Mapping[str, int]]] = _nothing
    """How many there are of each kind."""
    backlogs: Callable[[], Iterable[Backlog]] = tuple
    store_bytes: Callable[[], int] = int
    disk_free_bytes: Callable[[], int] = int


def routes(inside: Inside) -> list[Route]:
    async def metrics(request: Request) -> Response:
        authorization.require(request, "read", targets.PLANE)
        Query(request)
        found = plane_of(request).usage.now()
        objects = {
            kind: count
            for kind, count in (await inside.objects()).items()
            if authorization.may(request, "read", targets.all_of(kind))
        }
        families = (
            *_of_servers(request, found),
            *_of_replicas(request, found),
            *_of_processes(found),
            *_of_controllers(list(inside.backlogs())),
            *_of_store(objects, inside.store_bytes(), inside.disk_free_bytes()),
        )
        return Response(render(families), headers={"content-type": CONTENT_TYPE})

    return [Route("/metrics", metrics, methods=["GET"])]


def _of_servers(request: Request, found: Now) -> Iterator[Family]:
    name = "mizzen_replicas_wanted"
    rows = [
        Sample(name, (("namespace", key[0]), ("model", key[1]), ("version", key[2])), served.wanted)
        for key, served in sorted(found.moment.known.served.items())
        if sees(request, key)
    ]
    yield Family(name, "gauge", "Replicas that there should be of a served version, by its spec or by the load.", rows)


def _of_replicas(request: Request, found: Now) -> Iterator[Family]:
    rows: list[tuple[Labels, Process | None, int]] = []
    for process, restarts in sorted(found.restarts.items()):
        told = found.moment.known.work(process)
        if told is None or not sees(request, told[0].key):
            continue
        (work, index), (namespace, model, version) = told, told[0].key
        labels = (
            ("server", f"{namespace}/{work.server}"), ("namespace", namespace), ("model", model), ("version", version),
            ("replica", str(index)),
        )  # fmt: skip
        rows.append((labels, found.moment.processes.get(process), restarts))
    running = [(labels, process) for labels, process, _ in rows if process is not None]
    again = [(labels, restarts) for labels, _, restarts in rows]
    name = "mizzen_replica_resident_memory_bytes"
    yield _family(name, "gauge", "Resident memory of a replica.", running, lambda each: each.resident_bytes)
    name = "mizzen_replica_cpu_seconds_total"
    yield _family(name, "counter", "CPU time of a replica's process.", running, lambda each: each.cpu_seconds)
    yield _family("mizzen_replica_restarts_total", "counter", "How often a replica was started again.", again, int)


def _of_processes(found: Now) -> Iterator[Family]:
    rows: list[tuple[Labels, Process]] = [((("process", name),), process) for name, process in own(found)]
    name = "process_cpu_seconds_total"
    yield _family(name, "counter", "CPU time of the process.", rows, lambda each: each.cpu_seconds)
    name = "process_resident_memory_bytes"
    yield _family(name, "gauge", "Resident memory of the process.", rows, lambda each: each.resident_bytes)
    name = "mizzen_process_restarts_total"
    yield _family(name, "counter", "How often the process was started again.", rows, lambda each: each.restarts)


def _of_controllers(backlogs: list[Backlog]) -> Iterator[Family]:
    rows: list[tuple[Labels, Backlog]] = [((("kind", each.controller),), each) for each in backlogs]
    name = "mizzen_reconcile_queue_length"
    yield _family(name, "gauge", "Objects that wait for their controller.", rows, lambda each: each.waiting)
    name, help_ = "mizzen_reconcile_failing", "Objects that their controller could not deal with; each is tried again."
    yield _family(name, "gauge", help_, rows, lambda each: each.failing)
    name = "mizzen_reconcile_errors_total"
    yield _family(name, "counter", "Looks at an object that failed.", rows, lambda each: each.errors)


def _of_store(objects: Mapping[str, int], size: int, free: int) -> Iterator[Family]:
    name = "mizzen_resources"
    rows = [Sample(name, (("kind", kind),), count) for kind, count in sorted(objects.items())]
    yield Family(name, "gauge", "Objects of each kind.", rows)
    name = "mizzen_store_bytes"
    yield Family(name, "gauge", "Size of the store's files.", [Sample(name, (), size)])
    name = "mizzen_disk_free_bytes"
    yield Family(name, "gauge", "Bytes that are free on the disk of the data dir.", [Sample(name, (), free)])


def _family(
    name: str,
    kind: Literal["counter", "gauge"],
    help_: str,
    rows: Iterable[tuple[Labels, Row]],
    value: Callable[[Row], float],
) -> Family:
    """A sample for each row."""
    return Family(name, kind, help_, [Sample(name, labels, value(row)) for labels, row in rows])
