"""Kubernetes pods. The fields that Mizzen reads are typed; all others are passed on unchanged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar

from pydantic import Field

from mizzen.errors import Fault
from mizzen.kinds.parts import uniqueness
from mizzen.kinds.parts.env import SecretKeyRef
from mizzen.kinds.schema.findings import Context, Finding, Warn
from mizzen.kinds.schema.resource import Part
from mizzen.kinds.schema.size_limits import MaxItems
from mizzen.kinds.text.names import Name
from mizzen.kinds.text.quantities import AnyAmount


class ContainerValueFrom(Part):
    open: ClassVar[bool] = True

    secret_key_ref: SecretKeyRef | None = Field(None, description="A reference to the value of a secret.")


class ContainerEnvVar(Part):
    open: ClassVar[bool] = True

    name: str = Field(min_length=1, description="The name of the variable.")
    value: str | None = Field(None, description="The value.")
    value_from: ContainerValueFrom | None = Field(
        None, description="Where to take the value from, in place of `value`."
    )


class ContainerPort(Part):
    open: ClassVar[bool] = True

    container_port: int = Field(ge=1, le=65535, description="The port that the container listens on.")
    name: str | None = Field(None, description="The name of the port.")
    protocol: str | None = Field(None, description="The protocol. Default: `TCP`.")


class ContainerResources(Part):
    open: ClassVar[bool] = True

    requests: Annotated[dict[str, AnyAmount], MaxItems(256)] = Field(
        default_factory=dict, description="The resources to reserve."
    )
    limits: Annotated[dict[str, AnyAmount], MaxItems(256)] = Field(
        default_factory=dict, description="The most resources it may use."
    )


class Container(Part):
    open: ClassVar[bool] = True

    name: Name = Field(description="The name of the container, a DNS label.")
    image: str | None = Field(None, description="The image to run. An engine without containers cannot run it.")
    command: Annotated[tuple[str, ...], MaxItems(1000)] = Field(
        (), description="The command to run, in place of the image's entry point."
    )
    args: Annotated[tuple[str, ...], MaxItems(1000)] = Field((), description="The arguments of the command.")
    working_dir: str | None = Field(None, description="The working directory of the command.")
    env: Annotated[tuple[ContainerEnvVar, ...], MaxItems(256)] = Field((), description="Environment variables.")
    ports: Annotated[tuple[ContainerPort, ...], MaxItems(256)] = Field((), description="The ports it listens on.")
    resources: ContainerResources | None = Field(None, description="Requests and limits, as in Kubernetes.")


class PodSpec(Part):
    open: ClassVar[bool] = True

    containers: Annotated[tuple[Container, ...], MaxItems(256)] = Field(
        description="The containers of the pod, at least one."
    )
    node_selector: Annotated[dict[str, str], MaxItems(256)] = Field(
        default_factory=dict, description="Labels that the node must have."
    )
    node_name: str | None = Field(None, description="The node to run on.")

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        if not self.containers:
            yield Fault(f"{at}.containers", "must have at least 1 entry")
        yield from uniqueness.name_faults(self.containers, f"{at}.containers", "container")


class PodMeta(Part):
    open: ClassVar[bool] = True

    labels: Annotated[dict[str, str], MaxItems(64)] = Field(default_factory=dict, description="Labels of the pods.")
    annotations: Annotated[dict[str, str], MaxItems(256)] = Field(
        default_factory=dict, description="Annotations of the pods."
    )


class PodTemplate(Part):
    open: ClassVar[bool] = True

    metadata: PodMeta | None = Field(None, description="Labels and annotations of the pods.")
    spec: PodSpec = Field(description="The pod.")


def unrunnable_images(pod: PodSpec, at: str, context: Context, so: str) -> Iterator[Warn]:
    """A warning for each image if the engine runs no containers; `so` states the consequence."""
    if "containers" in context.capabilities:
        return
    for index, container in enumerate(pod.containers):
        if container.image:
            yield image_warning(f"{at}.containers[{index}].image", so)


def image_warning(at: str, so: str) -> Warn:
    return Warn(at, f"this engine runs no container images; {so}")
