"""What a request is about, as the policy sees it."""

from __future__ import annotations

from mizzen.access.policy import Target
from mizzen.errors import Invalid
from mizzen.kinds import catalog
from mizzen.kinds.graph.spec import MLGraphSpec
from mizzen.kinds.meta import Ref, Resource
from mizzen.kinds.model import ModelSpec
from mizzen.kinds.text import references

CALLABLE = frozenset({"Model", "InferenceModel", "MLGraph"})
"""Kinds whose objects are called by their own names, which a binding may name as well."""

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
    model_name = catalog.model_of(resource) or ""
    name = resource.meta.name if resource.kind in CALLABLE else ""
    models, called = ({model_name}, {name}) if model_name else ({name}, set[str]())
    return Target(
        resource.meta.namespace,
        resource.kind,
        resource.meta.name,
        subresource,
        frozenset(models - {""}),
        called=frozenset(called - models - {""}),
    )


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


def user(name: str = "") -> Target:
    """Somebody who may hold tokens, or all of them."""
    return Target("", "User", name)


def secret(namespace: str, name: str = "") -> Target:
    """Belongs to a whole namespace, never to a model."""
    return Target(namespace, "Secret", name)
