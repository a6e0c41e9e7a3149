"""The one table of kinds. API paths, CLI columns and decoding are derived from it."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mizzen.errors import Fault, NotFound
from mizzen.kinds.meta import CHILDREN_FINALIZER, ENGINE_FINALIZER, Resource, Spec, Status, name_fault
from mizzen.kinds.model import (
    ModelSpec,
    ModelStatus,
    ModelVersionSpec,
    ModelVersionStatus,
    normal_version,
    version_object_name,
)
from mizzen.kinds.serving import InferenceModelSpec, InferenceModelStatus
from mizzen.kinds.workload import WorkloadSpec, WorkloadStatus


@dataclass(frozen=True, slots=True)
class Column:
    title: str
    path: str
    """Dots into the wire form, or `condition:<Type>` for the word a condition shows."""


@dataclass(frozen=True, slots=True)
class Kind:
    name: str
    plural: str
    short: str
    spec: type[Spec]
    status: type[Status]
    columns: tuple[Column, ...]
    finalizers: tuple[str, ...] = ()
    internal: bool = False
    """Written by controllers only; people may read it."""
    fixed: frozenset[str] = frozenset()
    """Fields of the spec that never change after creation."""
    name_faults: Callable[[str, Mapping[str, Any]], tuple[Fault, ...]] | None = None

    @property
    def singular(self) -> str:
        return self.name.lower()

    def faults(self, name: str, spec: Mapping[str, Any]) -> tuple[Fault, ...]:
        """All that is wrong with an object a user sent, as far as the object alone can tell."""
        check = self.name_faults or _label_faults
        return check(name, spec) + self.spec.strict(spec)


def _label_faults(name: str, _spec: Mapping[str, Any]) -> tuple[Fault, ...]:
    fault = name_fault(name)
    return (fault,) if fault else ()


def _version_name_faults(name: str, spec: Mapping[str, Any]) -> tuple[Fault, ...]:
    try:
        wanted = version_object_name(str(spec.get("modelName")), normal_version(spec.get("version", "")))
    except ValueError:
        return ()  # the spec's own validation names this fault
    return () if name == wanted else (Fault("metadata.name", f"must be '{wanted}', that is <modelName>.<version>"),)


def _all_fields(spec: type[Spec]) -> frozenset[str]:
    return frozenset(field.alias or name for name, field in spec.model_fields.items())


KINDS: tuple[Kind, ...] = (
    Kind(
        "Model", "models", "mz", ModelSpec, ModelStatus,
        (Column("CURRENT", "status.current.version"), Column("HIGHEST", "status.highestVersion"),
         Column("BY", "status.current.actor")),
    ),
    Kind(
        "ModelVersion", "modelversions", "mv", ModelVersionSpec, ModelVersionStatus,
        (Column("MODEL", "spec.modelName"), Column("VERSION", "spec.version"), Column("FRAMEWORK", "spec.framework"),
         Column("SERVABLE", "condition:Servable")),
        fixed=_all_fields(ModelVersionSpec), name_faults=_version_name_faults,
    ),
    Kind(
        "InferenceModel", "inferencemodels", "im", InferenceModelSpec, InferenceModelStatus,
        (Column("MODEL", "spec.modelName"), Column("VERSION", "status.servingVersion"),
         Column("READY", "condition:Ready"), Column("REPLICAS", "status.readyReplicas"), Column("URL", "status.url")),
        finalizers=(CHILDREN_FINALIZER,), fixed=frozenset({"modelName"}),
    ),
    Kind(
        "Workload", "workloads", "wl", WorkloadSpec, WorkloadStatus,
        (Column("PURPOSE", "spec.purpose"), Column("AVAILABLE", "condition:Available")),
        finalizers=(ENGINE_FINALIZER,), internal=True,
    ),
)  # fmt: skip

BY_NAME: dict[str, Kind] = {kind.name: kind for kind in KINDS}


def find(word: str) -> Kind:
    """A kind by any of its names, in any case: Model, model, models, mz."""
    names = {name: kind for kind in KINDS for name in (kind.singular, kind.plural, kind.short)}
    kind = names.get(word.lower())
    if kind is None:
        close = difflib.get_close_matches(word.lower(), names, n=1, cutoff=0.75)
        hint = f"did you mean '{close[0]}'?" if close else "kinds are " + ", ".join(kind.name for kind in KINDS)
        raise NotFound(f"no kind '{word}'", hint=hint)
    return kind


def of(resource: Resource) -> Kind:
    return BY_NAME[resource.kind]
