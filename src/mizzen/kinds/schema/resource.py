"""The envelope that every kind shares: identity, metadata, conditions, owner references.

A Store keeps `Resource`s, with the spec exactly as its author wrote it. Typed views (`ModelSpec.of(resource)`) are
decoded from it on reading, with defaults filled in; they are never written back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, ClassVar, Literal, Self, cast

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, core_schema

from mizzen.errors import Fault, Invalid
from mizzen.kinds.schema.findings import Context, Finding
from mizzen.kinds.schema.validation_errors import faults_of

API_GROUP = "mizzen.dev"
API_VERSION = f"{API_GROUP}/v1alpha1"
DEFAULT_NAMESPACE = "default"

CHILDREN_FINALIZER = "mizzen.dev/children"
"""Held by an owner until everything it owns is gone; `reconcile/apply.py` removes it."""

ENGINE_FINALIZER = "mizzen.dev/engine"
"""Held by a Workload until its processes are gone; `controllers/workloads.py` removes it."""

ACTOR_ANNOTATION = "mizzen.dev/actor"
"""The actor who wrote the object last; set by admission."""

NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
VERSION = re.compile(r"[a-z0-9]([-.a-z0-9]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True, order=True)
class Ref:
    """The identity of an object: kind, namespace and name."""

    kind: str
    name: str
    namespace: str = DEFAULT_NAMESPACE

    def __str__(self) -> str:
        return (
            f"{self.kind}/{self.name}"
            if self.namespace in (DEFAULT_NAMESPACE, "")
            else f"{self.kind}/{self.namespace}/{self.name}"
        )


@dataclass(frozen=True, slots=True)
class OwnerReference:
    kind: str
    name: str
    uid: str

    def wire(self) -> dict[str, Any]:
        return {
            "apiVersion": API_VERSION, "kind": self.kind, "name": self.name, "uid": self.uid,
            "controller": True, "blockOwnerDeletion": True,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Meta:
    """Metadata. The store fills in uid, resource_version, generation and the times; callers leave them empty."""

    name: str
    namespace: str = DEFAULT_NAMESPACE
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    created: datetime | None = None
    deleted: datetime | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    owners: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()
    managed: tuple[Mapping[str, Any], ...] = ()
    """The field managers, in the form of `managedFields`; `patches/managed_fields.py` reads and writes it."""

    def wire(self) -> dict[str, Any]:
        data: dict[str, Any] = {"name": self.name, "namespace": self.namespace}
        optional = {
            "uid": self.uid, "resourceVersion": self.resource_version, "generation": self.generation,
            "creationTimestamp": self.created and format_time(self.created),
            "deletionTimestamp": self.deleted and format_time(self.deleted),
            "labels": dict(self.labels), "annotations": dict(self.annotations),
            "ownerReferences": [owner.wire() for owner in self.owners], "finalizers": list(self.finalizers),
            "managedFields": list(self.managed),
        }  # fmt: skip
        return data | {key: value for key, value in optional.items() if value}

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> Self:
        return cls(
            name=data["name"],
            namespace=DEFAULT_NAMESPACE if data.get("namespace") is None else data["namespace"],
            uid=data.get("uid", ""),
            resource_version=str(data.get("resourceVersion", "")),
            generation=data.get("generation", 0),
            created=parse_time(data.get("creationTimestamp")),
            deleted=parse_time(data.get("deletionTimestamp")),
            labels=data.get("labels") or {},
            annotations=data.get("annotations") or {},
            owners=tuple(
                OwnerReference(owner["kind"], owner["name"], owner["uid"])
                for owner in data.get("ownerReferences") or ()
            ),
            finalizers=tuple(data.get("finalizers") or ()),
            managed=tuple(data.get("managedFields") or ()),
        )


@dataclass(frozen=True, slots=True)
class Resource:
    """One object of any kind. `spec` and `status` are plain JSON data; treat them as read-only."""

    kind: str
    meta: Meta
    spec: Mapping[str, Any] = field(default_factory=dict)
    status: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ref(self) -> Ref:
        return Ref(self.kind, self.meta.name, self.meta.namespace)

    @property
    def deleting(self) -> bool:
        return self.meta.deleted is not None

    @property
    def as_owner(self) -> OwnerReference:
        return OwnerReference(self.kind, self.meta.name, self.meta.uid)

    def is_owned_by(self, owner: Resource) -> bool:
        return any(reference.uid == owner.meta.uid for reference in self.meta.owners)

    def with_status(self, status: Status) -> Resource:
        return replace(self, status=status.wire())

    def wire(self) -> dict[str, Any]:
        return {
            "apiVersion": API_VERSION, "kind": self.kind, "metadata": self.meta.wire(),
            "spec": dict(self.spec), "status": dict(self.status),
        }  # fmt: skip

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> Self:
        """Lenient, for what a store or a plane returned. Admission reads what users send, strictly."""
        return cls(
            kind=data["kind"],
            meta=Meta.from_wire(data["metadata"]),
            spec=data.get("spec") or {},
            status=data.get("status") or {},
        )


Present = BeforeValidator(lambda value: {} if value is None else value)
"""A key that is present counts, even with null: `cache:` means `cache: {}`. For `Annotated[Cache | None, Present]`."""


@dataclass(frozen=True, slots=True)
class Planned:
    """For `Annotated[Checks | None, Planned()]`: a field that is accepted and stored, but not used by this release."""


def description_of(info: FieldInfo) -> str:
    """The description of a field, with a note if the field is only planned."""
    note = "Planned: accepted and stored, but not used yet." if is_planned(info) else ""
    return " ".join(filter(None, (info.description, note)))


def is_planned(info: FieldInfo) -> bool:
    return any(isinstance(rule, Planned) for rule in info.metadata)


def _lists_for_tuples(schema: Any) -> Any:
    """The schema, with a list accepted for every tuple within it, in strict mode, too.

    Pydantic accepts that for JSON only, and no longer treats a value as JSON once a validator of ours has seen it.
    """
    if isinstance(schema, list):
        return [_lists_for_tuples(item) for item in schema]
    if not isinstance(schema, dict) or schema.get("function") == {"type": "no-info", "function": _tuple_of_list}:
        return schema
    inner = {key: value if key == "metadata" else _lists_for_tuples(value) for key, value in schema.items()}
    if inner.get("type") != "tuple":
        return inner
    return core_schema.no_info_before_validator_function(_tuple_of_list, cast("CoreSchema", inner))


def _tuple_of_list(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


class Part(BaseModel):
    """Base of every piece of a spec or status: frozen, camelCase on the wire, snake_case in code."""

    # Built on first use: every process imports all kinds, and reads few of them.
    model_config = ConfigDict(
        frozen=True, alias_generator=to_camel, populate_by_name=True, extra="ignore", defer_build=True
    )

    open: ClassVar[bool] = False
    """Accepts fields that Mizzen does not know, like a Kubernetes pod."""
    synonyms: ClassVar[Mapping[str, str]] = {}
    """Other spellings of fields that are accepted on the wire."""
    required_of_users: ClassVar[frozenset[str]] = frozenset()
    """Fields of a spec that people must send, although stored objects may lack them."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: type[BaseModel], handler: GetCoreSchemaHandler, /) -> CoreSchema:
        return cast("CoreSchema", _lists_for_tuples(handler(source)))

    @model_validator(mode="before")
    @classmethod
    def _take_synonyms(cls, data: Any) -> Any:
        if not cls.synonyms or not isinstance(data, dict):
            return data
        return {cls.synonyms.get(name, name): value for name, value in data.items()}

    def check(self, at: str, context: Context) -> Iterable[Finding]:
        """Faults and warnings that types cannot express, without those of the parts within it. `at` is the path."""
        return ()

    def wire(self) -> dict[str, Any]:
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)

    @classmethod
    def wire_fields(cls) -> dict[str, FieldInfo]:
        """The fields by their names on the wire."""
        return {info.alias or name: info for name, info in cls.model_fields.items()}

    @classmethod
    def readable(cls, data: Mapping[str, Any]) -> Self:
        """The readable part of stored data: a field that cannot be read counts as absent.

        Raises ValidationError if that field is required.
        """
        try:
            return cls.model_validate(data, extra="ignore")
        except ValidationError as error:
            broken = {fault["loc"][:1] for fault in error.errors()}
            kept = {} if () in broken else {name: data[name] for name in data if (name,) not in broken}
            return cls.model_validate(kept, extra="ignore")


