"""Rollout: a staged change to a new version. While it exists, each new version of its target goes through its steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from mizzen.errors import Fault
from mizzen.kinds.parts import one_of
from mizzen.kinds.schema.findings import Context, Finding, Warn
from mizzen.kinds.schema.resource import Part, Present, Spec, Status
from mizzen.kinds.schema.size_limits import MaxItems
from mizzen.kinds.text.durations import Duration
from mizzen.kinds.text.names import Name

Metric = Literal["error-rate", "latency-p50", "latency-p95", "latency-p99", "reward", "accuracy"]
SHARES = ("error-rate", "reward", "accuracy")


class RolloutTarget(Part):
    kind: Literal["Model", "InferenceModel", "MLGraph"] = Field(description="The kind of the object to change.")
    name: Name = Field(description="The name of the object, in the Rollout's own namespace.")


class Pause(Part):
    duration: Duration | None = Field(
        None, description="How long to wait, such as `10m`. Default: until a user approves."
    )


class Analysis(Part):
    """A metric of the new version, measured `count` times. Too few samples are inconclusive and never pass."""

    metric: Metric | None = Field(None, description="The metric to measure.")
    query: str | None = Field(None, min_length=1, description="A Prometheus query, in place of `metric`.")
    threshold: float | None = Field(
        None,
        allow_inf_nan=False,
        description="The worst acceptable value. Shares are from 0 to 1, latencies in milliseconds.",
    )
    vs: Literal["stable"] | None = Field(None, description="Compare with the stable version, in place of `threshold`.")
    tolerance: float | None = Field(
        None,
        ge=0,
        allow_inf_nan=False,
        description="With `vs`: how much worse the new version may be, as a share. Default: 0.",
    )
    higher_is_better: bool | None = Field(
        None, description="For a `query`: whether higher values are better. Default: false."
    )
    interval: Duration = Field("1m", description="The time between two measurements.")
    count: int = Field(1, ge=1, le=10_000, description="The number of measurements.")
    failure_limit: int = Field(
        0, ge=0, description="The number of bad measurements to tolerate; one more fails the analysis."
    )
    min_samples: int = Field(1, ge=1, description="The number of requests that a measurement needs.")
    timeout: Duration = Field(
        "1h", description="If samples are too few for this long, the rollout pauses until a user decides."
    )

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        yield from one_of.exactly_one(self, ("metric", "query"), at, context)
        yield from one_of.exactly_one(self, ("threshold", "vs"), at, context)
        if self.tolerance is not None and self.vs is None and context.was_read(at, "vs"):
            yield Fault(f"{at}.tolerance", "only possible with vs")
        if self.higher_is_better is not None and self.metric is not None:
            yield Fault(f"{at}.higherIsBetter", f"only possible with query; for {self.metric} it is known")
        if self.metric in SHARES and self.threshold is not None and not 0 <= self.threshold <= 1:
            yield Fault(f"{at}.threshold", f"{self.metric} is a share; it must be from 0 to 1, not {self.threshold:g}")
        if self.metric is not None and self.metric not in SHARES and self.threshold is not None and self.threshold <= 0:
            yield Fault(f"{at}.threshold", f"must be above 0, not {self.threshold:g}")
        if self.failure_limit >= self.count and context.was_read(at, "count"):
            yield Warn(f"{at}.failureLimit", f"with {self.count} measurements the analysis can never fail")


class RolloutStep(Part):
    """Exactly one of `setWeight`, `pause` and `analysis`."""

    set_weight: int | None = Field(None, ge=0, le=100, description="The percentage of traffic for the new version.")
    pause: Annotated[Pause | None, Present] = Field(
        None, description="Wait for a `duration`; without one, until a user approves."
    )
    analysis: Annotated[Analysis | None, Present] = Field(None, description="Continue only if a metric is acceptable.")

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        yield from one_of.exactly_one(self, ("set_weight", "pause", "analysis"), at, context)


class RolloutSpec(Spec):
    target: RolloutTarget = Field(description="The object to change in stages.")
    steps: Annotated[tuple[RolloutStep, ...], MaxItems(256)] = Field(
        description="The stages, in order. After the last one, the new version is stable."
    )

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        if not self.steps:
            yield Fault(f"{at}.steps", "must have at least 1 entry")
        highest = 0
        for index, step in enumerate(self.steps):
            if step.set_weight is not None and step.set_weight < highest:
                yield Warn(
                    f"{at}.steps[{index}].setWeight",
                    f"{step.set_weight} is below {highest}, the weight of an earlier step",
                )
            highest = max(highest, step.set_weight or 0)


class RolloutStatus(Status):
    """Condition `Accepted`."""

    stable: str | None = Field(default=None, description="The version that served before.")
    candidate: str | None = Field(default=None, description="The version that goes through the steps.")
    step: int = Field(default=0, description="The current step, counted from 0.")
    weight: int = Field(default=0, description="The percentage of traffic for the candidate.")
