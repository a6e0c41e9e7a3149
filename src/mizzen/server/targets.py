"""What a request is about, as the policy sees it."""

from __future__ import annotations

from mizzen.access.policy import Target
from mizzen.kinds import catalog
from mizzen.kinds.meta import Ref, Resource

CALLABLE = frozenset({"Model", "InferenceModel", "MLGraph"})
"""Kinds whose objects are called by their own names, which a binding may name as well."""


def model(ref: Ref, *, alias: str = "", subresource: str = "") -> Target:
    """A model by name, and through /model all that belongs to it."""
    return Target(ref.namespace, "Model", ref.name, subresource, frozenset({ref.name}), alias)


def all_of(kind: str, namespace: str = "") -> Target:
    """Every object of a kind, in one namespace or in all."""
    return Target(namespace, kind)


def of(resource: Resource, *, subresource: str = "") -> Target:
    """One object, as it is or as somebody wants it."""
    names = {catalog.model_of(resource), resource.meta.name if resource.kind in CALLABLE else None} - {None}
    models = frozenset(name for name in names if name)
    return Target(resource.meta.namespace, resource.kind, resource.meta.name, subresource, models)
