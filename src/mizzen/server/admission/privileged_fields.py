"""Rights beyond `write`, for fields that decide which code runs, which secrets it sees, and which calls it answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from starlette.requests import Request

from mizzen.access.policy import Target
from mizzen.kinds import catalog
from mizzen.kinds.application import components
from mizzen.kinds.catalog import Kind
from mizzen.kinds.parts import typed_properties
from mizzen.kinds.schema.resource import Meta, Ref, Resource
from mizzen.kinds.training import IDEMPOTENCY_ANNOTATION, TRUSTED_ANNOTATION
from mizzen.reconcile.controller import find
from mizzen.server.admission.decode import Draft, is_same
from mizzen.server.auth import authorization, targets
from mizzen.server.http.context import context_of

PLANE_ANNOTATIONS = frozenset({TRUSTED_ANNOTATION, IDEMPOTENCY_ANNOTATION})
"""Annotations of a TrainingJob that only the plane sets; callers cannot add, change or remove them."""

UNTYPED = frozenset({"hyperparameters", "values"})
"""Fields whose content is passed through: a lookalike of a secret reference there is not one."""


def require(request: Request, new: Resource, old: Resource | None = None) -> None:
    """Requires `admin` of the model, or of the namespace if there is no model, for fields that decide which code runs;
    and `write` of each secret that the object uses. Raises as `authorization.require` does.

    Unchanged fields were authorized when they were written. If any of them changes, all are required again: other code
    could misuse the same secret.
    """
    code, lent, model = _privileged_fields(new)
    if old is not None and is_same([code, lent, model], [*_privileged_fields(old)]):
        return
    if code:
        authorization.require(request, "admin", targets.of(new))
    for secret in lent:
        authorization.require(request, "write", targets.secret(new.meta.namespace, secret))


async def require_names(request: Request, resource: Resource) -> None:
    """An object that answers to a name takes its calls: so the writer needs the right to change the model that answers
    to it now.

    Other names need a right in the namespace: else a server could squat the name of a future model.
    """
    own = catalog.model_of(resource) or resource.meta.name
    for name in targets.claimed_names(resource):
        if name != own and not name.startswith(f"{own}-"):
            authorization.require(request, "write", Target(resource.meta.namespace, resource.kind, name))
        model = await find(context_of(request).store, Ref("Model", name, resource.meta.namespace))
        if model is not None:
            authorization.require(request, "write", targets.of(model))


def with_trust(request: Request, kind: Kind, draft: Draft, namespace: str, old: Resource | None = None) -> Draft:
    """Returns the draft of a TrainingJob, marked as trusted if its creator may trust code: then the files that it saves
    may be unpickled.

    Callers cannot send the mark. It stays when others change the job: code and data of a job never change.
    """
    if kind.name != "TrainingJob":
        return draft
    others = {name: value for name, value in draft.annotations.items() if name not in PLANE_ANNOTATIONS}
    if old is None:
        own = {TRUSTED_ANNOTATION: "true"} if _may_trust(request, draft, namespace) else {}
    else:
        own = {name: value for name, value in old.meta.annotations.items() if name in PLANE_ANNOTATIONS}
    return replace(draft, annotations={**others, **own})


def _may_trust(request: Request, draft: Draft, namespace: str) -> bool:
    return authorization.is_allowed(
        request, "admin", targets.of(Resource("TrainingJob", Meta(draft.name, namespace), draft.spec))
    )


def _privileged_fields(resource: Resource) -> tuple[Mapping[str, Any], list[str], str | None]:
    """Returns the fields that decide which code runs, the secrets that it gets, and the model it belongs to."""
    return _code_fields(resource), sorted(set(_secrets(resource.spec))), catalog.model_of(resource)


def _code_fields(resource: Resource) -> Mapping[str, Any]:
    """Returns all fields of a spec that decide which code runs, by path.

    Reads the written spec, not the decoded one: a pod may hold fields unknown to us, such as init containers. Fields
    that admission refuses anyway are not considered.
    """
    decides = CODE_FIELDS.get(resource.kind)
    if decides is None:
        return {}
    return decides(catalog.of(resource).spec.normalize(resource.spec, resource.meta.annotations))


def _fields(*paths: str) -> Callable[[Any], Mapping[str, Any]]:
    """Returns a reader of the non-empty values at these paths; `*` matches each entry of a list or map."""
    return lambda data: {place: value for path in paths for place, value in _values_at(data, path)}


def _values_at(data: Any, path: str) -> Iterator[tuple[str, Any]]:
    step, _, rest = path.partition(".")
    for key, value in _entries(data):
        if step not in ("*", key):
            continue
        if rest:
            yield from ((f"{key}.{place}", inner) for place, inner in _values_at(value, rest))
        elif value:
            yield key, value


def _entries(data: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(data, Mapping):
        yield from data.items()
    elif isinstance(data, list):
        yield from ((str(index), item) for index, item in enumerate(data))


def _components_code(spec: Any) -> Mapping[str, Any]:
    """Charts and modules are code, with all their values. Of training and serving components, only some fields are."""
    found: dict[str, Any] = {}
    for place, component in _values_at(spec, "components.*"):
        fields = component if isinstance(component, Mapping) else {}
        known = typed_properties.find(components.TYPES, str(fields.get("type")))
        if known is not None and known.family in ("terraform", "helm"):
            found[place] = [fields.get(field) for field in ("type", "module", "properties")]
        else:
            found |= {f"{place}.{inner}": value for inner, value in _component_code(component).items()}
    return found


def _component_code(component: Any) -> Mapping[str, Any]:
    own = _plane_keys(component.get("properties")) if isinstance(component, Mapping) else {}
    return {**_COMPONENT(component), **{f"properties.{place}": value for place, value in own.items()}}


def _job_code(spec: Any) -> Mapping[str, Any]:
    return {**_JOB(spec), **_plane_keys(spec)}


def _plane_keys(spec: Any) -> Mapping[str, Any]:
    """A dataset in a bucket that is read with the plane's own keys, which open more than this model's data."""
    return {
        place: s3
        for place, s3 in _values_at(spec, "dataset.s3")
        if not (isinstance(s3, Mapping) and (s3.get("secret") or s3.get("endpoint")))
    }


def _template_code(spec: Any) -> Mapping[str, Any]:
    return {place: found for place, value in _values_at(spec, "appTemplate.spec") if (found := _components_code(value))}


_TEMPLATES = ("replicaSpecs.*.template", "tfReplicaSpecs.*.template", "pytorchReplicaSpecs.*.template")
_COMPONENT = _fields(
    *(f"properties.{field}" for field in ("command", "cmd", "env", "image", "dataset.path", *_TEMPLATES)),
    "properties.predictors.*.template", "properties.predictors.*.graph",
)  # fmt: skip

_JOB = _fields("command", "env", "image", "dataset.path", *_TEMPLATES)

CODE_FIELDS: Mapping[str, Callable[[Any], Mapping[str, Any]]] = {
    "Model": _fields("hooks"),
    "ModelVersion": _fields("image"),  # its files have their own trust mark, which covers their requirements
    "TrainingJob": _job_code,
    "InferenceModel": _fields("env", "image", "manifest", "template"),
    "MLGraph": _fields(
        "custom", "inline", "dag.*.implementation.inline", "dag.*.route.implementation.inline",
        "dag.*.merge.implementation.inline", "dag.*.merge.ensemble.implementation.inline",
    ),
    "Monitor": _fields("env"),
    "Application": _components_code,
    "Initializer": _template_code,
}  # fmt: skip
"""Per kind, the fields that decide which code runs. Other kinds run no code of their own."""


def _secrets(data: Any) -> Iterator[str]:
    """Yields the names of all referenced secrets, at every depth: of variables, webhook signatures and datasets."""
    waiting = [data]
    while waiting:
        for key, value in _entries(waiting.pop()):
            match key, value:
                case ("secretKeyRef", {"name": str(name)}) | ("webhook", {"secret": {"name": str(name)}}):
                    yield name
                case ("s3", {"secret": str(name)}):
                    yield name
            if key not in UNTYPED:
                waiting.append(value)