class Spec(Part):
    @classmethod
    def of(cls, resource: Resource) -> Self:
        """The typed spec with defaults. Raises Invalid, since stored specs are validated on loading, too."""
        try:
            return cls.model_validate(cls.normalize(resource.spec, resource.meta.annotations), extra="ignore")
        except ValidationError as error:
            raise Invalid.of(str(resource.ref), faults_of(error, "spec")) from error

    @classmethod
    def normalize(cls, spec: Mapping[str, Any], annotations: Mapping[str, str]) -> Mapping[str, Any]:
        """The spec as its author meant it, if the spec that arrived says less; see `MLGraphSpec`. Pure."""
        return cls.restore_written(spec, annotations)

    @classmethod
    def restore_written(cls, spec: Mapping[str, Any], annotations: Mapping[str, str]) -> Mapping[str, Any]:
        """The spec as it was in the file, if a client dropped something on the way. To be stored. Pure."""
        return spec


class Condition(Part):
    """One statement about an object, in the Kubernetes shape."""

    type: str = Field(description="The type of the condition.")
    status: Literal["True", "False", "Unknown"] = Field(description="Whether the condition is true.")
    reason: str = Field(description="The reason in one word, for programs.")
    message: str = Field(default="", description="The reason as a sentence, for people.")
    last_transition_time: str = Field(default="", description="When the status last changed, in UTC.")
    observed_generation: int = Field(default=0, description="The generation of the spec that the condition describes.")

    @property
    def true(self) -> bool:
        return self.status == "True"


