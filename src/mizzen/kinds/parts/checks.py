"""Checks that a model requires of each new version before it serves, and hooks that run on events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from mizzen.errors import Fault
from mizzen.kinds.parts import one_of, uniqueness
from mizzen.kinds.parts.env import SecretKeyRef
from mizzen.kinds.parts.tensors import TensorMetadata, TensorValue
from mizzen.kinds.schema.findings import Context, Finding
from mizzen.kinds.schema.resource import Part
from mizzen.kinds.schema.size_limits import MaxItems
from mizzen.kinds.text.urls import WebUrl


class RequiredSignature(Part):
    """The inputs and outputs that a version must have."""

    inputs: Annotated[tuple[TensorMetadata, ...], MaxItems(256)] = Field(
        (), description="The inputs. Default: not compared."
    )
    outputs: Annotated[tuple[TensorMetadata, ...], MaxItems(256)] = Field(
        (), description="The outputs. Default: not compared."
    )

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        yield from uniqueness.name_faults(self.inputs, f"{at}.inputs", "tensor")
        yield from uniqueness.name_faults(self.outputs, f"{at}.outputs", "tensor")
        if not self.inputs and not self.outputs and context.was_read(at, "inputs", "outputs"):
            yield Fault(at, "needs inputs or outputs")


class GoldenRequest(Part):
    """One known request and its expected response."""

    name: str | None = Field(None, description="A name for error messages.")
    inputs: Annotated[tuple[TensorValue, ...], MaxItems(256)] = Field(min_length=1, description="The inputs to send.")
    outputs: Annotated[tuple[TensorValue, ...], MaxItems(256)] = Field(
        min_length=1, description="The expected outputs."
    )
    tolerance: float = Field(
        0, ge=0, allow_inf_nan=False, description="How much a number may differ; for other types, only 0 makes sense."
    )

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        yield from uniqueness.name_faults(self.inputs, f"{at}.inputs", "tensor")
        yield from uniqueness.name_faults(self.outputs, f"{at}.outputs", "tensor")


class Disagreement(Part):
    """How much its responses may differ from those of the current version."""

    limit: float = Field(ge=0, le=1, description="The largest share of requests with a different response.")
    samples: int = Field(100, ge=1, le=100_000, description="The number of requests to compare.")


class Latency(Part):
    """How long a prediction may take."""

    limit_ms: float = Field(gt=0, le=60_000, description="The limit in milliseconds.")
    percentile: float = Field(
        99,
        gt=0,
        le=100,
        description="The percentile of the golden or sampled requests that must stay within the limit.",
    )


class Checks(Part):
    """Checks that run before a version becomes active. A failed check blocks it; only an admin may override it."""

    signature: RequiredSignature | None = Field(None, description="The inputs and outputs it must have.")
    golden: Annotated[tuple[GoldenRequest, ...], MaxItems(1000)] = Field(
        (), description="Known requests with their expected responses."
    )
    disagreement: Disagreement | None = Field(None, description="The largest difference from the current version.")
    latency: Latency | None = Field(None, description="The latency limit.")


HookEvent = Literal["created", "activated", "rolled-back", "failed"]


class Webhook(Part):
    url: WebUrl = Field(description="The URL to post the event to, as JSON.")
    secret: SecretKeyRef = Field(description="The secret key to sign the body with (HMAC-SHA256).")


class Hook(Part):
    """A command or webhook that is called after an event. A hook that fails or hangs has no effect."""

    on: Annotated[tuple[HookEvent, ...], MaxItems(256)] = Field(
        description="The events: created, activated, rolled-back, failed."
    )
    command: Annotated[tuple[str, ...] | None, MaxItems(1000)] = Field(
        None, description="The command to run, with the event on standard input."
    )
    webhook: Webhook | None = Field(None, description="A URL to post the event to, in place of `command`.")
    timeout_seconds: float = Field(30, gt=0, le=600, description="The time after which the hook is stopped.")

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        if not self.on:
            yield Fault(f"{at}.on", "must have at least 1 entry")
        yield from uniqueness.word_faults(self.on, f"{at}.on")
        yield from one_of.exactly_one(self, ("command", "webhook"), at, context)
        if self.command is not None and not any(self.command[:1]):
            yield Fault(f"{at}.command", "must not be empty")
