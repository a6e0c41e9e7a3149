"""What a model asks of each new version before it may serve, and whom it tells afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from mizzen.errors import Fault
from mizzen.kinds.parts import one_of, tensors
from mizzen.kinds.parts.env import SecretKeyRef
from mizzen.kinds.parts.tensors import Tensor, TensorSpec
from mizzen.kinds.schema.findings import Context, Finding
from mizzen.kinds.schema.resource import Part
from mizzen.kinds.schema.size_limits import Most
from mizzen.kinds.text.urls import WebUrl


class Signature(Part):
    """The inputs and outputs a version must have."""

    inputs: Annotated[tuple[TensorSpec, ...], Most(256)] = Field((), description="Inputs; none given: not compared.")
    outputs: Annotated[tuple[TensorSpec, ...], Most(256)] = Field((), description="Outputs; none given: not compared.")

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        yield from tensors.repeated(self.inputs, f"{at}.inputs")
        yield from tensors.repeated(self.outputs, f"{at}.outputs")
        if not self.inputs and not self.outputs and context.read(at, "inputs", "outputs"):
            yield Fault(at, "needs inputs or outputs")


class Golden(Part):
    """One known request and its known answer."""

    name: str | None = Field(None, description="To name it by when it fails.")
    inputs: Annotated[tuple[Tensor, ...], Most(256)] = Field(min_length=1, description="What is sent.")
    outputs: Annotated[tuple[Tensor, ...], Most(256)] = Field(min_length=1, description="What must come back.")
    tolerance: float = Field(
        0, ge=0, allow_inf_nan=False, description="How far a number may be off; for other types, only 0 makes sense."
    )

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        yield from tensors.repeated(self.inputs, f"{at}.inputs")
        yield from tensors.repeated(self.outputs, f"{at}.outputs")


class Disagreement(Part):
    """How differently from the current version it may answer."""

    limit: float = Field(ge=0, le=1, description="The largest share of requests that may be answered differently.")
    samples: int = Field(100, ge=1, le=100_000, description="How many requests are compared.")


class Latency(Part):
    """How long one prediction may take."""

    limit_ms: float = Field(gt=0, le=60_000, description="Milliseconds that must not be exceeded.")
    percentile: float = Field(99, gt=0, le=100, description="Of so many per cent of the golden or sampled requests.")


class Checks(Part):
    """Run before a version is made active. One that fails blocks it; only an admin may override."""

    signature: Signature | None = Field(None, description="Inputs and outputs it must have.")
    golden: Annotated[tuple[Golden, ...], Most(1000)] = Field((), description="Known requests with their answers.")
    disagreement: Disagreement | None = Field(None, description="Largest difference from the current version.")
    latency: Latency | None = Field(None, description="Latency budget.")


HookEvent = Literal["created", "activated", "rolled-back", "failed"]


class Webhook(Part):
    url: WebUrl = Field(description="Where the event is posted to, as JSON.")
    secret: SecretKeyRef = Field(description="The key that signs the body (HMAC-SHA256).")


class Hook(Part):
    """Told of what happened, after it happened. A hook that fails or hangs changes nothing."""

    on: Annotated[tuple[HookEvent, ...], Most(256)] = Field(
        description="Which events: created, activated, rolled-back, failed."
    )
    command: Annotated[tuple[str, ...] | None, Most(1000)] = Field(
        None, description="A command to run, with the event on standard input."
    )
    webhook: Webhook | None = Field(None, description="In place of `command`: a URL to post the event to.")
    timeout_seconds: float = Field(30, gt=0, le=600, description="After which it is ended.")

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        if not self.on:
            yield Fault(f"{at}.on", "must have at least 1")
        for index, event in one_of.again(self.on):
            yield Fault(f"{at}.on[{index}]", f"'{event}' is given twice")
        yield from one_of.exactly_one(self, ("command", "webhook"), at, context)
        if self.command is not None and not any(self.command[:1]):
            yield Fault(f"{at}.command", "must not be empty")
