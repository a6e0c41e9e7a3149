"""Compiles resources into a Table: which names answer, and which servers are behind them. Pure.

Names are taken in this order: an MLGraph with an accepted spec (`compile/graph.py`), an InferenceModel that has served,
a Model with a current version, an InferenceModel that is still starting. So an InferenceModel takes over the name of a
Model only once it can answer. The versions and aliases of its own Model stay callable.

A Model may be a second name of another Model, and may have aliases, which replace a version in a URL. Both come from
its status, which says what answers now rather than what the spec asks for: a controller updates them when the new
target is ready.

One bad object must not take down the others. An InferenceModel with a broken spec is left out. If it has served, the
readable part of its spec is used, because its replicas keep running.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TypeAlias

from msgspec import structs
from pydantic import ValidationError

from mizzen.errors import Invalid
from mizzen.graph.compile import graph
from mizzen.graph.compile.plans import addresses_of, constants_of, record_limits_of
from mizzen.graph.table_types import Plan, Route, Server, Service, Table
from mizzen.kinds.model import ModelStatus
from mizzen.kinds.schema.resource import Ref, Resource
from mizzen.kinds.serving import Batching, InferenceModelSpec, InferenceModelStatus, workload_name
from mizzen.kinds.text import references
from mizzen.kinds.workload import WorkloadStatus

Name = tuple[str, str]
"""(namespace, name)"""

Plans: TypeAlias = Mapping[Name, Mapping[str, Plan]]
"""The served versions of each model."""

NO_ALIASES: Mapping[str, str] = MappingProxyType({})

_DEFAULT_BATCHING = Batching.model_validate({})


def compile_table(
    models: Iterable[Resource],
    inference_models: Iterable[Resource],
    workloads: Iterable[Resource],
    serial: int,
    *,
    graphs: Iterable[Resource] = (),
) -> Table:
    """Compile the Table. Models without a current version, aliases or a first name may be omitted from `models`."""
    by_ref = {workload.ref: workload for workload in workloads}
    servers: list[Server] = []
    plans: dict[Name, dict[str, Plan]] = defaultdict(dict)
    serving: dict[Name, Route] = {}
    starting: dict[Name, Route] = {}
    for resource in _not_deleting(inference_models):
        name = _name_of(resource)
        status = InferenceModelStatus.of(resource)
        version = status.serving_version
        spec = _read_spec(resource, version)
        if spec is None:
            continue
        # A plan without servers is empty; a gateway answers it with 503: the name exists, but has no server.
        default = constants_of(spec.default_output, _output_shapes(spec, status))
        empty = Plan(servers=(), default=default, kept=record_limits_of(resource, spec.feedback))
        if version is None:
            about = status.target_version or spec.target_version or ""
            starting[name] = _build_route(name, about, {about: empty}, model=spec.model_name)
            continue
        workload = status.serving_workload or workload_name(resource.meta.name, version)
        server = _server_of(resource, spec, status, by_ref.get(Ref("Workload", workload, name[0])))
        own = empty
        if server is not None:
            servers.append(server)
            if server.addresses or server.wakes:
                own = structs.replace(empty, servers=(server.id,))
            # else there is no replica to wait for; another server of the version may have one
        if own.servers or own.default:
            of_model = plans[name[0], spec.model_name]
            of_model[version] = _join_plans(of_model[version], own) if version in of_model else own
        serving[name] = _build_route(name, version, {version: own}, model=spec.model_name)
    known = _model_routes(models, plans)
    routes = starting | known | {name: _take_over(route, known.get(name)) for name, route in serving.items()}
    services: dict[str, Service] = {}
    for resource in _not_deleting(graphs):
        found = graph.route_of(resource, by_ref)
        if found is not None:
            routes[_name_of(resource)] = found[0]
            services |= {service.id: service for service in found[1]}
    return Table(
        serial=serial,
        servers=tuple(sorted(servers, key=lambda server: server.id)),
        services=tuple(services[id_] for id_ in sorted(services)),
        routes=tuple(routes[name] for name in sorted(routes)),
    )


def _read_spec(resource: Resource, version: str | None) -> InferenceModelSpec | None:
    try:
        return InferenceModelSpec.of(resource)
    except Invalid:
        if version is None:
            return None
    try:
        return InferenceModelSpec.readable({**resource.spec, "targetVersion": version})
    except ValidationError:  # not even its model is known
        return None


def _server_of(
    resource: Resource, spec: InferenceModelSpec, status: InferenceModelStatus, workload: Resource | None
) -> Server | None:
    if workload is None or status.serving_version is None:
        return None
    namespace, name = _name_of(resource)
    batching = spec.batching or _DEFAULT_BATCHING
    return Server(
        id=f"{namespace}/{name}",
        model=spec.model_name,
        version=status.serving_version,
        addresses=addresses_of(workload),
        # Not the Workload's desired files, which may already be those of the next version.
        files=status.serving_files,
        batch_size=batching.most,
        batch_auto=batching.batch_size == "auto",
        batch_wait=batching.timeout_seconds or 0.0,
        timeout_ms=spec.timeout_ms,
        idempotent=spec.idempotent,
        scaled=spec.scaling is not None,
        wakes=_scales_from_zero(spec, workload),
        phase=_startup_phase(workload) if _scales_from_zero(spec, workload) else "",
        cache_bytes=spec.cache.max_bytes if spec.cache is not None else 0,
    )


def _scales_from_zero(spec: InferenceModelSpec, workload: Resource) -> bool:
    """Whether it may have no replicas and gets one on request. False while no replica can be started."""
    if spec.scaling is None or spec.scaling.min_replicas > 0 or workload.deleting:
        return False
    return all(replica.state != "failed" for replica in WorkloadStatus.of(workload).replicas)


def _startup_phase(workload: Resource) -> str:
    """Return the progress toward a ready replica; empty if one is ready."""
    if not workload.spec.get("replicas"):
        return "scaled to zero"
    replicas = WorkloadStatus.of(workload).replicas
    if any(replica.state == "ready" for replica in replicas):
        return ""
    message = next((replica.message for replica in replicas if replica.message), "")
    return f"one is starting: {message}" if message else "one is starting"


def _output_shapes(spec: InferenceModelSpec, status: InferenceModelStatus) -> Mapping[str, tuple[int, ...]]:
    """Return the known shapes of outputs."""
    given = {} if status.signature is None else {output.name: output.shape for output in status.signature.outputs}
    return given | {output.name: output.shape for output in spec.outputs}


def _join_plans(one: Plan, other: Plan) -> Plan:
    """Join the plans of one version's servers. Default and record limits are those of the first that has any."""
    return Plan(
        servers=tuple(sorted((*one.servers, *other.servers))),
        default=one.default or other.default,
        kept=one.kept or other.kept,
    )


