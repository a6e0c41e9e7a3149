"""Resources -> Table: which names answer, with which servers behind them. Pure.

Names are taken in this order: an MLGraph with a spec that was accepted (`compile_graph` compiles it), an InferenceModel
that has served, a Model with a current version, an InferenceModel that is still starting. So one that has the name of a
Model takes it over when it can answer itself, and not before; of its own Model it leaves the versions and aliases
callable.

A Model may be a second name of another one, and have aliases, which stand where a version stands in a URL. Both are
taken from its status, which says what answers and not what is asked for: a controller moves them when the new target
is ready.

One bad object must not take the others off the air: an InferenceModel whose spec is broken is left out, alone; or, when
it has served, taken by what of it can be read, since whatever runs, runs on.
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
from mizzen.graph.compile.plans import addresses_of, constants_of, kept_of
from mizzen.graph.table_types import Plan, Route, Server, Service, Table
from mizzen.kinds.model import ModelStatus
from mizzen.kinds.schema.resource import Ref, Resource
from mizzen.kinds.serving import Batching, InferenceModelSpec, InferenceModelStatus, workload_name
from mizzen.kinds.text import references
from mizzen.kinds.workload import WorkloadStatus

Name = tuple[str, str]
"""(namespace, name)"""

Plans: TypeAlias = Mapping[Name, Mapping[str, Plan]]
"""Of each model: its versions that are served."""

NONE: Mapping[str, str] = MappingProxyType({})

_DEFAULT_BATCHING = Batching.model_validate({})


def compile_table(
    models: Iterable[Resource],
    inference_models: Iterable[Resource],
    workloads: Iterable[Resource],
    serial: int,
    *,
    graphs: Iterable[Resource] = (),
) -> Table:
    """Models without a current version, aliases or a first name may be left out: the table is the same."""
    by_ref = {workload.ref: workload for workload in workloads}
    servers: list[Server] = []
    plans: dict[Name, dict[str, Plan]] = defaultdict(dict)
    serving: dict[Name, Route] = {}
    starting: dict[Name, Route] = {}
    for resource in _living(inference_models):
        name = _name(resource)
        status = InferenceModelStatus.of(resource)
        version = status.serving_version
        spec = _spec(resource, version)
        if spec is None:
            continue
        # Without a server a plan is empty, which a gateway answers with 503: the name exists, and nobody is there.
        default, kept = constants_of(spec.default_output, _shapes(spec, status)), kept_of(resource, spec.feedback)
        nobody = Plan(servers=(), default=default, kept=kept)
        if version is None:
            about = status.target_version or spec.target_version or ""
            starting[name] = _route(name, about, {about: nobody}, model=spec.model_name)
            continue
        workload = status.serving_workload or workload_name(resource.meta.name, version)
        server = _server(resource, spec, status, by_ref.get(Ref("Workload", workload, name[0])))
        own = nobody
        if server is not None:
            servers.append(server)
            if server.addresses or server.wakes:
                own = structs.replace(nobody, servers=(server.id,))
            # else nobody is to be waited for; another server of the version may have somebody
        if own.servers or own.default:
            of_model = plans[name[0], spec.model_name]
            of_model[version] = _joined(of_model[version], own) if version in of_model else own
        serving[name] = _route(name, version, {version: own}, model=spec.model_name)
    known = _model_routes(models, plans)
    routes = starting | known | {name: _taking_over(route, known.get(name)) for name, route in serving.items()}
    services: dict[str, Service] = {}
    for resource in _living(graphs):
        found = graph.route_of(resource, by_ref)
        if found is not None:
            routes[_name(resource)] = found[0]
            services |= {service.id: service for service in found[1]}
    return Table(
        serial=serial,
        servers=tuple(sorted(servers, key=lambda server: server.id)),
        services=tuple(services[id_] for id_ in sorted(services)),
        routes=tuple(routes[name] for name in sorted(routes)),
    )


def _spec(resource: Resource, version: str | None) -> InferenceModelSpec | None:
    try:
        return InferenceModelSpec.of(resource)
    except Invalid:
        if version is None:
            return None
    try:
        return InferenceModelSpec.readable({**resource.spec, "targetVersion": version})
    except ValidationError:  # not even which model it belongs to
        return None


def _server(
    resource: Resource, spec: InferenceModelSpec, status: InferenceModelStatus, workload: Resource | None
) -> Server | None:
    if workload is None or status.serving_version is None:
        return None
    namespace, name = _name(resource)
    batching = spec.batching or _DEFAULT_BATCHING
    return Server(
        id=f"{namespace}/{name}",
        model=spec.model_name,
        version=status.serving_version,
        addresses=addresses_of(workload),
        # Not what the Workload is to have, which may be those of the next version already.
        files=status.serving_files,
        batch_size=batching.most,
        batch_auto=batching.batch_size == "auto",
        batch_wait=batching.timeout_seconds or 0.0,
        timeout_ms=spec.timeout_ms,
        idempotent=spec.idempotent,
        scaled=spec.scaling is not None,
        wakes=_wakes(spec, workload),
        phase=_phase(workload) if _wakes(spec, workload) else "",
        cache_bytes=spec.cache.max_bytes if spec.cache is not None else 0,
    )


def _wakes(spec: InferenceModelSpec, workload: Resource) -> bool:
    """May it have no replicas, and gets one when somebody asks? Not while none can be started."""
    if spec.scaling is None or spec.scaling.min_replicas > 0 or workload.deleting:
        return False
    return all(replica.state != "failed" for replica in WorkloadStatus.of(workload).replicas)


def _phase(workload: Resource) -> str:
    """Of the way to a replica that answers; empty when one does."""
    if not workload.spec.get("replicas"):
        return "none runs while nobody asks"
    replicas = WorkloadStatus.of(workload).replicas
    if any(replica.state == "ready" for replica in replicas):
        return ""
    said = next((replica.message for replica in replicas if replica.message), "")
    return f"one is starting: {said}" if said else "one is starting"


def _shapes(spec: InferenceModelSpec, status: InferenceModelStatus) -> Mapping[str, tuple[int, ...]]:
    """Of outputs, as far as they are known."""
    given = {} if status.signature is None else {output.name: output.shape for output in status.signature.outputs}
    return given | {output.name: output.shape for output in spec.outputs}


def _joined(one: Plan, other: Plan) -> Plan:
    """Several servers of one version; the default is that of the first that has any, and so is what is kept."""
    return Plan(
        servers=tuple(sorted((*one.servers, *other.servers))),
        default=one.default or other.default,
        kept=one.kept or other.kept,
    )


def _model_routes(models: Iterable[Resource], plans: Plans) -> dict[Name, Route]:
    known = {_name(model): ModelStatus.of(model) for model in _living(models)}
    routes = {
        name: _route(name, status.current.version, plans.get(name, {}), status.aliases)
        for name, status in known.items()
        if status.current is not None and not status.alias_of
    }
    for name, status in known.items():
        second = _second_name(name, status.alias_of, known, plans, routes) if status.alias_of else None
        if second is not None:
            routes[name] = second
    return routes


def _taking_over(server: Route, model: Route | None) -> Route:
    """The route of an InferenceModel that has served, by whose name a Model answers as well, or would."""
    if model is None or server.model or model.model:
        return server  # of another Model, or in the place of a second name
    versions = {**model.versions, **server.versions}
    return structs.replace(
        server, plan=versions.get(server.version, server.plan), versions=versions, aliases=model.aliases
    )


def _second_name(
    name: Name,
    target: str,
    known: Mapping[Name, ModelStatus],
    plans: Plans,
    routes: Mapping[Name, Route],
) -> Route | None:
    """What another model, or one version of it, answers; under this name. Second names never chain."""
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
    return _route(name, reference.version, {reference.version: plan} if plan else {}, model=first[1])


def _route(
    name: Name, version: str, plans: Mapping[str, Plan], aliases: Mapping[str, str] = NONE, model: str = ""
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


def _living(resources: Iterable[Resource]) -> Iterable[Resource]:
    return (resource for resource in resources if not resource.deleting)


def _name(resource: Resource) -> Name:
    return resource.meta.namespace, resource.meta.name
