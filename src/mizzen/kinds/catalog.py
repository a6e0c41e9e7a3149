"""The one table of kinds. API paths, CLI columns and decoding are derived from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from mizzen.errors import Fault, NotFound
from mizzen.kinds.access import RoleBindingSpec, RoleBindingStatus
from mizzen.kinds.application.initializer import InitializerSpec, InitializerStatus
from mizzen.kinds.application.spec import ApplicationSpec, ApplicationStatus
from mizzen.kinds.findings import Context, Finding, Findings, examine, suggestion
from mizzen.kinds.graph.spec import MLGraphSpec, MLGraphStatus
from mizzen.kinds.meta import (
    CHILDREN_FINALIZER,
    ENGINE_FINALIZER,
    VERSION,
    Condition,
    Resource,
    Spec,
    Status,
    name_fault,
)
from mizzen.kinds.model import (
    ModelSpec,
    ModelStatus,
    ModelVersionSpec,
    ModelVersionStatus,
    normal_version,
    version_object_name,
)
from mizzen.kinds.monitor import MonitorSpec, MonitorStatus
from mizzen.kinds.node import NodeSpec, NodeStatus
from mizzen.kinds.revision import RevisionSpec, RevisionStatus
from mizzen.kinds.rollout import RolloutSpec, RolloutStatus
from mizzen.kinds.serving import InferenceModelSpec, InferenceModelStatus
from mizzen.kinds.training import TrainingJobSpec, TrainingJobStatus
from mizzen.kinds.workload import WorkloadSpec, WorkloadStatus

NOTHING_KNOWN = Context()


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
    about: str = ""
    """What it is, in one sentence."""
    finalizers: tuple[str, ...] = ()
    internal: bool = False
    """Written by controllers only; people may read it."""
    fixed: frozenset[str] = frozenset()
    """Fields of the spec that never change after creation."""
    name_faults: Callable[[str, Mapping[str, Any]], tuple[Fault, ...]] | None = None
    other_names: tuple[str, ...] = ()
    """Names of the kind in files that are read as this one."""
    indexed: tuple[str, ...] = ()
    """Paths of text fields that field selectors may name, beside metadata.name and metadata.namespace."""
    model: str = ""
    """Path of the field that says which model an object belongs to; `metadata.name` for the model itself."""
    virtual: bool = False
    """The store makes these from its history; nobody writes them, and they have no controller."""

    @property
    def singular(self) -> str:
        return self.name.lower()

    def examine(
        self, name: str, spec: Mapping[str, Any], context: Context = NOTHING_KNOWN, *, strict: bool = True
    ) -> Findings:
        """All that is wrong or odd with an object, as far as the object alone can tell. `strict`: a user sent it."""
        check = self.name_faults or _label_faults
        meant = self.spec.meant(spec, context.annotations)
        return Findings.of((*check(name, meant), *examine(self.spec, meant, "spec", context, strict=strict)))


def _label_faults(name: str, _spec: Mapping[str, Any]) -> tuple[Fault, ...]:
    fault = name_fault(name)
    return (fault,) if fault else ()


def _version_name_faults(name: str, spec: Mapping[str, Any]) -> tuple[Fault, ...]:
    try:
        wanted = version_object_name(str(spec.get("modelName")), normal_version(spec.get("version", "")))
    except ValueError:
        return ()  # the spec's own validation names this fault
    return () if name == wanted else (Fault("metadata.name", f"must be '{wanted}', that is <modelName>.<version>"),)


def _workload_name_faults(name: str, _spec: Mapping[str, Any]) -> tuple[Fault, ...]:
    """<InferenceModel>.<version>: a controller made it."""
    owner, _, version = name.partition(".")
    fault = name_fault(owner)
    if fault is None and version and not VERSION.fullmatch(version):
        fault = Fault("metadata.name", f"'{version}' is no version: a Workload is called <InferenceModel>.<version>")
    return (fault,) if fault else ()


def _all_fields(spec: type[Spec]) -> frozenset[str]:
    return frozenset(field.alias or name for name, field in spec.model_fields.items())


OF_A_MODEL = ("spec.modelName",)

KINDS: tuple[Kind, ...] = (
    Kind(
        "Model", "models", "mz", ModelSpec, ModelStatus,
        (Column("CURRENT", "status.current.version"), Column("HIGHEST", "status.highestVersion"),
         Column("BY", "status.current.actor")),
        about="A named group of versions, one of which is current.",
        indexed=("spec.aliasOf",), model="metadata.name",
    ),
    Kind(
        "ModelVersion", "modelversions", "mv", ModelVersionSpec, ModelVersionStatus,
        (Column("MODEL", "spec.modelName"), Column("VERSION", "spec.version"), Column("FRAMEWORK", "spec.framework"),
         Column("SERVABLE", "condition:Servable")),
        about="One immutable version of a model: its code, its files with their digests, and who made it.",
        fixed=_all_fields(ModelVersionSpec), name_faults=_version_name_faults, indexed=OF_A_MODEL,
        model="spec.modelName",
    ),
    Kind(
        "TrainingJob", "trainingjobs", "tj", TrainingJobSpec, TrainingJobStatus,
        (Column("MODEL", "spec.modelName"), Column("VERSION", "spec.version"),
         Column("ACCEPTED", "condition:Accepted")),
        about="One job set, all its replicas, that trains a version of a model.",
        other_names=("TrainingModel",), indexed=OF_A_MODEL, model="spec.modelName",
    ),
    Kind(
        "InferenceModel", "inferencemodels", "im", InferenceModelSpec, InferenceModelStatus,
        (Column("MODEL", "spec.modelName"), Column("VERSION", "status.servingVersion"),
         Column("READY", "condition:Ready"), Column("REPLICAS", "status.readyReplicas"), Column("URL", "status.url")),
        about="One serving service: a version of a model, a place, and a number of replicas.",
        finalizers=(CHILDREN_FINALIZER,), fixed=frozenset({"modelName"}), indexed=OF_A_MODEL, model="spec.modelName",
    ),
    Kind(
        "MLGraph", "mlgraphs", "mlg", MLGraphSpec, MLGraphStatus,
        (Column("ACCEPTED", "condition:Accepted"), Column("READY", "condition:Ready"), Column("URL", "status.url")),
        about="A directed acyclic graph of callable nodes with routes and merges, called as a model is.",
    ),
    Kind(
        "Rollout", "rollouts", "ro", RolloutSpec, RolloutStatus,
        (Column("TARGET", "spec.target.name"), Column("ACCEPTED", "condition:Accepted")),
        about="A staged change of what serves a name.",
        indexed=("spec.target.name",),
    ),
    Kind(
        "Monitor", "monitors", "mon", MonitorSpec, MonitorStatus,
        (Column("MODEL", "spec.modelName"), Column("TOOL", "spec.tool"), Column("ACCEPTED", "condition:Accepted")),
        about="One monitoring tool over a model.",
        indexed=OF_A_MODEL, model="spec.modelName",
    ),
    Kind(
        "Application", "applications", "app", ApplicationSpec, ApplicationStatus,
        (Column("PHASE", "status.phase"), Column("ACCEPTED", "condition:Accepted")),
        about="Components, traits, policies and a workflow that brings them up.",
    ),
    Kind(
        "Initializer", "initializers", "init", InitializerSpec, InitializerStatus,
        (Column("PHASE", "status.phase"), Column("ACCEPTED", "condition:Accepted")),
        about="Components and steps that prepare infrastructure.",
    ),
    Kind(
        "Node", "nodes", "mznode", NodeSpec, NodeStatus,
        (Column("LAYER", "spec.layer"), Column("ADDRESS", "spec.address"), Column("ACCEPTED", "condition:Accepted")),
        about="A machine of the plane, in the cloud or at the edge.",
    ),
    Kind(
        "RoleBinding", "rolebindings", "mzrb", RoleBindingSpec, RoleBindingStatus,
        (Column("SUBJECTS", "spec.subjects"), Column("VERBS", "spec.verbs"), Column("MODEL", "spec.target.model"),
         Column("ALIAS", "spec.target.alias"), Column("ACCEPTED", "condition:Accepted")),
        about="Who may read, predict with, write or administer what.",
    ),
    Kind(
        "Revision", "revisions", "rev", RevisionSpec, RevisionStatus,
        (Column("KIND", "spec.kind"), Column("OBJECT", "spec.name"), Column("NUMBER", "spec.number"),
         Column("ACTION", "spec.action"), Column("ACTOR", "spec.actor")),
        about="One entry of history: a change of a spec, or a decision, with who took it and when.",
        internal=True, virtual=True, indexed=("spec.kind", "spec.name", "spec.model"), model="spec.model",
    ),
    Kind(
        "Workload", "workloads", "wl", WorkloadSpec, WorkloadStatus,
        (Column("PURPOSE", "spec.purpose"), Column("AVAILABLE", "condition:Available")),
        about="Run this command, here, so many times.",
        finalizers=(ENGINE_FINALIZER,), internal=True, name_faults=_workload_name_faults,
    ),
)  # fmt: skip

BY_NAME: dict[str, Kind] = {kind.name: kind for kind in KINDS}
BY_PLURAL: dict[str, Kind] = {kind.plural: kind for kind in KINDS}


def find(word: str) -> Kind:
    """A kind by any of its names, in any case: Model, model, models, mz."""
    names = {
        name.lower(): kind
        for kind in KINDS
        for name in (kind.singular, kind.plural, kind.short, f"{kind.plural}.mizzen.dev", *kind.other_names)
    }
    kind = names.get(word.lower())
    if kind is None:
        known = [kind.singular for kind in KINDS]
        raise NotFound(f"no kind '{word}'", hint=suggestion(word, known, "kinds"))
    return kind


def of(resource: Resource) -> Kind:
    return BY_NAME[resource.kind]


def field(resource: Resource, path: str) -> str | None:
    """The text at a path that a field selector may name; None when there is none."""
    if path == "metadata.name":
        return resource.meta.name
    if path == "metadata.namespace":
        return resource.meta.namespace
    top, *steps = path.split(".")
    value: Any = resource.spec if top == "spec" else resource.status
    for step in steps:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value if isinstance(value, str) else None


def model_of(resource: Resource) -> str | None:
    """The name of the model an object belongs to, if it does."""
    path = of(resource).model
    return field(resource, path) if path else None


def accepted(resource: Resource, context: Context) -> tuple[Condition, Findings]:
    """`Accepted`: can this spec be worked with? Warnings stand in its message. For controllers: lenient."""
    known = replace(context, annotations=resource.meta.annotations, name=resource.meta.name)
    findings = of(resource).examine(resource.meta.name, resource.spec, known, strict=False)
    if findings.faults:
        return _accepted("False", "InvalidSpec", findings.faults), findings
    if findings.warnings:
        return _accepted("True", "AcceptedWithWarnings", findings.warnings), findings
    return Condition(type="Accepted", status="True", reason="Accepted"), findings


def _accepted(status: Literal["True", "False"], reason: str, findings: Iterable[Finding]) -> Condition:
    return Condition(type="Accepted", status=status, reason=reason, message="; ".join(map(str, findings)))
