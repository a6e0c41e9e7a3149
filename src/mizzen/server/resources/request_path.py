"""What a path of the resource API names: a kind, an object; and who may do something with it."""

from __future__ import annotations

from starlette.requests import Request

from mizzen.access.policy import Actor, Verb
from mizzen.errors import Invalid, NotFound
from mizzen.kinds import catalog
from mizzen.kinds.catalog import Kind
from mizzen.kinds.schema.findings import suggestion
from mizzen.kinds.schema.resource import Ref, Resource, name_fault
from mizzen.server.admission import decode
from mizzen.server.auth import authorization, role_bindings, targets
from mizzen.server.http.context import plane_of
from mizzen.server.http.query import Query


def kind_of(request: Request) -> Kind:
    plural = request.path_params["plural"]
    if plural not in catalog.BY_PLURAL:
        raise NotFound(f"no kind has the plural '{plural}'", hint=suggestion(plural, catalog.BY_PLURAL))
    return catalog.BY_PLURAL[plural]


def ref_of(request: Request) -> Ref:
    return Ref(kind_of(request).name, request.path_params["name"], namespace_of(request))


def namespace_of(request: Request) -> str:
    """Empty when the path names none. Invalid."""
    namespace = str(request.path_params.get("namespace", ""))
    fault = name_fault(namespace, "metadata.namespace") if namespace else None
    if fault:
        raise Invalid.of("the path", (fault,))
    return namespace


def tried(request: Request, query: Query) -> bool:
    """Whether it is asked for as a dry run, which is no change for the audit."""
    request.state.tried = query.dry_run()
    return query.dry_run()


async def found(request: Request, verb: Verb, subresource: str = "") -> Resource:
    """The object, when the caller may do this with it. Who may not even read it does not learn whether it is there."""
    ref = ref_of(request)
    named = targets.named(ref, subresource=subresource)
    authorization.require_some(request, verb, named)
    if verb != "read":
        decode.refuse_internal(kind_of(request))
    try:
        resource = await plane_of(request).store.get(ref)
    except NotFound:
        authorization.require(request, verb, named)
        raise
    authorization.require(request, verb, targets.of(resource, subresource=subresource), named=named)
    return resource


def require_write(request: Request, resource: Resource, old: Resource | None = None) -> Actor:
    """Who may grant rights is asked of each right: a RoleBinding is for those who administer what it speaks of.

    Whoever makes an object call something lends their right to call it. What `old` calls already was lent by somebody
    else: who may change the object may also keep that, and take it back."""
    if resource.kind == "RoleBinding":
        return authorization.require(request, "admin", role_bindings.target_of(resource))
    lent = () if old is None else targets.called_by(old)
    for called in targets.called_by(resource):
        if called not in lent:
            authorization.require(request, "predict", called)
    return authorization.require(request, "write", targets.of(resource))
