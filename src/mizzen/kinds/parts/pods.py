"""Pods as Kubernetes writes them. Typed is what Mizzen reads; everything else is passed on as it stands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar

from pydantic import Field

from mizzen.errors import Fault
from mizzen.kinds.parts.env import SecretKeyRef
from mizzen.kinds.schema.findings import Context, Finding, Warn
from mizzen.kinds.schema.resource import Part
from mizzen.kinds.schema.size_limits import Most
from mizzen.kinds.text.names import Name
from mizzen.kinds.text.quantities import AnyAmount


class ContainerValueFrom(Part):
    open: ClassVar[bool] = True

    secret_key_ref: SecretKeyRef | None = Field(None, description="The value of a secret.")


class ContainerEnvVar(Part):
    open: ClassVar[bool] = True

    name: str = Field(min_length=1, description="The variable's name.")
    value: str | None = Field(None, description="Its value.")
    value_from: ContainerValueFrom | None = Field(None, description="In place of `value`: where it is taken from.")


class ContainerPort(Part):
    open: ClassVar[bool] = True

    container_port: int = Field(ge=1, le=65535, description="The port the container listens on.")
    name: str | None = Field(None, description="The port's name.")
    protocol: str | None = Field(None, description="`TCP` unless said.")


class ContainerResources(Part):
    open: ClassVar[bool] = True

    requests: Annotated[dict[str, AnyAmount], Most(256)] = Field(
        default_factory=dict, description="What is kept free for it."
    )
    limits: Annotated[dict[str, AnyAmount], Most(256)] = Field(default_factory=dict, description="The most it may use.")


class Container(Part):
    open: ClassVar[bool] = True

    name: Name = Field(description="The container's name, a DNS label.")
    image: str | None = Field(None, description="The image to run; an engine without containers cannot.")
    command: Annotated[tuple[str, ...], Most(1000)] = Field((), description="Runs in place of the image's entry point.")
    args: Annotated[tuple[str, ...], Most(1000)] = Field((), description="Arguments of the command.")
    working_dir: str | None = Field(None, description="The folder the command starts in.")
    env: Annotated[tuple[ContainerEnvVar, ...], Most(256)] = Field((), description="Variables of its environment.")
    ports: Annotated[tuple[ContainerPort, ...], Most(256)] = Field((), description="Ports it listens on.")
    resources: ContainerResources | None = Field(None, description="What it may use, as Kubernetes writes it.")


class PodSpec(Part):
    open: ClassVar[bool] = True

    containers: Annotated[tuple[Container, ...], Most(256)] = Field(description="What runs in the pod, at least one.")
    node_selector: Annotated[dict[str, str], Most(256)] = Field(
        default_factory=dict, description="Labels that its node must have."
    )
    node_name: str | None = Field(None, description="The one node it may run on.")

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        if not self.containers:
            yield Fault(f"{at}.containers", "must have at least 1")
        seen: set[str] = set()
        for index, container in enumerate(self.containers):
            if container.name in seen:
                yield Fault(f"{at}.containers[{index}].name", f"a second container '{container.name}'")
            seen.add(container.name)


class PodMeta(Part):
    open: ClassVar[bool] = True

    labels: Annotated[dict[str, str], Most(64)] = Field(default_factory=dict, description="Labels of every pod.")
    annotations: Annotated[dict[str, str], Most(256)] = Field(
        default_factory=dict, description="Annotations of every pod."
    )


class PodTemplate(Part):
    open: ClassVar[bool] = True

    metadata: PodMeta | None = Field(None, description="Labels and annotations of the pods.")
    spec: PodSpec = Field(description="The pod.")


def unrunnable_images(pod: PodSpec, at: str, context: Context, so: str) -> Iterator[Warn]:
    """A warning for each image when the engine runs none; `so` says what comes of it."""
    if "containers" in context.capabilities:
        return
    for index, container in enumerate(pod.containers):
        if container.image:
            yield image_warning(f"{at}.containers[{index}].image", so)


def image_warning(at: str, so: str) -> Warn:
    return Warn(at, f"this engine runs no container images; {so}")
