"""`kubectl auth`: the caller's identity and rights. Callers may ask only about themselves.

A negative answer is not a denied request: the caller tried nothing, so the audit log gets no entry.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mizzen.access.policy import ANONYMOUS, names_actor
from mizzen.errors import Fault, Invalid
from mizzen.kinds import catalog
from mizzen.kinds.schema.findings import unknown
from mizzen.kinds.schema.resource import API_GROUP, Ref
from mizzen.server.admission import field_validation
from mizzen.server.auth import authorization, targets
from mizzen.server.http.context import context_of
from mizzen.server.http.query import Query
from mizzen.server.kubernetes import protobuf
from mizzen.server.kubernetes.access_mapping import ANY, DISCOVERY_PATHS, AccessReviewer, ResourceAttributes
from mizzen.server.kubernetes.discovery import AUTHENTICATION, AUTHORIZATION

QUERY = ("fieldManager", "fieldValidation", "dryRun", "pretty", "timeout")
NO_STORE = {"Cache-Control": "no-store"}
RESOURCE_FIELDS = (
    "namespace", "verb", "group", "version", "resource", "subresource", "name", "fieldSelector", "labelSelector",
)  # fmt: skip
SELECTOR_FIELDS = ("fieldSelector", "labelSelector")
"""These only narrow a request; a caller that may access all objects may access some of them."""
PATH_FIELDS = ("path", "verb")
INCOMPLETE_REASON = "rights to a model also cover the objects that belong to it; ask about those by name"


def routes() -> list[Route]:
    return [
        Route(f"/apis/{AUTHORIZATION}/selfsubjectaccessreviews", review_access, methods=["POST"]),
        Route(f"/apis/{AUTHORIZATION}/selfsubjectrulesreviews", review_rules, methods=["POST"]),
        Route(f"/apis/{AUTHENTICATION}/selfsubjectreviews", review_identity, methods=["POST"]),
    ]


async def review_access(request: Request) -> Response:
    """SelfSubjectAccessReview: whether the caller may do this."""
    reviewer = _reviewer_of(request)
    body = await _read_review(request, AUTHORIZATION, "SelfSubjectAccessReview")
    spec = _read_object(body, "spec", ("resourceAttributes", "nonResourceAttributes"))
    present = [name for name in spec if spec[name] is not None]
    if len(present) != 1:
        raise Invalid.of("the review", (Fault("spec", "needs one of resourceAttributes and nonResourceAttributes"),))
    if present == ["nonResourceAttributes"]:
        attributes = _read_strings(spec, "nonResourceAttributes", PATH_FIELDS)
        verdict = reviewer.review_path(attributes.get("path", ""), attributes.get("verb", ""))
    else:
        attributes = _read_strings(spec, "resourceAttributes", RESOURCE_FIELDS)
        about = ("verb", "group", "resource", "subresource", "namespace", "name")
        verdict = await reviewer.review(ResourceAttributes(**{name: attributes.get(name, "") for name in about}))
    status = {"allowed": verdict.allowed, "denied": not verdict.allowed, "reason": verdict.reason}
    return _respond(body, AUTHORIZATION, spec, status)


async def review_rules(request: Request) -> Response:
    """SelfSubjectRulesReview: the rights of the caller in a namespace."""
    reviewer = _reviewer_of(request)
    body = await _read_review(request, AUTHORIZATION, "SelfSubjectRulesReview")
    spec = _read_object(body, "spec", ("namespace",))
    namespace = _read_strings({"spec": spec}, "spec", ("namespace",)).get("namespace", "")
    if not namespace:
        raise Invalid.of("the review", (Fault("spec.namespace", "required"),))
    models = _bound_models(reviewer, namespace)
    status = {
        "resourceRules": [
            *_kind_rules(reviewer, namespace),
            *_model_rules(reviewer, namespace, models),
            *_self_review_rules(reviewer),
        ],
        "nonResourceRules": [*_path_rules(reviewer)],
        "incomplete": bool(models),
        **({"evaluationError": INCOMPLETE_REASON} if models else {}),
    }
    return _respond(body, AUTHORIZATION, spec, status)


async def review_identity(request: Request) -> Response:
    """SelfSubjectReview: the identity of the caller."""
    actor = _reviewer_of(request).caller.actor
    body = await _read_review(request, AUTHENTICATION, "SelfSubjectReview")
    extra = {"extra": {f"{API_GROUP}/admin": ["true"]}} if actor.admin else {}
    info = {"username": actor.name, "groups": sorted(actor.groups), **extra}
    return _respond(body, AUTHENTICATION, None, {"userInfo": info})


def _reviewer_of(request: Request) -> AccessReviewer:
    actor = authorization.actor_of(request)
    authorization.require(request, "read", targets.PLANE if actor == ANONYMOUS else targets.user(actor.name))
    query = Query(request, *QUERY)
    query.dry_run()  # nothing is written here, but the value must be valid
    field_validation.strictness_of(query)
    return AccessReviewer(context_of(request).store, authorization.policy_of(request))


async def _read_review(request: Request, version: str, kind: str) -> dict[str, Any]:
    body = await protobuf.read_body(request)
    faults = [*unknown(body, ("apiVersion", "kind", "metadata", "spec", "status"))]
    for name, value in (("apiVersion", version), ("kind", kind)):
        if body.get(name, value) != value:
            faults.append(Fault(name, f"must be '{value}' here"))
    if not isinstance(body.get("metadata"), Mapping | None):
        faults.append(Fault("metadata", "must be an object"))
    if faults:
        raise Invalid.of("the review", tuple(faults))
    return {**body, "kind": kind}


def _read_object(body: Mapping[str, Any], name: str, known: tuple[str, ...]) -> dict[str, Any]:
    """The object in a field of the body; an absent one is empty. Raises Invalid if it has unknown fields."""
    found = body.get(name)
    if not isinstance(found, Mapping | None):
        raise Invalid.of("the review", (Fault(name, "must be an object"),))
    faults = tuple(unknown(found or {}, known, name))
    if faults:
        raise Invalid.of("the review", faults)
    return dict(found or {})


def _read_strings(body: Mapping[str, Any], name: str, known: tuple[str, ...]) -> dict[str, str]:
    part = _read_object(body, name, known)
    checked = {key: value for key, value in part.items() if key not in SELECTOR_FIELDS}
    wrong = [key for key, value in checked.items() if not isinstance(value, str | None)]
    faults = tuple(Fault(f"{name}.{key}", "must be a text") for key in wrong)
    if faults:
        raise Invalid.of("the review", faults)
    return {key: value for key, value in part.items() if isinstance(value, str)}


def _respond(body: Mapping[str, Any], version: str, spec: Mapping[str, Any] | None, status: Any) -> Response:
    answer = {"kind": body["kind"], "apiVersion": version, "metadata": {}, "spec": spec, "status": status}
    body_fields = {name: value for name, value in answer.items() if value is not None}
    return JSONResponse(body_fields, 201, headers=NO_STORE)


def _kind_rules(reviewer: AccessReviewer, namespace: str) -> Iterator[dict[str, Any]]:
    """Rules for every object of a kind; kinds with equal rights share a rule."""
    if reviewer.caller.actor.admin:
        yield _rule((ANY,), (ANY,), (ANY,))
        return
    for group, kinds in ((API_GROUP, catalog.KINDS), ("", catalog.CORE)):
        alike: dict[tuple[str, ...], list[str]] = {}
        for kind in kinds:
            target = targets.namespace(namespace) if kind.name == "Namespace" else targets.all_of(kind.name, namespace)
            verbs = reviewer.list_verbs(kind, target)
            alike.setdefault(verbs, []).append(kind.plural)
        yield from (_rule(verbs, (group,), plurals) for verbs, plurals in alike.items() if verbs)


def _model_rules(reviewer: AccessReviewer, namespace: str, models: list[str]) -> Iterator[dict[str, Any]]:
    kind = catalog.BY_NAME["Model"]
    for model in models:
        verbs = reviewer.list_verbs(kind, targets.model(Ref("Model", model, namespace)))
        if verbs:
            yield _rule(verbs, (API_GROUP,), (kind.plural,)) | {"resourceNames": [model]}


def _bound_models(reviewer: AccessReviewer, namespace: str) -> list[str]:
    """The models that the caller has rights to by name."""
    own = (binding for binding in reviewer.caller.bindings if names_actor(binding, reviewer.caller.actor))
    return sorted({binding.model for binding in own if binding.namespace == namespace and binding.model})


def _self_review_rules(reviewer: AccessReviewer) -> Iterator[dict[str, Any]]:
    if not reviewer.caller.actor.admin:
        yield _rule(("create",), ("authorization.k8s.io",), ("selfsubjectaccessreviews", "selfsubjectrulesreviews"))
        yield _rule(("create",), ("authentication.k8s.io",), ("selfsubjectreviews",))


def _path_rules(reviewer: AccessReviewer) -> Iterator[dict[str, Any]]:
    if reviewer.caller.actor.admin:
        yield {"verbs": [ANY], "nonResourceURLs": [ANY]}
        return
    yield {"verbs": ["get"], "nonResourceURLs": ["/healthz", "/livez", "/readyz"]}
    if reviewer.review_path("/version", "get").allowed:
        yield {"verbs": ["get"], "nonResourceURLs": [path for root in DISCOVERY_PATHS for path in (root, f"{root}/*")]}


def _rule(verbs: tuple[str, ...], groups: tuple[str, ...], resources: Any) -> dict[str, Any]:
    return {"verbs": list(verbs), "apiGroups": list(groups), "resources": list(resources)}
