"""GET /metrics of the control API: metrics of the plane that gateways do not have, in the Prometheus text format.

They cover processes and their resources, controller backlogs, requests in flight, and stored objects. Metrics of
replicas need `read` on the model; object counts need `read` on the whole kind.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from mizzen.protocol.prometheus_text import CONTENT_TYPE, Labels, MetricFamily, MetricSample, render
from mizzen.reconcile.loop import ControllerBacklog
from mizzen.server.admin.usage import can_see, plane_processes
from mizzen.server.auth import authorization, targets
from mizzen.server.flow_control.limits import FlowControl
from mizzen.server.flow_control.metrics import flow_families
from mizzen.server.http.context import context_of
from mizzen.server.http.query import Query
from mizzen.usage.rates import ProcessUsage
from mizzen.usage.sampler import UsageSnapshot

Row = TypeVar("Row")


async def _no_objects() -> Mapping[str, int]:
    return {}


@dataclass(frozen=True, slots=True)
class PlaneStats:
    """Figures that only the plane's own process knows."""

    objects: Callable[[], Awaitable[Mapping[str, int]]] = _no_objects
    """The number of objects of each kind."""
    backlogs: Callable[[], Iterable[ControllerBacklog]] = tuple
    store_bytes: Callable[[], int] = int
    disk_free_bytes: Callable[[], int] = int


def routes(inside: PlaneStats, flow: FlowControl) -> list[Route]:
    async def metrics(request: Request) -> Response:
        authorization.require(request, "read", targets.PLANE)
        Query(request)
        found = context_of(request).usage.now()
        objects = {
            kind: count
            for kind, count in (await inside.objects()).items()
            if authorization.is_allowed(request, "read", targets.all_of(kind))
        }
        families = (
            *_server_families(request, found),
            *_replica_families(request, found),
            *_process_families(found),
            *_controller_families(list(inside.backlogs())),
            *flow_families(flow),
            *_store_families(objects, inside.store_bytes(), inside.disk_free_bytes()),
        )
        return Response(render(families), headers={"content-type": CONTENT_TYPE})

    return [Route("/metrics", metrics, methods=["GET"])]


def _server_families(request: Request, found: UsageSnapshot) -> Iterator[MetricFamily]:
    name = "mizzen_replicas_wanted"
    rows = [
        MetricSample(name, (("namespace", key[0]), ("model", key[1]), ("version", key[2])), served.wanted)
        for key, served in sorted(found.sample.inventory.served.items())
        if can_see(request, key)
    ]
    yield MetricFamily(name, "gauge", "Desired replicas of a served version, from its spec or autoscaling.", rows)


def _replica_families(request: Request, found: UsageSnapshot) -> Iterator[MetricFamily]:
    rows: list[tuple[Labels, ProcessUsage | None, int]] = []
    for process, restarts in sorted(found.restarts.items()):
        owner = found.sample.inventory.find_workload(process)
        if owner is None or not can_see(request, owner[0].key):
            continue
        (work, index), (namespace, model, version) = owner, owner[0].key
        labels = (
            ("server", f"{namespace}/{work.server}"), ("namespace", namespace), ("model", model), ("version", version),
            ("replica", str(index)),
        )  # fmt: skip
        rows.append((labels, found.sample.processes.get(process), restarts))
    running = [(labels, process) for labels, process, _ in rows if process is not None]
    restarts_by_replica = [(labels, restarts) for labels, _, restarts in rows]
    name = "mizzen_replica_resident_memory_bytes"
    yield _family(name, "gauge", "Resident memory of a replica.", running, lambda each: each.resident_bytes)
    name = "mizzen_replica_cpu_seconds_total"
    yield _family(name, "counter", "CPU time of a replica's process.", running, lambda each: each.cpu_seconds)
    yield _family("mizzen_replica_restarts_total", "counter", "Restarts of a replica.", restarts_by_replica, int)


def _process_families(found: UsageSnapshot) -> Iterator[MetricFamily]:
    rows: list[tuple[Labels, ProcessUsage]] = [
        ((("process", name),), process) for name, process in plane_processes(found)
    ]
    name = "process_cpu_seconds_total"
    yield _family(name, "counter", "CPU time of the process.", rows, lambda each: each.cpu_seconds)
    name = "process_resident_memory_bytes"
    yield _family(name, "gauge", "Resident memory of the process.", rows, lambda each: each.resident_bytes)
    name = "mizzen_process_restarts_total"
    yield _family(name, "counter", "Restarts of the process.", rows, lambda each: each.restarts)


def _controller_families(backlogs: list[ControllerBacklog]) -> Iterator[MetricFamily]:
    rows: list[tuple[Labels, ControllerBacklog]] = [((("kind", each.controller),), each) for each in backlogs]
    name = "mizzen_reconcile_queue_length"
    yield _family(name, "gauge", "Objects waiting for their controller.", rows, lambda each: each.waiting)
    name, help_ = "mizzen_reconcile_failing", "Objects whose last reconciliation failed; each is retried."
    yield _family(name, "gauge", help_, rows, lambda each: each.failing)
    name = "mizzen_reconcile_errors_total"
    yield _family(name, "counter", "Failed reconciliations.", rows, lambda each: each.errors)


def _store_families(objects: Mapping[str, int], size: int, free: int) -> Iterator[MetricFamily]:
    name = "mizzen_resources"
    rows = [MetricSample(name, (("kind", kind),), count) for kind, count in sorted(objects.items())]
    yield MetricFamily(name, "gauge", "Objects of each kind.", rows)
    name = "mizzen_store_bytes"
    yield MetricFamily(name, "gauge", "Size of the store's files.", [MetricSample(name, (), size)])
    name = "mizzen_disk_free_bytes"
    yield MetricFamily(name, "gauge", "Free bytes on the disk of the data directory.", [MetricSample(name, (), free)])


def _family(
    name: str,
    kind: Literal["counter", "gauge"],
    help_: str,
    rows: Iterable[tuple[Labels, Row]],
    value: Callable[[Row], float],
) -> MetricFamily:
    """A sample for each row."""
    return MetricFamily(name, kind, help_, [MetricSample(name, labels, value(row)) for labels, row in rows])
