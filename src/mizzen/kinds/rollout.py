"""Rollout: a staged change of what serves a name. While it exists, a new version of its target passes its steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from mizzen.errors import Fault
from mizzen.kinds.parts import one_of
from mizzen.kinds.schema.findings import Context, Finding, Warn
from mizzen.kinds.schema.resource import Part, Present, Spec, Status
from mizzen.kinds.schema.size_limits import Most
from mizzen.kinds.text.durations import Duration
from mizzen.kinds.text.names import Name

Metric = Literal["error-rate", "latency-p50", "latency-p95", "latency-p99", "reward", "accuracy"]
SHARES = ("error-rate", "reward", "accuracy")
HIGHER_IS_BETTER = ("reward", "accuracy")


class RolloutTarget(Part):
    kind: Literal["Model", "InferenceModel", "MLGraph"] = Field(description="Kind of what is changed.")
    name: Name = Field(description="Its name, in the Rollout's own namespace.")


class Pause(Part):
    duration: Duration | None = Field(None, description="How long, such as `10m`. Absent: until somebody approves.")


class Analysis(Part):
    """A metric of the new version, measured `count` times. Too few samples is inconclusive, and never passes."""

    metric: Metric | None = Field(None, description="What is measured.")
    query: str | None = Field(None, min_length=1, description="In place of `metric`: a Prometheus query.")
    threshold: float | None = Field(
        None,
        allow_inf_nan=False,
        description="The worst value that is good. Shares are 0 to 1, latencies milliseconds.",
    )
    vs: Literal["stable"] | None = Field(None, description="In place of `threshold`: compare with the stable version.")
    tolerance: float | None = Field(
        None, ge=0, allow_inf_nan=False, description="With `vs`: how much worse is still good, as a share. Default: 0."
    )
    higher_is_better: bool | None = Field(
        None, description="For a `query`: whether high values are good. Default: false."
    )
    interval: Duration = Field("1m", description="Time between two measurements.")
    count: int = Field(1, ge=1, le=10_000, description="How many measurements.")
    failure_limit: int = Field(0, ge=0, description="So many may be bad; one more fails the analysis.")
    min_samples: int = Field(1, ge=1, description="Requests that a measurement needs.")
    timeout: Duration = Field("1h", description="Without enough samples for so long, it pauses for a person.")

    @property
    def upwards(self) -> bool:
        """Whether higher values are better."""
        return bool(self.higher_is_better) if self.query else self.metric in HIGHER_IS_BETTER

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        yield from one_of.exactly_one(self, ("metric", "query"), at, context)
        yield from one_of.exactly_one(self, ("threshold", "vs"), at, context)
        if self.tolerance is not None and self.vs is None and context.read(at, "vs"):
            yield Fault(f"{at}.tolerance", "only with vs")
        if self.higher_is_better is not None and self.metric is not None:
            yield Fault(f"{at}.higherIsBetter", f"only with query: it is known of {self.metric}")
        if self.metric in SHARES and self.threshold is not None and not 0 <= self.threshold <= 1:
            yield Fault(f"{at}.threshold", f"{self.metric} is a share: from 0 to 1, not {self.threshold:g}")
        if self.metric is not None and self.metric not in SHARES and self.threshold is not None and self.threshold <= 0:
            yield Fault(f"{at}.threshold", f"must be above 0, not {self.threshold:g}")
        if self.failure_limit >= self.count and context.read(at, "count"):
            yield Warn(f"{at}.failureLimit", f"with {self.count} measurements the analysis can never fail")


class Step(Part):
    """Exactly one of `setWeight`, `pause` and `analysis`."""

    set_weight: int | None = Field(None, ge=0, le=100, description="Per cent of the traffic for the new version.")
    pause: Annotated[Pause | None, Present] = Field(
        None, description="Wait: for a time, or without `duration` until somebody approves."
    )
    analysis: Annotated[Analysis | None, Present] = Field(None, description="Go on only if a metric is good.")

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        yield from one_of.exactly_one(self, ("set_weight", "pause", "analysis"), at, context)


class RolloutSpec(Spec):
    target: RolloutTarget = Field(description="What is changed in stages.")
    steps: Annotated[tuple[Step, ...], Most(256)] = Field(
        description="The stages, in order. After the last one the new version is stable."
    )

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        if not self.steps:
            yield Fault(f"{at}.steps", "must have at least 1")
        highest = 0
        for index, step in enumerate(self.steps):
            if step.set_weight is not None and step.set_weight < highest:
                yield Warn(f"{at}.steps[{index}].setWeight", f"{step.set_weight} is below {highest} of an earlier step")
            highest = max(highest, step.set_weight or 0)


class RolloutStatus(Status):
    """Condition `Accepted`."""

    stable: str | None = Field(default=None, description="The version that served before.")
    candidate: str | None = Field(default=None, description="The version that passes through the steps.")
    step: int = Field(default=0, description="The step it is at, counted from 0.")
    weight: int = Field(default=0, description="Per cent of the traffic that the candidate gets.")
