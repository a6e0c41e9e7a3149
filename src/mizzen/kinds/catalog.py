"""The table of all kinds. API paths and decoding are derived from it.

Names and columns are in `schema.names_and_columns`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from mizzen.errors import Fault
from mizzen.kinds.access import RoleBindingSpec, RoleBindingStatus
from mizzen.kinds.application.initializer import InitializerSpec, InitializerStatus
from mizzen.kinds.application.spec import ApplicationSpec, ApplicationStatus
from mizzen.kinds.events_and_namespaces import EventSpec, EventStatus, NamespaceSpec, NamespaceStatus
from mizzen.kinds.graph.spec import MLGraphSpec, MLGraphStatus
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
from mizzen.kinds.schema import names_and_columns
from mizzen.kinds.schema.examine import examine
from mizzen.kinds.schema.findings import Context, Finding, Findings, Warn
from mizzen.kinds.schema.names_and_columns import KindNames
from mizzen.kinds.schema.resource import (
    CHILDREN_FINALIZER,
    ENGINE_FINALIZER,
    VERSION,
    Condition,
    Resource,
    Spec,
    Status,
    name_fault,
    name_faults,
)
from mizzen.kinds.serving import InferenceModelSpec, InferenceModelStatus
from mizzen.kinds.text import references
from mizzen.kinds.training import CHANGEABLE, TrainingJobSpec, TrainingJobStatus
from mizzen.kinds.workload import WorkloadSpec, WorkloadStatus

NOTHING_KNOWN = Context()


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind(KindNames):
    """The names and columns of a kind, with its spec, its status and its behavior."""

    spec: type[Spec]
    status: type[Status]
    finalizers: tuple[str, ...] = ()
    fixed: frozenset[str] = frozenset()
    """Fields of the spec that never change after creation."""
    alternative: str = ""
    """What users should do instead of changing them."""
    name_faults: Callable[[str, Mapping[str, Any]], tuple[Fault, ...]] | None = None
    indexed: tuple[str, ...] = ()
    """Paths of text fields for field selectors, in addition to metadata.name and metadata.namespace."""
    derived: tuple[str, ...] = ()
    """Paths of parts of fields that stores also index; see `field`."""
    model: str = ""
    """Path of the field that names the model of an object; `metadata.name` for the model itself."""
    unrecorded: bool = False
    """Stores keep no history of these, and send them only to watchers of their kind: they describe other objects, whose
    changes a watcher of everything receives already."""

    @classmethod
    def of(cls, name: str, spec: type[Spec], status: type[Status], **more: Any) -> Kind:
        names = names_and_columns.BY_NAME[name]
        return cls(**{each.name: getattr(names, each.name) for each in fields(names)}, spec=spec, status=status, **more)

    def examine(
        self, name: str, spec: Mapping[str, Any], context: Context = NOTHING_KNOWN, *, strict: bool = True
    ) -> Findings:
        """All faults and warnings that the object alone shows. `strict`: a user sent it."""
        meant = self.spec.normalize(spec, context.annotations)
        of_name = name_faults(name) if self.name_faults is None else self.name_faults(name, meant)
        return Findings.of((*of_name, *examine(self.spec, meant, "spec", context, strict=strict)))


def _version_name_faults(name: str, spec: Mapping[str, Any]) -> tuple[Fault, ...]:
    try:
        wanted = version_object_name(str(spec.get("modelName")), normal_version(spec.get("version", "")))
    except ValueError:
        return ()  # the validation of the spec reports this fault
    return () if name == wanted else (Fault("metadata.name", f"must be '{wanted}', that is <modelName>.<version>"),)


def _workload_name_faults(name: str, _spec: Mapping[str, Any]) -> tuple[Fault, ...]:
    """Controllers name Workloads <InferenceModel>.<version> or <TrainingJob>.<replica>."""
    owner, _, version = name.partition(".")
    fault = name_fault(owner)
    if fault is None and version and not VERSION.fullmatch(version):
        fault = Fault(
            "metadata.name", f"'{version}' is not a valid version: a Workload is named <InferenceModel>.<version>"
        )
    return (fault,) if fault else ()


OF_A_MODEL = ("spec.modelName",)
ALIASED_MODEL = "spec.aliasOf.name"
"""The model that `spec.aliasOf` names, with or without a version."""

KINDS: tuple[Kind, ...] = (
    Kind.of(
        "Model", ModelSpec, ModelStatus,
        indexed=("spec.aliasOf",), derived=(ALIASED_MODEL,), model="metadata.name",
    ),
    Kind.of(
        "ModelVersion", ModelVersionSpec, ModelVersionStatus,
        fixed=frozenset(ModelVersionSpec.wire_fields()), name_faults=_version_name_faults, indexed=OF_A_MODEL,
        model="spec.modelName",
    ),
    Kind.of(
        "TrainingJob", TrainingJobSpec, TrainingJobStatus,
        finalizers=(CHILDREN_FINALIZER,), fixed=frozenset(TrainingJobSpec.wire_fields()) - CHANGEABLE,
        alternative="start another job", indexed=OF_A_MODEL, model="spec.modelName",
    ),
    Kind.of(
        "InferenceModel", InferenceModelSpec, InferenceModelStatus,
        finalizers=(CHILDREN_FINALIZER,), fixed=frozenset({"modelName"}), indexed=OF_A_MODEL, model="spec.modelName",
    ),
    Kind.of("MLGraph", MLGraphSpec, MLGraphStatus),
    Kind.of("Rollout", RolloutSpec, RolloutStatus, indexed=("spec.target.name",)),
    Kind.of("Monitor", MonitorSpec, MonitorStatus, indexed=OF_A_MODEL, model="spec.modelName"),
    Kind.of("Application", ApplicationSpec, ApplicationStatus),
    Kind.of("Initializer", InitializerSpec, InitializerStatus),
    Kind.of("Node", NodeSpec, NodeStatus),
    Kind.of("RoleBinding", RoleBindingSpec, RoleBindingStatus),
    Kind.of(
        "Revision", RevisionSpec, RevisionStatus,
        indexed=("spec.kind", "spec.name", "spec.model"), model="spec.model",
    ),
    Kind.of(
        "Workload", WorkloadSpec, WorkloadStatus,
        finalizers=(ENGINE_FINALIZER,), name_faults=_workload_name_faults,
    ),
)  # fmt: skip

CORE: tuple[Kind, ...] = (
    Kind(
        "Event", "events", "ev", (), about="Something that happened to an object.", internal=True,
        spec=EventSpec, status=EventStatus, unrecorded=True,
        indexed=(
            "spec.involvedObject.apiVersion", "spec.involvedObject.kind", "spec.involvedObject.namespace",
            "spec.involvedObject.name", "spec.involvedObject.uid", "spec.reason", "spec.type",
        ),
    ),
    Kind(
        "Namespace", "namespaces", "ns", (), about="A scope for the names of objects.",
        spec=NamespaceSpec, status=NamespaceStatus,
    ),
)  # fmt: skip
"""Core kinds of Kubernetes, with apiVersion `v1`: stored like the others, but served by the Kubernetes API only."""

BY_NAME: dict[str, Kind] = {kind.name: kind for kind in (*KINDS, *CORE)}
UNRECORDED = frozenset(kind.name for kind in CORE if kind.unrecorded)
BY_PLURAL: dict[str, Kind] = {kind.plural: kind for kind in KINDS}


def find(word: str) -> Kind:
    """A kind by any of its names, in any case: Model, model, models, mz."""
    return BY_NAME[names_and_columns.find(word).name]


def of(resource: Resource) -> Kind:
    return BY_NAME[resource.kind]


def field(resource: Resource, path: str) -> str | None:
    """The text at a path that a field selector may name; None if there is none."""
    if path == "metadata.name":
        return resource.meta.name
    if path == "metadata.namespace":
        return resource.meta.namespace
    if path == ALIASED_MODEL:
        return _name_in(field(resource, "spec.aliasOf"))
    top, *steps = path.split(".")
    value: Any = resource.spec if top == "spec" else resource.status
    for step in steps:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value if isinstance(value, str) else None


def _name_in(reference: str | None) -> str | None:
    try:
        return references.parse_unaliased(reference).name if reference else None
    except ValueError:
        return None


def model_of(resource: Resource) -> str | None:
    """The name of the model that an object belongs to, if it belongs to one."""
    path = of(resource).model
    return field(resource, path) if path else None


def check_accepted(resource: Resource, context: Context) -> tuple[Condition, Findings]:
    """The condition `Accepted` of a stored spec, with any warnings in its message, and the findings. Lenient."""
    known = replace(context, annotations=resource.meta.annotations, name=resource.meta.name)
    findings = of(resource).examine(resource.meta.name, resource.spec, known, strict=False)
    if findings.faults:
        return _build_accepted("False", "InvalidSpec", findings.faults), findings
    if findings.warnings:
        return _build_accepted("True", "AcceptedWithWarnings", findings.warnings), findings
    return Condition(type="Accepted", status="True", reason="Accepted"), findings


def add_warnings(accepted: Condition, warnings: Iterable[Warn]) -> Condition:
    """The condition with these warnings added to its message."""
    texts = [str(warning) for warning in warnings]
    if not texts:
        return accepted
    message = "; ".join(filter(None, (accepted.message, *texts)))
    return accepted.model_copy(update={"reason": "AcceptedWithWarnings", "message": message})


def _build_accepted(status: Literal["True", "False"], reason: str, findings: Iterable[Finding]) -> Condition:
    return Condition(type="Accepted", status=status, reason=reason, message="; ".join(map(str, findings)))
