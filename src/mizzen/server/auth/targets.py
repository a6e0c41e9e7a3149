"""Builds policy targets: the objects that a request is about, as the policy sees them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mizzen.access.policy import Target
from mizzen.errors import Invalid
from mizzen.kinds import catalog
from mizzen.kinds.graph.spec import MLGraphSpec
from mizzen.kinds.model import ModelSpec
from mizzen.kinds.schema.resource import Ref, Resource
from mizzen.kinds.text import references
from mizzen.kinds.workload import MODEL_LABEL

CALLABLE = frozenset({"Model", "InferenceModel", "MLGraph"})
"""Kinds whose objects answer calls under their own names, which a binding may name as well."""

SUBJECT_FIELD = {"RoleBinding": "model", "Rollout": "name"}
"""Kinds that are about another object, and the field of their target that names it."""

_KINDS = {kind.singular: kind.name for kind in (*catalog.KINDS, *catalog.CORE)}

PLANE = Target("", "Plane")
"""The plane itself: for its admins; readable for every caller with any right in it."""


def model(ref: Ref, *, alias: str = "", subresource: str = "") -> Target:
    """A model by name; for /model, also everything that belongs to it."""
    return Target(ref.namespace, "Model", ref.name, subresource, frozenset({ref.name}), alias)


def all_of(kind: str, namespace: str = "") -> Target:
    """Every object of a kind, in one namespace or in all."""
    return Target(namespace, kind)


def of(resource: Resource, *, subresource: str = "") -> Target:
    """One object, stored or desired.

    Only callers that may change a model may change the objects that belong to it, under any name that those answer to.
    """
    if resource.kind in SUBJECT_FIELD:
        return _subject_target(resource, subresource)
    if resource.kind == "Event":
        return _event_target(resource)
    if resource.kind == "Namespace":
        return namespace(resource.meta.name)
    model_name = _model_of(resource)
    name = resource.meta.name if resource.kind in CALLABLE else ""
    models, called = ({model_name}, {name}) if model_name else ({name}, set[str]())
    return Target(
        resource.meta.namespace,
        resource.kind,
        resource.meta.name,
        subresource,
        frozenset(models - {""}),
        extra_names=frozenset(called - models - {""}),
        involved_kind=_involved_kind(resource.ref),
    )


def by_name(ref: Ref, *, subresource: str = "") -> Target:
    """An object by its name alone, so it need not exist."""
    model_name = ref.name.partition(".")[0] if ref.kind == "ModelVersion" else ref.name
    models = frozenset({model_name} if ref.kind in (*CALLABLE, "ModelVersion") else ())
    return Target(ref.namespace, ref.kind, ref.name, subresource, models, involved_kind=_involved_kind(ref))


def _model_of(resource: Resource) -> str:
    if resource.kind == "Workload":
        return resource.meta.labels.get(MODEL_LABEL, "")
    return catalog.model_of(resource) or ""


def _involved_kind(ref: Ref) -> str:
    """The name of a Revision begins with the kind of the object that it reports about."""
    if ref.kind != "Revision":
        return ""
    return _KINDS.get(ref.name.partition(".")[0], "")


def _subject_target(resource: Resource, subresource: str) -> Target:
    """The object that a binding or a rollout is about: the same rights apply to both."""
    target = _mapping_at(resource, "target")
    name, alias = target.get(SUBJECT_FIELD[resource.kind]), target.get("alias")
    return Target(
        resource.meta.namespace,
        resource.kind,
        resource.meta.name,
        subresource,
        frozenset({name} if isinstance(name, str) else ()),
        alias if isinstance(alias, str) else "",
    )


def _event_target(event: Resource) -> Target:
    """Callers that may read the involved object may read its events."""
    involved = _mapping_at(event, "involvedObject")
    kind, name = str(involved.get("kind", "")), str(involved.get("name", ""))
    models = frozenset({event.meta.labels.get(MODEL_LABEL, "")} - {""})
    called = frozenset({name} if kind in CALLABLE else ()) - models
    return Target(event.meta.namespace, event.kind, event.meta.name, "", models, extra_names=called, involved_kind=kind)


def _mapping_at(resource: Resource, field: str) -> Mapping[str, Any]:
    """Returns the object in this field of any spec, also of an invalid one."""
    value = resource.spec.get(field)
    return value if isinstance(value, Mapping) else {}


def call_targets(resource: Resource) -> tuple[Target, ...]:
    """Returns the targets that this object calls: its writer lends its callers their own right to call them."""
    try:
        match resource.kind:
            case "Model":
                texts = [ModelSpec.of(resource).alias_of]
            case "MLGraph":
                texts = [call.served for node in MLGraphSpec.of(resource).dag for _, call in node.calls()]
            case _:
                return ()
    except Invalid:
        return ()
    called = [references.parse(text) for text in texts if text]
    return tuple(model(Ref("Model", one.name, resource.meta.namespace), alias=one.alias or "") for one in called)


def claimed_names(resource: Resource) -> frozenset[str]:
    """Returns the names that this object would answer to, except that of its own model."""
    if resource.kind not in ("InferenceModel", "MLGraph"):
        return frozenset()
    extra = resource.spec.get("extraNames")
    named = {name for name in extra if isinstance(name, str)} if isinstance(extra, list) else set[str]()
    return frozenset(named | {resource.meta.name}) - {catalog.model_of(resource) or "", ""}


def namespace(name: str = "") -> Target:
    """A namespace itself, or all of them: a binding to a namespace covers it and everything in it."""
    return Target(name, "Namespace", name)


def user(name: str = "") -> Target:
    """A user, or all users."""
    return Target("", "User", name)


def secret(namespace: str, name: str = "") -> Target:
    """A secret belongs to a whole namespace, never to a model."""
    return Target(namespace, "Secret", name)
