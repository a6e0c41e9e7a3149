"""What a request is about, as the policy sees it."""

from __future__ import annotations

from collections.abc import Mapping

from mizzen.access.policy import Target
from mizzen.errors import Invalid
from mizzen.kinds import catalog
from mizzen.kinds.graph.spec import MLGraphSpec
from mizzen.kinds.model import ModelSpec
from mizzen.kinds.schema.resource import Ref, Resource
from mizzen.kinds.text import references
from mizzen.kinds.workload import MODEL_LABEL

CALLABLE = frozenset({"Model", "InferenceModel", "MLGraph"})
"""Kinds whose objects are called by their own names, which a binding may name as well."""

ABOUT = {"RoleBinding": "model", "Rollout": "name"}
"""Kinds that are about something else, and the field of their target that names it."""

_KINDS = {kind.singular: kind.name for kind in (*catalog.KINDS, *catalog.CORE)}

PLANE = Target("", "Plane")
"""The plane itself: for its admins, and to be read by whoever has rights in it."""


def model(ref: Ref, *, alias: str = "", subresource: str = "") -> Target:
    """A model by name, and through /model all that belongs to it."""
    return Target(ref.namespace, "Model", ref.name, subresource, frozenset({ref.name}), alias)


def all_of(kind: str, namespace: str = "") -> Target:
    """Every object of a kind, in one namespace or in all."""
    return Target(namespace, kind)


def of(resource: Resource, *, subresource: str = "") -> Target:
    """One object, as it is or as somebody wants it.

    What belongs to a model is changed by those who may change that model, under whatever name it is called.
    """
    if resource.kind in ABOUT:
        return _about(resource, subresource)
    if resource.kind == "Event":
        return _happened(resource)
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
        called=frozenset(called - models - {""}),
        tells_of=_tells_of(resource.ref),
    )


def named(ref: Ref, *, subresource: str = "") -> Target:
    """An object as far as its name tells what it is, whether or not it is there."""
    model_name = ref.name.partition(".")[0] if ref.kind == "ModelVersion" else ref.name
    models = frozenset({model_name} if ref.kind in (*CALLABLE, "ModelVersion") else ())
    return Target(ref.namespace, ref.kind, ref.name, subresource, models, tells_of=_tells_of(ref))


def _model_of(resource: Resource) -> str:
    if resource.kind == "Workload":
        return resource.meta.labels.get(MODEL_LABEL, "")
    return catalog.model_of(resource) or ""


def _tells_of(ref: Ref) -> str:
    """The name of a Revision begins with the kind of what it tells of."""
    if ref.kind != "Revision":
        return ""
    return _KINDS.get(ref.name.partition(".")[0], "")


def _about(resource: Resource, subresource: str) -> Target:
    """What a binding or a rollout speaks of: those who may do this with that may do it with the object, too."""
    target = resource.spec.get("target")
    said = target if isinstance(target, Mapping) else {}
    name, alias = said.get(ABOUT[resource.kind]), said.get("alias")
    return Target(
        resource.meta.namespace,
        resource.kind,
        resource.meta.name,
        subresource,
        frozenset({name} if isinstance(name, str) else ()),
        alias if isinstance(alias, str) else "",
    )


def _happened(event: Resource) -> Target:
    """For who may read what it happened to."""
    involved = event.spec.get("involvedObject")
    said = involved if isinstance(involved, Mapping) else {}
    kind, name = str(said.get("kind", "")), str(said.get("name", ""))
    models = frozenset({event.meta.labels.get(MODEL_LABEL, "")} - {""})
    called = frozenset({name} if kind in CALLABLE else ()) - models
    return Target(event.meta.namespace, event.kind, event.meta.name, "", models, called=called, tells_of=kind)


def called_by(resource: Resource) -> tuple[Target, ...]:
    """What answers through this object: whoever writes it lends its callers their own right to call that."""
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


def names_taken(resource: Resource) -> frozenset[str]:
    """Names that this object would answer to, beside that of its own model."""
    if resource.kind not in ("InferenceModel", "MLGraph"):
        return frozenset()
    extra = resource.spec.get("extraNames")
    named = {name for name in extra if isinstance(name, str)} if isinstance(extra, list) else set[str]()
    return frozenset(named | {resource.meta.name}) - {catalog.model_of(resource) or "", ""}


def namespace(name: str = "") -> Target:
    """A namespace itself, or all of them: it belongs to those who have it, as all in it does."""
    return Target(name, "Namespace", name)


def user(name: str = "") -> Target:
    """Somebody who may hold tokens, or all of them."""
    return Target("", "User", name)


def secret(namespace: str, name: str = "") -> Target:
    """Belongs to a whole namespace, never to a model."""
    return Target(namespace, "Secret", name)
