"""Resources -> Table: which names answer, with which servers behind them. Pure.

Names are taken in this order: an InferenceModel that has served, a Model with a current version, an InferenceModel that
is still starting. So creating an InferenceModel never takes a working name away before it can answer itself.

An object with a broken spec is left out, alone: one bad object must not take the others off the air.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from mizzen.errors import Invalid
from mizzen.graph.plan import Plan, Route, Server, Table
from mizzen.kinds.meta import Ref, Resource
from mizzen.kinds.model import ModelStatus
from mizzen.kinds.serving import Batching, InferenceModelSpec, InferenceModelStatus, workload_name
from mizzen.kinds.workload import WorkloadStatus

Name = tuple[str, str]
"""(namespace, name)"""

_DEFAULT_BATCHING = Batching.model_validate({})
_WITHOUT_FUTURE = frozenset({"failed", "stopping"})


def compile_table(
    models: Iterable[Resource], inference_models: Iterable[Resource], workloads: Iterable[Resource], serial: int
) -> Table:
    by_ref = {workload.ref: workload for workload in workloads}
    servers: list[Server] = []
    plans: dict[Name, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    serving: dict[Name, Route] = {}
    starting: dict[Name, Route] = {}
    for resource in _living(inference_models):
        try:
            spec = InferenceModelSpec.of(resource)
        except Invalid:
            continue
        name = _name(resource)
        version = InferenceModelStatus.of(resource).serving_version
        if version is None:
            starting[name] = _route(name, spec.target_version, {})
            continue
        server = _server(resource, spec, version, by_ref)
        own: dict[str, list[str]] = {}
        if server is not None:
            servers.append(server)
            if server.addresses:  # nobody to wait for otherwise; another server of the version may have somebody
                own[version] = [server.id]
                plans[name[0], spec.model_name][version].append(server.id)
        serving[name] = _route(name, version, own)
    routes = starting | _model_routes(models, plans) | serving
    return Table(
        serial=serial,
        servers=tuple(sorted(servers, key=lambda server: server.id)),
        routes=tuple(routes[name] for name in sorted(routes)),
    )


def _server(
    resource: Resource, spec: InferenceModelSpec, version: str, workloads: dict[Ref, Resource]
) -> Server | None:
    namespace, name = _name(resource)
    workload = workloads.get(Ref("Workload", workload_name(name, version), namespace))
    if workload is None:
        return None
    replicas = sorted(WorkloadStatus.of(workload).replicas, key=lambda replica: replica.index)
    return Server(
        id=f"{namespace}/{name}",
        model=spec.model_name,
        version=version,
        # A replica that restarts comes back at the same address, so gateways may keep waiting there.
        addresses=tuple(r.address for r in replicas if r.address and r.state not in _WITHOUT_FUTURE),
        batch_size=(spec.batching or _DEFAULT_BATCHING).batch_size,
        timeout_ms=spec.timeout_ms,
        idempotent=spec.idempotent,
    )


def _model_routes(models: Iterable[Resource], plans: dict[Name, dict[str, list[str]]]) -> dict[Name, Route]:
    routes = {}
    for model in _living(models):
        name = _name(model)
        current = ModelStatus.of(model).current
        if current is not None:
            routes[name] = _route(name, current.version, plans.get(name, {}))
    return routes


def _route(name: Name, version: str, plans: dict[str, list[str]]) -> Route:
    """Without a server the plan is empty, which a gateway answers with 503: the name exists, and nobody is there."""
    compiled = {v: Plan(servers=tuple(sorted(servers))) for v, servers in sorted(plans.items())}
    return Route(
        namespace=name[0],
        name=name[1],
        version=version,
        plan=compiled.get(version, Plan(servers=())),
        versions=compiled,
    )


def _living(resources: Iterable[Resource]) -> Iterable[Resource]:
    return (resource for resource in resources if not resource.deleting)


def _name(resource: Resource) -> Name:
    return resource.meta.namespace, resource.meta.name
