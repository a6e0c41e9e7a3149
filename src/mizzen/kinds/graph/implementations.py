"""What a node, a route or a merge of a graph calls: a container, a served model, or an external service."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from mizzen.kinds.parts.one_of import exactly_one
from mizzen.kinds.parts.pods import PodSpec
from mizzen.kinds.schema.findings import Context, Finding
from mizzen.kinds.schema.resource import Part, Planned
from mizzen.kinds.schema.size_limits import MaxItems
from mizzen.kinds.text.addresses import AddressText
from mizzen.kinds.text.references import ReferenceText

CONTAINER = "Container"


PodReplicas = Annotated[
    int | None,
    Field(ge=0, description="The number of replicas. Default: 1. With 0, nodes that call it are not ready."),
]


class CustomPod(Part):
    """A pod with containers that nodes can call."""

    spec: PodSpec = Field(description="The pod, as in Kubernetes.")
    replicas: PodReplicas = None


class InlinePod(Part):
    """The newer form of an entry of `custom`."""

    podspec: PodSpec = Field(description="The pod, as in Kubernetes.")
    replicas: PodReplicas = None


class InlineImplementation(Part):
    """An implementation that is defined inline."""

    kfspec: Annotated[dict[str, Any] | None, MaxItems(1000), Planned()] = Field(
        None, description="A served model, in the form of a KFService spec."
    )
    podspec: PodSpec | None = Field(
        None, description="A pod. The node calls the container that has its name, or else the first one."
    )
    replicas: int | None = Field(None, ge=0, description="The number of replicas. Default: 1.")

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        yield from exactly_one(self, ("kfspec", "podspec"), at, context)


class CustomReference(Part):
    """A callable object. Its short form is a string: the name of a container of `spec.custom`."""

    open: ClassVar[bool] = True

    api_version: str | None = Field(None, description="The apiVersion of the object.")
    kind: str = Field(CONTAINER, description="The kind of the object; `Container` means a container of `spec.custom`.")
    name: str = Field(min_length=1, description="The name of the object.")


def _long(value: Any) -> Any:
    return {"name": value} if isinstance(value, str) else value


class ImplementationReference(Part):
    """An implementation by reference."""

    kfservice: ReferenceText | None = Field(None, description="Same as `implementation.kfservice`.")
    custom: Annotated[CustomReference | None, BeforeValidator(_long)] = Field(
        None, description="A callable object, or the name of a container of `spec.custom`."
    )
    uri: AddressText | None = Field(None, description="Same as `implementation.svc`.")

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        yield from exactly_one(self, ("kfservice", "custom", "uri"), at, context)


class Implementation(Part):
    """The target of a call: exactly one of `name`, `kfservice`, `svc`, `ref` and `inline`."""

    name: str | None = Field(None, description="A container of `spec.custom`. Several nodes may call the same one.")
    kfservice: ReferenceText | None = Field(
        None, description="A model or graph served in the same namespace: name, name:version or name@alias."
    )
    svc: AddressText | None = Field(
        None,
        description="A service: host[:port][/path], with or without http:// or https://. Default port: 80 or 443.",
    )
    ref: ImplementationReference | None = Field(None, description="The newer form of `kfservice` and `svc`.")
    inline: InlineImplementation | None = Field(None, description="An implementation that is defined here.")
    protocol: Literal["v2", "v1", "seldon"] | None = Field(
        None, description="The protocol of a service or container. Default: detected once by asking it, else v2."
    )

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        yield from exactly_one(self, ("name", "kfservice", "svc", "ref", "inline"), at, context)

    @property
    def container(self) -> str | None:
        """The container of `spec.custom` that is called, if one is."""
        if self.name is not None:
            return self.name
        custom = self.ref.custom if self.ref else None
        return custom.name if custom and custom.kind == CONTAINER else None

    @property
    def container_field(self) -> str:
        """The path, from here, of the field that names the container."""
        return "name" if self.name is not None else "ref.custom"

    @property
    def served(self) -> str | None:
        """The inference name that is called, if one is; `references.parse` reads it."""
        return self.kfservice or (self.ref.kfservice if self.ref else None)

    @property
    def service(self) -> str | None:
        """The address that is called, if one is; `addresses.parse` reads it."""
        return self.svc or (self.ref.uri if self.ref else None)
