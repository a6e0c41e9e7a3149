"""`kubectl auth`: who am I, may I do this, what may I do. Everybody may ask about themselves, and about nobody else.

An answer of no is no refusal: nobody tried anything, so nothing is on record.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mizzen.access.policy import ANONYMOUS, speaks_of
from mizzen.errors import Fault, Invalid
from mizzen.kinds import catalog
from mizzen.kinds.schema.findings import unknown
from mizzen.kinds.schema.resource import API_GROUP, Ref
from mizzen.server.admission import field_validation
from mizzen.server.auth import authorization, targets
from mizzen.server.http.context import plane_of
from mizzen.server.http.query import Query
from mizzen.server.kubernetes import protobuf
from mizzen.server.kubernetes.access_mapping import ANY, DISCOVERY, Asker, Question
from mizzen.server.kubernetes.discovery import AUTHENTICATION, AUTHORIZATION

QUERY = ("fieldManager", "fieldValidation", "dryRun", "pretty", "timeout")
NOT_KEPT = {"Cache-Control": "no-store"}
RESOURCE = (
    "namespace", "verb", "group", "version", "resource", "subresource", "name", "fieldSelector", "labelSelector",
)  # fmt: skip
SELECTORS = ("fieldSelector", "labelSelector")
"""These only narrow what is asked for; whoever may do all of it may do some."""
PATH = ("path", "verb")
NAMED = "what belongs to a model may be reached as its model may: ask for it by name"


def routes() -> list[Route]:
    return [
        Route(f"/apis/{AUTHORIZATION}/selfsubjectaccessreviews", access, methods=["POST"]),
        Route(f"/apis/{AUTHORIZATION}/selfsubjectrulesreviews", rules, methods=["POST"]),
        Route(f"/apis/{AUTHENTICATION}/selfsubjectreviews", identity, methods=["POST"]),
    ]


async def access(request: Request) -> Response:
    """SelfSubjectAccessReview: may I do this?"""
    asker = _asker(request)
    body = await _sent(request, AUTHORIZATION, "SelfSubjectAccessReview")
    spec = _part(body, "spec", ("resourceAttributes", "nonResourceAttributes"))
    asked = [name for name in spec if spec[name] is not None]
    if len(asked) != 1:
        raise Invalid.of("the review", (Fault("spec", "needs one of resourceAttributes and nonResourceAttributes"),))
    if asked == ["nonResourceAttributes"]:
        said = _texts(spec, "nonResourceAttributes", PATH)
        verdict = asker.may_at(said.get("path", ""), said.get("verb", ""))
    else:
        said = _texts(spec, "resourceAttributes", RESOURCE)
        about = ("verb", "group", "resource", "subresource", "namespace", "name")
        verdict = await asker.may(Question(**{name: said.get(name, "") for name in about}))
    status = {"allowed": verdict.allowed, "denied": not verdict.allowed, "reason": verdict.reason}
    return _answer(body, AUTHORIZATION, spec, status)


async def rules(request: Request) -> Response:
    """SelfSubjectRulesReview: all that I may do in a namespace."""
    asker = _asker(request)
    body = await _sent(request, AUTHORIZATION, "SelfSubjectRulesReview")
    spec = _part(body, "spec", ("namespace",))
    namespace = _texts({"spec": spec}, "spec", ("namespace",)).get("namespace", "")
    if not namespace:
        raise Invalid.of("the review", (Fault("spec.namespace", "required"),))
    models = _models(asker, namespace)
    status = {
        "resourceRules": [*_whole(asker, namespace), *_of_models(asker, namespace, models), *_reviews(asker)],
        "nonResourceRules": [*_paths(asker)],
        "incomplete": bool(models),
        **({"evaluationError": NAMED} if models else {}),
    }
    return _answer(body, AUTHORIZATION, spec, status)


async def identity(request: Request) -> Response:
    """SelfSubjectReview: who am I?"""
    actor = _asker(request).actor
    body = await _sent(request, AUTHENTICATION, "SelfSubjectReview")
    extra = {"extra": {f"{API_GROUP}/admin": ["true"]}} if actor.admin else {}
    info = {"username": actor.name, "groups": sorted(actor.groups), **extra}
    return _answer(body, AUTHENTICATION, None, {"userInfo": info})


def _asker(request: Request) -> Asker:
    actor = authorization.actor_of(request)
    authorization.require(request, "read", targets.PLANE if actor == ANONYMOUS else targets.user(actor.name))
    query = Query(request, *QUERY)
    query.dry_run()  # nothing is ever written here; but what is said must make sense
    field_validation.of(query)
    return Asker(plane_of(request), actor, request.state.bindings)


async def _sent(request: Request, version: str, kind: str) -> dict[str, Any]:
    body = await protobuf.read(request)
    faults = [*unknown(body, ("apiVersion", "kind", "metadata", "spec", "status"))]
    for name, value in (("apiVersion", version), ("kind", kind)):
        if body.get(name, value) != value:
            faults.append(Fault(name, f"must be '{value}' here"))
    if not isinstance(body.get("metadata"), Mapping | None):
        faults.append(Fault("metadata", "must be an object"))
    if faults:
        raise Invalid.of("the review", tuple(faults))
    return {**body, "kind": kind}


def _part(body: Mapping[str, Any], name: str, known: tuple[str, ...]) -> dict[str, Any]:
    """An object within an object, which holds nothing else than this. Invalid."""
    found = body.get(name)
    if not isinstance(found, Mapping | None):
        raise Invalid.of("the review", (Fault(name, "must be an object"),))
    faults = tuple(unknown(found or {}, known, name))
    if faults:
        raise Invalid.of("the review", faults)
    return dict(found or {})


def _texts(body: Mapping[str, Any], name: str, known: tuple[str, ...]) -> dict[str, str]:
    part = _part(body, name, known)
    faults = tuple(
        Fault(f"{name}.{key}", "must be a text")
        for key, value in part.items()
        if key not in SELECTORS and not isinstance(value, str | None)
    )
    if faults:
        raise Invalid.of("the review", faults)
    return {key: value for key, value in part.items() if isinstance(value, str)}


def _answer(body: Mapping[str, Any], version: str, spec: Mapping[str, Any] | None, status: Any) -> Response:
    answer = {"kind": body["kind"], "apiVersion": version, "metadata": {}, "spec": spec, "status": status}
    said = {name: value for name, value in answer.items() if value is not None}
    return JSONResponse(said, 201, headers=NOT_KEPT)


def _whole(asker: Asker, namespace: str) -> Iterator[dict[str, Any]]:
    """What holds of every object of a kind, kinds of equal rights together."""
    if asker.actor.admin:
        yield _rule((ANY,), (ANY,), (ANY,))
        return
    for group, kinds in ((API_GROUP, catalog.KINDS), ("", catalog.CORE)):
        alike: dict[tuple[str, ...], list[str]] = {}
        for kind in kinds:
            target = targets.namespace(namespace) if kind.name == "Namespace" else targets.all_of(kind.name, namespace)
            verbs = asker.verbs_for(kind, target)
            alike.setdefault(verbs, []).append(kind.plural)
        yield from (_rule(verbs, (group,), plurals) for verbs, plurals in alike.items() if verbs)


def _of_models(asker: Asker, namespace: str, models: list[str]) -> Iterator[dict[str, Any]]:
    kind = catalog.BY_NAME["Model"]
    for model in models:
        verbs = asker.verbs_for(kind, targets.model(Ref("Model", model, namespace)))
        if verbs:
            yield _rule(verbs, (API_GROUP,), (kind.plural,)) | {"resourceNames": [model]}


def _models(asker: Asker, namespace: str) -> list[str]:
    """Those that somebody gave them rights to, by name."""
    own = (binding for binding in asker.bindings if speaks_of(binding, asker.actor))
    return sorted({binding.model for binding in own if binding.namespace == namespace and binding.model})


def _reviews(asker: Asker) -> Iterator[dict[str, Any]]:
    if not asker.actor.admin:
        yield _rule(("create",), ("authorization.k8s.io",), ("selfsubjectaccessreviews", "selfsubjectrulesreviews"))
        yield _rule(("create",), ("authentication.k8s.io",), ("selfsubjectreviews",))


def _paths(asker: Asker) -> Iterator[dict[str, Any]]:
    if asker.actor.admin:
        yield {"verbs": [ANY], "nonResourceURLs": [ANY]}
        return
    yield {"verbs": ["get"], "nonResourceURLs": ["/healthz", "/livez", "/readyz"]}
    if asker.may_at("/version", "get").allowed:
        yield {"verbs": ["get"], "nonResourceURLs": [path for root in DISCOVERY for path in (root, f"{root}/*")]}


def _rule(verbs: tuple[str, ...], groups: tuple[str, ...], resources: Any) -> dict[str, Any]:
    return {"verbs": list(verbs), "apiGroups": list(groups), "resources": list(resources)}
