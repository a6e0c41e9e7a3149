"""Discovery: which groups, versions and kinds there are, and what one may do with each. And `/version`.

kubectl asks for all of it, keeps it for hours, and asks again when it meets a kind that it does not know.
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
from mizzen.kinds.schema.resource import API_VERSION
from mizzen.server.auth import authorization, targets
from mizzen.server.http.query import Query

KUBERNETES = (1, 37)
"""Whose ways of speaking these are. kubectl warns when its own version is further away than one minor."""

READ = ("get", "list", "watch")
WRITE = ("create", "delete", "get", "list", "patch", "update", "watch")
WRITE_MANY = ("create", "delete", "deletecollection", *WRITE[2:])
PART = ("get", "patch", "update")

CORE_VERSION = "v1"
AUTHORIZATION, AUTHENTICATION = "authorization.k8s.io/v1", "authentication.k8s.io/v1"
DEFINITIONS = "apiextensions.k8s.io/v1"
SCALED = frozenset({"InferenceModel"})
"""Kinds whose number of replicas may be changed by `kubectl scale`."""
LOGGED = frozenset({"InferenceModel"})

Answer: TypeAlias = Callable[[Request], Awaitable[Response]]


def routes() -> list[Route]:
    answers = {
        "/api": {"kind": "APIVersions", "versions": [CORE_VERSION], "serverAddressByClientCIDRs": []},
        f"/api/{CORE_VERSION}": _resources(CORE_VERSION, CORE),
        "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(version) for version in GROUPS]},
    }
    for version, found in GROUPS.items():
        group, _, _ = version.partition("/")
        answers[f"/apis/{group}"] = {"kind": "APIGroup", "apiVersion": "v1", **_group(version)}
        answers[f"/apis/{version}"] = _resources(version, found)
    said = [("/version", version_), *((path, _answering(body)) for path, body in answers.items())]
    # Clients that are generated from Kubernetes' own documents end these paths with a slash, others do not.
    return [Route(f"{path}{end}", answer, methods=["GET"]) for path, answer in said for end in ("", "/")]


async def version_(request: Request) -> Response:
    """Ours, and in the fields that clients of Kubernetes read the one that we speak as."""
    authorization.require(request, "read", targets.PLANE)
    return JSONResponse(version())


def version() -> dict[str, str]:
    major, minor = KUBERNETES
    # What stands after a plus does not count when versions are compared.
    spoken = f"v{major}.{minor}.0+mizzen.{__version__}"
    return {
        "version": __version__, "major": str(major), "minor": str(minor), "gitVersion": spoken, "gitCommit": "",
        "gitTreeState": "", "buildDate": "", "goVersion": "", "compiler": platform.python_implementation().lower(),
        "platform": f"{platform.system().lower()}/{platform.machine()}",
    }  # fmt: skip


def of_kind(kind: Kind) -> list[dict[str, Any]]:
    """A kind, and the parts of its objects that have paths of their own."""
    verbs = READ if kind.internal else WRITE_MANY
    names = {"shortNames": [kind.short], "categories": list(kind.categories)}
    found = [_resource(kind.plural, kind.name, verbs, singular=kind.singular) | names]
    if not kind.internal:
        found.append(_resource(f"{kind.plural}/status", kind.name, PART))
    if kind.name in SCALED:
        scale = {"group": "autoscaling", "version": "v1"}
        found.append(_resource(f"{kind.plural}/scale", "Scale", PART) | scale)
    if kind.name in LOGGED:
        found.append(_resource(f"{kind.plural}/log", kind.name, ("get",)))
    return found


def _answering(body: dict[str, Any]) -> Answer:
    content = JSONResponse(body).body

    async def answer(request: Request) -> Response:
        authorization.require(request, "read", targets.PLANE)
        Query(request, "timeout")
        return Response(content, media_type="application/json")

    return answer


def _resources(version: str, found: Iterable[dict[str, Any]]) -> dict[str, Any]:
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": list(found)}


def _group(version: str) -> dict[str, Any]:
    group, _, number = version.partition("/")
    said = {"groupVersion": version, "version": number}
    return {"name": group, "versions": [said], "preferredVersion": said}


def _resource(
    name: str, kind: str, verbs: Iterable[str], *, singular: str = "", namespaced: bool = True
) -> dict[str, Any]:
    return {
        "name": name, "singularName": singular, "namespaced": namespaced, "kind": kind, "verbs": list(verbs),
    }  # fmt: skip


CORE = (
    _resource("namespaces", "Namespace", WRITE, singular="namespace", namespaced=False) | {"shortNames": ["ns"]},
    _resource("events", "Event", READ, singular="event") | {"shortNames": ["ev"]},
)
GROUPS: dict[str, tuple[dict[str, Any], ...]] = {
    API_VERSION: tuple(resource for kind in catalog.KINDS for resource in of_kind(kind)),
    AUTHORIZATION: (
        _resource(
            "selfsubjectaccessreviews", "SelfSubjectAccessReview", ("create",),
            singular="selfsubjectaccessreview", namespaced=False,
        ),
        _resource(
            "selfsubjectrulesreviews", "SelfSubjectRulesReview", ("create",),
            singular="selfsubjectrulesreview", namespaced=False,
        ),
    ),
    AUTHENTICATION: (
        _resource(
            "selfsubjectreviews", "SelfSubjectReview", ("create",), singular="selfsubjectreview", namespaced=False
        ),
    ),
    DEFINITIONS: (
        _resource(
            "customresourcedefinitions", "CustomResourceDefinition", READ,
            singular="customresourcedefinition", namespaced=False,
        ) | {"shortNames": ["crd", "crds"]},
    ),
}  # fmt: skip
"""Resources by group and version; the core group has no name, and is in `CORE`."""