def _model_routes(models: Iterable[Resource], plans: Plans) -> dict[Name, Route]:
    known = {_name_of(model): ModelStatus.of(model) for model in _not_deleting(models)}
    routes = {
        name: _build_route(name, status.current.version, plans.get(name, {}), status.aliases)
        for name, status in known.items()
        if status.current is not None and not status.alias_of
    }
    for name, status in known.items():
        second = _second_name_route(name, status.alias_of, known, plans, routes) if status.alias_of else None
        if second is not None:
            routes[name] = second
    return routes


def _take_over(server: Route, model: Route | None) -> Route:
    """Merge the route of an InferenceModel that has served with the route of a Model of the same name."""
    if model is None or server.model or model.model:
        return server  # it serves another Model, or replaces a second name
    versions = {**model.versions, **server.versions}
    return structs.replace(
        server, plan=versions.get(server.version, server.plan), versions=versions, aliases=model.aliases
    )


def _second_name_route(
    name: Name,
    target: str,
    known: Mapping[Name, ModelStatus],
    plans: Plans,
    routes: Mapping[Name, Route],
) -> Route | None:
    """Return the route of a second name of another model, or of one of its versions. Second names never chain."""
    try:
        reference = references.parse_unaliased(target)
    except ValueError:
        return None
    first = (name[0], reference.name)
    if first in known and known[first].alias_of:
        return None
    if not reference.version:
        return structs.replace(routes[first], name=name[1], model=first[1]) if first in routes else None
    plan = plans.get(first, {}).get(reference.version)
    return _build_route(name, reference.version, {reference.version: plan} if plan else {}, model=first[1])


def _build_route(
    name: Name, version: str, plans: Mapping[str, Plan], aliases: Mapping[str, str] = NO_ALIASES, model: str = ""
) -> Route:
    return Route(
        namespace=name[0],
        name=name[1],
        version=version,
        model=model if model != name[1] else "",
        plan=plans.get(version, Plan(servers=())),
        versions={version: plan for version, plan in sorted(plans.items()) if plan.servers or plan.default},
        aliases=dict(sorted(aliases.items())),
    )


def _not_deleting(resources: Iterable[Resource]) -> Iterable[Resource]:
    return (resource for resource in resources if not resource.deleting)


def _name_of(resource: Resource) -> Name:
    return resource.meta.namespace, resource.meta.name
