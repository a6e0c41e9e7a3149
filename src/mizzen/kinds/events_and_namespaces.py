"""Kinds of Kubernetes itself that its clients find here: namespaces, and what happened to objects.

Nobody writes these in files of ours, and they have no page of reference: what their fields mean is Kubernetes' to say.
The store keeps them as it keeps every object; the form that clients know is made at the door (`server/door/`).
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from mizzen.kinds.schema.resource import Part, Spec, Status

CORE_VERSION = "v1"
"""The apiVersion of all of them."""


class InvolvedObject(Part):
    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""


class Source(Part):
    component: str = ""


class EventSpec(Spec):
    """Something that happened to an object. On the wire these fields stand beside the metadata."""

    involved_object: InvolvedObject = Field(default_factory=InvolvedObject)
    reason: str = ""
    message: str = ""
    type: Literal["Normal", "Warning"] = "Normal"
    source: Source = Field(default_factory=Source)
    reporting_component: str = ""
    first_timestamp: str = ""
    last_timestamp: str = ""
    count: int = 1


class EventStatus(Status):
    """Nothing: an Event only counts up."""


class NamespaceSpec(Spec):
    finalizers: tuple[str, ...] = ()


class NamespaceStatus(Status):
    phase: Literal["Active", "Terminating"] = "Active"
