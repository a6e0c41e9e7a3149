"""Core kinds of Kubernetes that its clients expect: Namespace and Event.

Manifests do not contain them, and they have no reference page: Kubernetes documents their fields. The store keeps them
like every other object; `server/kubernetes/` converts them to the form that clients know.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from mizzen.kinds.schema.resource import Part, Spec, Status

CORE_VERSION = "v1"
"""The apiVersion of both."""


class InvolvedObject(Part):
    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""


class EventSource(Part):
    component: str = ""


class EventSpec(Spec):
    """Something that happened to an object. On the wire these fields are at the top level, next to the metadata."""

    involved_object: InvolvedObject = Field(default_factory=InvolvedObject)
    reason: str = ""
    message: str = ""
    type: Literal["Normal", "Warning"] = "Normal"
    source: EventSource = Field(default_factory=EventSource)
    reporting_component: str = ""
    first_timestamp: str = ""
    last_timestamp: str = ""
    count: int = 1


class EventStatus(Status):
    """No fields: an Event only counts up."""


class NamespaceSpec(Spec):
    finalizers: tuple[str, ...] = ()


class NamespaceStatus(Status):
    phase: Literal["Active", "Terminating"] = "Active"
