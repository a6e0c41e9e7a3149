"""Rights beyond `write`: some fields decide what code runs, which secrets it sees, and whose calls it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from starlette.requests import Request

from mizzen.access.policy import Target
from mizzen.errors import NotFound
from mizzen.kinds import catalog
from mizzen.kinds.application import components
from mizzen.kinds.catalog import Kind
from mizzen.kinds.parts import typed_properties
from mizzen.kinds.schema.resource import Meta, Ref, Resource
from mizzen.kinds.training import IDEMPOTENCY_ANNOTATION, TRUSTED_ANNOTATION
from mizzen.server.admission.decode import Draft, same
from mizzen.server.auth import authorization, targets
from mizzen.server.http.context import plane_of

PLANE_SAYS = frozenset({TRUSTED_ANNOTATION, IDEMPOTENCY_ANNOTATION})
"""Annotations of a TrainingJob that nobody sends, and no change takes away or brings."""

UNTYPED = frozenset({"hyperparameters", "values"})
"""Fields whose content is handed on: what looks like a reference there is none of ours."""


def require(request: Request, new: Resource, old: Resource | None = None) -> None:
    """What decides which code runs is for those who may vouch for code: the admins of the model, or of the namespace
    where there is no model. A secret is lent only by those who may write it. Refused as by `auth.require`.

    What stays as it was in `old` was vouched for when it came; once something of it changes, all of it is asked for:
    other code could do something else with the same secret.
    """
    code, lent, model = _decided(new)
    if old is not None and same([code, lent, model], [*_decided(old)]):
        return
    if code:
        authorization.require(request, "admin", targets.of(new))
    for secret in lent:
        authorization.require(request, "write", targets.secret(new.meta.namespace, secret))


async def require_names(request: Request, resource: Resource) -> None:
    """Whoever answers to a name takes its calls: so they need the right to change the model that answers to it now.

    Names that do not tell whose they are belong to the namespace: else a server could wait there for a model to come.
    """
    own = catalog.model_of(resource) or resource.meta.name
    for name in targets.names_taken(resource):
        if name != own and not name.startswith(f"{own}-"):
            authorization.require(request, "write", Target(resource.meta.namespace, resource.kind, name))
        try:
            model = await plane_of(request).store.get(Ref("Model", name, resource.meta.namespace))
        except NotFound:
            continue
        authorization.require(request, "write", targets.of(model))


def marked(request: Request, kind: Kind, draft: Draft, namespace: str, old: Resource | None = None) -> Draft:
    """With the mark of those who may vouch for code on a TrainingJob that they start: what it saves may be unpickled.

    Nobody can send it. It stays as others change the job: what is learnt, and from what, never changes.
    """
    if kind.name != "TrainingJob":
        return draft
    said = {name: value for name, value in draft.annotations.items() if name not in PLANE_SAYS}
    if old is None:
        own = {TRUSTED_ANNOTATION: "true"} if _vouches(request, draft, namespace) else {}
    else:
        own = {name: value for name, value in old.meta.annotations.items() if name in PLANE_SAYS}
    return replace(draft, annotations={**said, **own})


def _vouches(request: Request, draft: Draft, namespace: str) -> bool:
    return authorization.may(
        request, "admin", targets.of(Resource("TrainingJob", Meta(draft.name, namespace), draft.spec))
    )


def _decided(resource: Resource) -> tuple[Mapping[str, Any], list[str], str | None]:
    """What decides which code runs, the secrets that are lent to it, and the model in whose name it runs."""
    return _code(resource), sorted(set(_secrets(resource.spec))), catalog.model_of(resource)


def _code(resource: Resource) -> Mapping[str, Any]:
    """All of a spec that decides what code runs, by where it stands; empty when that is for others to say.

    As it was written, not as it is read: a pod may hold more than we know, such as init containers. Nothing is said of
    what admission refuses anyway.
    """
    decides = CODE.get(resource.kind)
    if decides is None:
        return {}
    return decides(catalog.of(resource).spec.meant(resource.spec, resource.meta.annotations))


def _fields(*paths: str) -> Callable[[Any], Mapping[str, Any]]:
    """What these paths hold, where it is anything; `*` stands for each entry of a list or map."""
    return lambda data: {place: value for path in paths for place, value in _held(data, path)}


def _held(data: Any, path: str) -> Iterator[tuple[str, Any]]:
    step, _, rest = path.partition(".")
    for key, value in _entries(data):
        if step not in ("*", key):
            continue
        if rest:
            yield from ((f"{key}.{place}", inner) for place, inner in _held(value, rest))
        elif value:
            yield key, value


def _entries(data: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(data, Mapping):
        yield from data.items()
    elif isinstance(data, list):
        yield from ((str(index), item) for index, item in enumerate(data))


def _of_components(spec: Any) -> Mapping[str, Any]:
    """Charts and modules are code, with all they are given. Of what trains and serves, only what it is told to run."""
    found: dict[str, Any] = {}
    for place, component in _held(spec, "components.*"):
        known = (
            typed_properties.find(components.TYPES, str(component.get("type")))
            if isinstance(component, Mapping)
            else None
        )
        if known is not None and known.family in ("terraform", "helm"):
            found[place] = [component.get(field) for field in ("type", "module", "properties")]
        else:
            found |= {f"{place}.{inner}": value for inner, value in _of_component(component).items()}
    return found


def _of_component(component: Any) -> Mapping[str, Any]:
    own = _lent_keys(component.get("properties")) if isinstance(component, Mapping) else {}
    return {**_COMPONENT(component), **{f"properties.{place}": value for place, value in own.items()}}


def _of_job(spec: Any) -> Mapping[str, Any]:
    return {**_JOB(spec), **_lent_keys(spec)}


def _lent_keys(spec: Any) -> Mapping[str, Any]:
    """A dataset in a bucket that is read with the plane's own keys: they open more than this model's data."""
    return {
        place: s3
        for place, s3 in _held(spec, "dataset.s3")
        if not (isinstance(s3, Mapping) and (s3.get("secret") or s3.get("endpoint")))
    }


def _of_template(spec: Any) -> Mapping[str, Any]:
    return {place: found for place, value in _held(spec, "appTemplate.spec") if (found := _of_components(value))}


_TEMPLATES = ("replicaSpecs.*.template", "tfReplicaSpecs.*.template", "pytorchReplicaSpecs.*.template")
_COMPONENT = _fields(
    *(f"properties.{field}" for field in ("command", "cmd", "env", "image", "dataset.path", *_TEMPLATES)),
    "properties.predictors.*.template", "properties.predictors.*.graph",
)  # fmt: skip

_JOB = _fields("command", "env", "image", "dataset.path", *_TEMPLATES)

CODE: Mapping[str, Callable[[Any], Mapping[str, Any]]] = {
    "Model": _fields("hooks"),
    "ModelVersion": _fields("image"),  # its files have a mark of their own, and their requirements go with them
    "TrainingJob": _of_job,
    "InferenceModel": _fields("env", "image", "manifest", "template"),
    "MLGraph": _fields(
        "custom", "inline", "dag.*.implementation.inline", "dag.*.route.implementation.inline",
        "dag.*.merge.implementation.inline", "dag.*.merge.ensemble.implementation.inline",
    ),
    "Monitor": _fields("env"),
    "Application": _of_components,
    "Initializer": _of_template,
}  # fmt: skip
"""What of each kind decides which code runs. Kinds that are not named here run none of their own."""


def _secrets(data: Any) -> Iterator[str]:
    """Names of the secrets that are lent, at every depth: to variables, to what signs for a webhook, to a dataset."""
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
