"""Paths of the resource API: the kind and object that a path names, and access to it."""

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
from mizzen.server.http.context import context_of
from mizzen.server.http.query import Query


def kind_of(request: Request) -> Kind:
    plural = request.path_params["plural"]
    if plural not in catalog.BY_PLURAL:
        raise NotFound(f"no kind has the plural '{plural}'", hint=suggestion(plural, catalog.BY_PLURAL))
    return catalog.BY_PLURAL[plural]


def ref_of(request: Request) -> Ref:
    return Ref(kind_of(request).name, request.path_params["name"], namespace_of(request))


def namespace_of(request: Request) -> str:
    """Returns an empty string if the path names none. Raises Invalid."""
    namespace = str(request.path_params.get("namespace", ""))
    fault = name_fault(namespace, "metadata.namespace") if namespace else None
    if fault:
        raise Invalid.of("the path", (fault,))
    return namespace


def mark_dry_run(request: Request, query: Query) -> bool:
    """Returns whether this is a dry run, and marks it for the audit, which does not record it as a change."""
    request.state.dry_run = query.dry_run()
    return query.dry_run()


async def find_object(request: Request, verb: Verb, subresource: str = "") -> Resource:
    """Returns the object if the caller may do this with it. Callers that may not read it do not learn if it exists."""
    ref = ref_of(request)
    named = targets.by_name(ref, subresource=subresource)
    authorization.require_any(request, verb, named)
    if verb != "read":
        decode.refuse_internal(kind_of(request))
    try:
        resource = await context_of(request).store.get(ref)
    except NotFound:
        authorization.require(request, verb, named)
        raise
    authorization.require(request, verb, targets.of(resource, subresource=subresource), named=named)
    return resource


def require_write(request: Request, resource: Resource, old: Resource | None = None) -> Actor:
    """Requires the right to write the object; for a RoleBinding, `admin` of its target.

    The writer of an object lends it their own right to make its calls. The calls of `old` were lent by an earlier
    writer: a caller that may change the object may keep or remove them."""
    if resource.kind == "RoleBinding":
        return authorization.require(request, "admin", role_bindings.target_of(resource))
    lent = () if old is None else targets.call_targets(old)
    for called in targets.call_targets(resource):
        if called not in lent:
            authorization.require(request, "predict", called)
    return authorization.require(request, "write", targets.of(resource))
