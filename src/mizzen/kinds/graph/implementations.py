"""What a node, a route or a merge of a graph calls: a container, something served by name, or a service elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from mizzen.kinds.parts.one_of import exactly_one
from mizzen.kinds.parts.pods import PodSpec
from mizzen.kinds.schema.findings import Context, Finding
from mizzen.kinds.schema.resource import Part
from mizzen.kinds.schema.size_limits import Most
from mizzen.kinds.text.addresses import AddressText
from mizzen.kinds.text.references import ReferenceText

CONTAINER = "Container"


class CustomPod(Part):
    """A pod whose containers nodes can call."""

    spec: PodSpec = Field(description="The pod, as Kubernetes writes it.")
    replicas: int | None = Field(None, ge=0, description="How many run; 1 unless said. With 0 its nodes are not ready.")


class InlinePod(Part):
    """The later name of the same thing."""

    podspec: PodSpec = Field(description="The pod, as Kubernetes writes it.")
    replicas: int | None = Field(None, ge=0, description="How many run; 1 unless said. With 0 its nodes are not ready.")


class InlineImplementation(Part):
    """What implements the node, written in place."""

    kfspec: Annotated[dict[str, Any] | None, Most(1000)] = Field(
        None, description="A served model, as KFService writes its spec."
    )
    podspec: PodSpec | None = Field(
        None, description="A pod. Called is the container with the node's name, or else the first one."
    )
    replicas: int | None = Field(None, ge=0, description="How many run; 1 unless said.")

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        yield from exactly_one(self, ("kfspec", "podspec"), at, context)


class CustomReference(Part):
    """An object that can be called. A text in its place names a container of `spec.custom`."""

    open: ClassVar[bool] = True

    api_version: str | None = Field(None, description="Its apiVersion.")
    kind: str = Field(CONTAINER, description="Its kind; `Container` is one of `spec.custom`.")
    name: str = Field(min_length=1, description="Its name.")


def _long(value: Any) -> Any:
    return {"name": value} if isinstance(value, str) else value


class ImplementationReference(Part):
    """What implements the node, by reference."""

    kfservice: ReferenceText | None = Field(None, description="As `implementation.kfservice`.")
    custom: Annotated[CustomReference | None, BeforeValidator(_long)] = Field(
        None, description="An object that can be called, or the name of a container of `spec.custom`."
    )
    uri: AddressText | None = Field(None, description="As `implementation.svc`.")

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        yield from exactly_one(self, ("kfservice", "custom", "uri"), at, context)


class Implementation(Part):
    """What is called; exactly one of `name`, `kfservice`, `svc`, `ref` and `inline`."""

    name: str | None = Field(None, description="A container of `spec.custom`; one may back several nodes.")
    kfservice: ReferenceText | None = Field(
        None, description="Something served in the same namespace: name, name:version or name@alias."
    )
    svc: AddressText | None = Field(
        None, description="A service: host[:port][/path], with or without http:// or https://; port 80 unless said."
    )
    ref: ImplementationReference | None = Field(None, description="The later form of `kfservice` and `svc`.")
    inline: InlineImplementation | None = Field(None, description="The implementation itself, written in place.")
    protocol: Literal["v2", "v1", "seldon"] | None = Field(
        None, description="What a service or container speaks. Unless said, each is asked once; v2 if it does not tell."
    )

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        yield from exactly_one(self, ("name", "kfservice", "svc", "ref", "inline"), at, context)

    @property
    def container(self) -> str | None:
        """The container of `spec.custom` that is called."""
        if self.name is not None:
            return self.name
        custom = self.ref.custom if self.ref else None
        return custom.name if custom and custom.kind == CONTAINER else None

    @property
    def container_field(self) -> str:
        """Where the container is named, from here."""
        return "name" if self.name is not None else "ref.custom"

    @property
    def served(self) -> str | None:
        """What is called by its inference name: `references.parse` reads it."""
        return self.kfservice or (self.ref.kfservice if self.ref else None)

    @property
    def service(self) -> str | None:
        """What is called by its address: `addresses.parse` reads it."""
        return self.svc or (self.ref.uri if self.ref else None)
