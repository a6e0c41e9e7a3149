"""The metadata that people write: names, labels, annotations. Pure; all faults are reported at once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import Field

from mizzen.errors import Fault
from mizzen.kinds.schema.findings import unknown
from mizzen.kinds.schema.resource import Part, name_fault
from mizzen.kinds.schema.size_limits import MaxItems

SERVER_SIDE = (
    "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds",
    "managedFields", "ownerReferences", "finalizers", "selfLink", "generateName",
)  # fmt: skip
"""Accepted, since clients send back what they received, but ignored."""

MOST_FINALIZERS, MOST_MANAGERS = 20, 100
MOST_LABELS = MaxItems(64)
MOST_ANNOTATIONS = MaxItems(256)
ANNOTATION_BYTES = 256 * 1024
"""Of all keys and values together, since every list and every watch carries them."""


class Metadata(Part):
    """The name, labels and annotations of an object; the plane adds uid, times and resourceVersion."""

    name: str = Field(description="The object's name: lower-case letters, digits and '-', at most 63.")
    namespace: str = Field(default="default", description="The namespace of the object.")
    labels: dict[str, str] = Field(default_factory=dict, description="Labels for label selectors.")
    annotations: dict[str, str] = Field(default_factory=dict, description="Any other data to store with the object.")


WRITABLE = tuple(Metadata.model_fields)

KEY = re.compile(r"([a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?")
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?)?")


def faults(metadata: Any) -> tuple[Fault, ...]:
    """Faults of everything but the name, which each kind checks itself."""
    if not isinstance(metadata, Mapping):
        return (Fault("metadata", "required" if metadata is None else "must be an object"),)
    strange = [*unknown({field: 0 for field in metadata if field not in SERVER_SIDE}, WRITABLE, "metadata")]
    if metadata.get("namespace") is not None:
        fault = name_fault(metadata["namespace"], "metadata.namespace")
        strange += [fault] if fault else []
    version = metadata.get("resourceVersion")
    if version is not None and not isinstance(version, str):
        strange.append(Fault("metadata.resourceVersion", "must be a text"))
    strange += [*_finalizer_faults(metadata.get("finalizers")), *_manager_faults(metadata.get("managedFields"))]
    return (
        *strange,
        *label_faults(metadata.get("labels"), "metadata.labels"),
        *annotation_faults(metadata.get("annotations"), "metadata.annotations"),
    )


def _finalizer_faults(value: Any) -> tuple[Fault, ...]:
    path = "metadata.finalizers"
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        return (Fault(path, "must be a list of texts"),)
    if len(value) > MOST_FINALIZERS:
        return (Fault(path, f"has {len(value)} entries; at most {MOST_FINALIZERS} are allowed"),)
    return tuple(
        Fault(f"{path}[{index}]", f"'{name[:300]}' must be like example.com/name")
        for index, name in enumerate(value)
        if not KEY.fullmatch(name)
    )


def _manager_faults(value: Any) -> tuple[Fault, ...]:
    path = "metadata.managedFields"
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(entry, Mapping) for entry in value):
        return (Fault(path, "must be a list of objects"),)
    return (
        (Fault(path, f"has {len(value)} entries; at most {MOST_MANAGERS} are allowed"),)
        if len(value) > MOST_MANAGERS
        else ()
    )


def label_faults(value: Any, path: str) -> tuple[Fault, ...]:
    """Selectors use labels, so their alphabet is small: that of Kubernetes."""
    found = _text_faults(value, path, MOST_LABELS)
    if found or not value:
        return found
    rule = "at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends"
    return tuple(
        Fault(f"{path}.{key}", f"the {part} must be {rule}")
        for key, item in value.items()
        for part, pattern, text in (("key", KEY, key), ("value", LABEL_VALUE, item))
        if not pattern.fullmatch(text)
    )


def annotation_faults(value: Any, path: str) -> tuple[Fault, ...]:
    found = _text_faults(value, path, MOST_ANNOTATIONS)
    if found or not value:
        return found
    size = sum(len(text.encode(errors="surrogatepass")) for pair in value.items() for text in pair)
    return (
        (Fault(path, f"has {size:,} bytes together; at most 256 KiB are allowed"),) if size > ANNOTATION_BYTES else ()
    )


def _text_faults(value: Any, path: str, most: MaxItems) -> tuple[Fault, ...]:
    if value is None:
        return ()
    if not isinstance(value, Mapping):
        return (Fault(path, "must be an object of texts"),)
    if len(value) > most.entries:
        return (most.fault(path, len(value)),)
    return tuple(
        Fault(f"{path}.{key}", f"must be a text; quote it: '{str(item)[:100]}'")
        for key, item in value.items()
        if not isinstance(item, str)
    )