class Status(Part):
    observed_generation: int = Field(default=0, description="The generation of the spec that this status describes.")
    conditions: tuple[Condition, ...] = Field(default=(), description="The conditions of the object.")

    @classmethod
    def of(cls, resource: Resource) -> Self:
        """Never fails: every field has a default, and controllers rewrite a broken status."""
        return cls.readable(resource.status)

    def condition(self, type_: str) -> Condition | None:
        return next((condition for condition in self.conditions if condition.type == type_), None)

    def is_true(self, type_: str) -> bool:
        condition = self.condition(type_)
        return condition is not None and condition.true


def merge_conditions(
    old: Iterable[Condition], new: Iterable[Condition], *, generation: int, now: datetime
) -> tuple[Condition, ...]:
    """`new` over `old`: the transition time moves only when the status did. Conditions not in `new` are dropped.

    A condition of `old` that is passed on unchanged, because another controller owns it, stays unchanged. A condition
    that describes an earlier generation carries that generation itself.
    """
    before = {condition.type: condition for condition in old}
    merged = []
    for condition in new:
        was = before.get(condition.type)
        if was is not None and was == condition:
            merged.append(condition)
            continue
        kept = was is not None and was.status == condition.status and was.last_transition_time
        moved = was.last_transition_time if was is not None and kept else format_time(now)
        seen = condition.observed_generation or generation
        merged.append(condition.model_copy(update={"last_transition_time": moved, "observed_generation": seen}))
    return tuple(merged)


def name_fault(name: object, path: str = "metadata.name") -> Fault | None:
    if isinstance(name, str) and NAME.fullmatch(name):
        return None
    if name in (None, ""):
        return Fault(path, "required")
    return Fault(
        path,
        f"{name!r} is not a valid name; expected lower-case letters, digits and '-', at most 63, such as 'my-model'",
    )


def name_faults(name: object, path: str = "metadata.name") -> tuple[Fault, ...]:
    """`name_fault` for checks, which yield faults: at most one."""
    fault = name_fault(name, path)
    return (fault,) if fault is not None else ()


def format_time(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def parse_time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text).astimezone(UTC) if text else None
