"""Predictors: what a serving component runs, and how requests are shared among them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field

from mizzen.errors import Fault
from mizzen.kinds.application.version_reference import WrittenVersionRef
from mizzen.kinds.parts.pods import PodTemplate, unrunnable_images
from mizzen.kinds.parts.typed_properties import repeated
from mizzen.kinds.schema.findings import Context, Finding, Warn
from mizzen.kinds.schema.resource import Part, Present, name_fault
from mizzen.kinds.schema.size_limits import Most
from mizzen.kinds.serving import AutoScale, Batching, Layer
from mizzen.kinds.text import durations
from mizzen.kinds.text.quantities import Gpu, gpu_warning

WHOLE = 100


class Scale(AutoScale):
    """How many replicas, as requests in flight ask for it."""

    metrics: Annotated[tuple[dict[str, Any], ...], Most(1000)] = Field(
        (), description="Read for the sake of other platforms, and not used."
    )

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        yield from super().check(at, context)
        if self.metrics:
            yield Warn(f"{at}.metrics", "not used: replicas follow the requests in flight")


class GraphRef(Part):
    """A model by its files, as KubeVela's model-serving names it."""

    name: str = Field(description="The model's name.")
    implementation: str | None = Field(None, description="Its framework.")
    model_uri: str = Field(description="Where its files are.")


class Predictor(Part):
    """One version of a model, served so many times, with its share of the component's requests."""

    synonyms: ClassVar[dict[str, str]] = {
        "trafficPercent": "trafficPercentage", "trafficWeight": "trafficPercentage", "traffic": "trafficPercentage",
        "autoscaler": "autoScale",
    }  # fmt: skip

    name: str = Field(description="Its name within the component.")
    model_version: WrittenVersionRef | None = Field(None, description="What it serves: `mymodel-v1`, or an object.")
    graph: GraphRef | None = Field(None, description="In place of `modelVersion`: the model by its files.")
    replicas: int = Field(1, ge=0, description="How many processes serve it; where `autoScale` starts from.")
    traffic_percentage: int | None = Field(None, ge=0, le=WHOLE, description="Its share of requests, in per cent.")
    auto_scale: Annotated[Scale | None, Present] = Field(
        None, description="Lets the number of replicas follow the requests in flight."
    )
    batching: Annotated[Batching | None, Present] = Field(
        None, description="How many requests one call of the model may answer."
    )
    template: PodTemplate | None = Field(None, description="The pod to run, where containers can be run.")
    deploy_to_layer: Layer = Field("cloud", description="Where it runs.")
    gpu: Gpu | None = Field(None, description="Of each replica: a share of one GPU, such as 0.5, or whole ones.")
    shadow: bool = Field(False, description="Gets copies of requests; its answers are thrown away.")

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        fault = name_fault(self.name, f"{at}.name")
        if fault:
            yield fault
        if (self.model_version is None) == (self.graph is None) and context.read(at, "modelVersion", "graph"):
            yield Fault(
                f"{at}.modelVersion", "required" if self.graph is None else "takes the place of graph: give one"
            )
        if self.shadow and self.traffic_percentage is not None:
            yield Fault(f"{at}.trafficPercentage", f"'{self.name}' is a shadow, which is outside the {WHOLE}")
        yield from gpu_warning(self.gpu, f"{at}.gpu", context)


def _milliseconds(text: str) -> str:
    if not re.fullmatch(r"[0-9]{1,12}", text):
        durations.seconds(text)
    return text


class CustomRouting(Part):
    """Requests with a header go here although they are sent to another component."""

    header: str = Field(description="`name: value` of the header.", pattern=r"^[!-9;-~]+:.*$")
    service_name: str = Field(description="The component whose requests are meant.")


class ServingProperties(Part):
    """Serves versions of models under the component's name."""

    predictors: Annotated[tuple[Predictor, ...], Most(256)] = Field(
        min_length=1, description="What answers, and which share of it."
    )
    protocol: str | None = Field(None, description="Read for the sake of other platforms; every protocol is spoken.")
    timeout: Annotated[str, AfterValidator(_milliseconds)] | None = Field(
        None, description="Deadline of a request: milliseconds, or a duration such as `10s`."
    )
    custom_routing: CustomRouting | None = Field(None, description="Takes over another component's requests by header.")

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        places = [(f"{at}.predictors[{index}].name", one.name) for index, one in enumerate(self.predictors)]
        yield from repeated(places, "predictor")
        yield from _share_faults(self.predictors, f"{at}.predictors", context)
        for index, one in enumerate(self.predictors):
            automatic = one.batching is not None and one.batching.batch_size == "auto"
            if automatic and self.timeout is None and context.read(at, "timeout"):
                path = f"{at}.predictors[{index}].batching.batchSize"
                yield Fault(path, f"'auto' needs {at}.timeout, the latency to stay within")

    def unrunnable(self, at: str, context: Context, so: str) -> Iterator[Warn]:
        for index, predictor in enumerate(self.predictors):
            if predictor.template:
                place = f"{at}.predictors[{index}].template.spec"
                yield from unrunnable_images(predictor.template.spec, place, context, so)


def predictor_shares(properties: ServingProperties) -> dict[str, Fraction]:
    """Which part of the requests each predictor answers, exactly; they add up to 1. Shadows answer none."""
    answering = [one for one in properties.predictors if not one.shadow]
    if all(one.traffic_percentage is None for one in answering):
        return {one.name: Fraction(1, len(answering)) for one in answering}
    return {one.name: Fraction(one.traffic_percentage or 0, WHOLE) for one in answering}


def _share_faults(predictors: Sequence[Predictor], at: str, context: Context) -> Iterator[Fault]:
    if not all(context.read(f"{at}[{index}]", "shadow", "trafficPercentage") for index in range(len(predictors))):
        return
    answering = [(index, one.traffic_percentage) for index, one in enumerate(predictors) if not one.shadow]
    if not answering:
        yield Fault(at, "all are shadows: one must answer")
        return
    given = [share for _, share in answering if share is not None]
    if not given:
        return
    for index, share in answering:
        if share is None:
            yield Fault(f"{at}[{index}].trafficPercentage", "required, as others have one")
    if len(given) == len(answering) and sum(given) != WHOLE:
        yield Fault(at, f"trafficPercentage must add up to {WHOLE}, not {sum(given)}")
