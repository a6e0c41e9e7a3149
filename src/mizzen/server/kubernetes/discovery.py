"""API discovery: the groups, versions and kinds with their verbs. Also `/version`.

kubectl reads all of it, caches it for hours, and reads it again when it meets an unknown kind.
"""

from __future__ import annotations

import platform
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeAlias

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mizzen import __version__
from mizzen.kinds import catalog
from mizzen.kinds.catalog import Kind
from mizzen.kinds.events_and_namespaces import CORE_VERSION
from mizzen.kinds.schema.resource import API_VERSION
from mizzen.server.auth import authorization, targets
from mizzen.server.http.query import Query

KUBERNETES = (1, 37)
"""The Kubernetes version whose API this follows. kubectl warns if its own differs by more than one minor version."""

READ_VERBS = ("get", "list", "watch")
WRITE_VERBS = ("create", "delete", "get", "list", "patch", "update", "watch")
ALL_VERBS = ("create", "delete", "deletecollection", *WRITE_VERBS[2:])
SUBRESOURCE_VERBS = ("get", "patch", "update")

AUTHORIZATION, AUTHENTICATION = "authorization.k8s.io/v1", "authentication.k8s.io/v1"
DEFINITIONS = "apiextensions.k8s.io/v1"
SCALABLE_KINDS = frozenset({"InferenceModel"})
"""Kinds that `kubectl scale` supports."""
LOGGED_KINDS = frozenset({"InferenceModel"})

Handler: TypeAlias = Callable[[Request], Awaitable[Response]]


def routes() -> list[Route]:
    answers = {
        "/api": {"kind": "APIVersions", "versions": [CORE_VERSION], "serverAddressByClientCIDRs": []},
        f"/api/{CORE_VERSION}": _resource_list(CORE_VERSION, CORE),
        "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(version) for version in GROUPS]},
    }
    for version, found in GROUPS.items():
        group, _, _ = version.partition("/")
        answers[f"/apis/{group}"] = {"kind": "APIGroup", "apiVersion": "v1", **_group(version)}
        answers[f"/apis/{version}"] = _resource_list(version, found)
    endpoints = [("/version", get_version), *((path, _respond_with(body)) for path, body in answers.items())]
    # Clients generated from Kubernetes' own OpenAPI documents end these paths with a slash; others do not.
    return [Route(f"{path}{end}", answer, methods=["GET"]) for path, answer in endpoints for end in ("", "/")]


async def get_version(request: Request) -> Response:
    """Mizzen's version, and the Kubernetes version in the fields that Kubernetes clients read."""
    authorization.require(request, "read", targets.PLANE)
    return JSONResponse(version_info())


def version_info() -> dict[str, str]:
    major, minor = KUBERNETES
    # Version comparisons ignore the part after a plus.
    spoken = f"v{major}.{minor}.0+mizzen.{__version__}"
    return {
        "version": __version__, "major": str(major), "minor": str(minor), "gitVersion": spoken, "gitCommit": "",
        "gitTreeState": "", "buildDate": "", "goVersion": "", "compiler": platform.python_implementation().lower(),
        "platform": f"{platform.system().lower()}/{platform.machine()}",
    }  # fmt: skip


def resources_of(kind: Kind) -> list[dict[str, Any]]:
    """The discovery entries of a kind and of its subresources."""
    verbs = READ_VERBS if kind.internal else ALL_VERBS
    names = {"shortNames": [kind.short], "categories": list(kind.categories)}
    found = [_resource(kind.plural, kind.name, verbs, singular=kind.singular) | names]
    if not kind.internal:
        found.append(_resource(f"{kind.plural}/status", kind.name, SUBRESOURCE_VERBS))
    if kind.name in SCALABLE_KINDS:
        scale = {"group": "autoscaling", "version": "v1"}
        found.append(_resource(f"{kind.plural}/scale", "Scale", SUBRESOURCE_VERBS) | scale)
    if kind.name in LOGGED_KINDS:
        found.append(_resource(f"{kind.plural}/log", kind.name, ("get",)))
    return found


def _respond_with(body: dict[str, Any]) -> Handler:
    content = JSONResponse(body).body

    async def answer(request: Request) -> Response:
        authorization.require(request, "read", targets.PLANE)
        Query(request, "timeout")
        return Response(content, media_type="application/json")

    return answer


def _resource_list(version: str, found: Iterable[dict[str, Any]]) -> dict[str, Any]:
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": list(found)}


def _group(version: str) -> dict[str, Any]:
    group, _, number = version.partition("/")
    entry = {"groupVersion": version, "version": number}
    return {"name": group, "versions": [entry], "preferredVersion": entry}


def _resource(
    name: str, kind: str, verbs: Iterable[str], *, singular: str = "", namespaced: bool = True
) -> dict[str, Any]:
    return {
        "name": name, "singularName": singular, "namespaced": namespaced, "kind": kind, "verbs": list(verbs),
    }  # fmt: skip


def _cluster_resource(kind: str, verbs: Iterable[str]) -> dict[str, Any]:
    """One that belongs to no namespace."""
    return _resource(f"{kind.lower()}s", kind, verbs, singular=kind.lower(), namespaced=False)


CORE = (
    _cluster_resource("Namespace", WRITE_VERBS) | {"shortNames": ["ns"]},
    _resource("events", "Event", READ_VERBS, singular="event") | {"shortNames": ["ev"]},
)
GROUPS: dict[str, tuple[dict[str, Any], ...]] = {
    API_VERSION: tuple(resource for kind in catalog.KINDS for resource in resources_of(kind)),
    AUTHORIZATION: tuple(
        _cluster_resource(kind, ("create",)) for kind in ("SelfSubjectAccessReview", "SelfSubjectRulesReview")
    ),
    AUTHENTICATION: (_cluster_resource("SelfSubjectReview", ("create",)),),
    DEFINITIONS: (_cluster_resource("CustomResourceDefinition", READ_VERBS) | {"shortNames": ["crd", "crds"]},),
}
"""Resources by group and version. The core group has no name; `CORE` lists its resources."""
