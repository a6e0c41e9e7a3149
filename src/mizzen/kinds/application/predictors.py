"""Predictors: what a serving component runs, and how requests are split among them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field

from mizzen.errors import Fault
from mizzen.kinds.application.version_reference import WrittenVersionRef
from mizzen.kinds.parts import uniqueness
from mizzen.kinds.parts.pods import PodTemplate, unrunnable_images
from mizzen.kinds.schema.findings import Context, Finding, Warn
from mizzen.kinds.schema.resource import Part, Present, name_faults
from mizzen.kinds.schema.size_limits import MaxItems
from mizzen.kinds.serving import AutoScale, Batching, Layer
from mizzen.kinds.text import durations
from mizzen.kinds.text.quantities import Gpu, gpu_warning

WHOLE = 100


class PredictorScale(AutoScale):
    """Scales replicas with the requests in flight."""

    metrics: Annotated[tuple[dict[str, Any], ...], MaxItems(1000)] = Field(
        (), description="Accepted for compatibility with other platforms, but not used."
    )

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        yield from super().check(at, context)
        if self.metrics:
            yield Warn(f"{at}.metrics", "not used: replicas follow the requests in flight")


class GraphRef(Part):
    """A model by its files, as in KubeVela's model-serving."""

    name: str = Field(description="The name of the model.")
    implementation: str | None = Field(None, description="The framework of the model.")
    model_uri: str = Field(description="The location of its files.")


class Predictor(Part):
    """One version of a model, with its replicas and its share of the component's requests."""

    synonyms: ClassVar[dict[str, str]] = {
        "trafficPercent": "trafficPercentage", "trafficWeight": "trafficPercentage", "traffic": "trafficPercentage",
        "autoscaler": "autoScale",
    }  # fmt: skip

    name: str = Field(description="The name of the predictor within the component.")
    model_version: WrittenVersionRef | None = Field(
        None, description="The version to serve: `mymodel-v1`, or an object."
    )
    graph: GraphRef | None = Field(None, description="The model by its files, in place of `modelVersion`.")
    replicas: int = Field(1, ge=0, description="The number of replicas; with `autoScale`, the initial number.")
    traffic_percentage: int | None = Field(None, ge=0, le=WHOLE, description="Its percentage of the requests.")
    auto_scale: Annotated[PredictorScale | None, Present] = Field(
        None, description="Scale the number of replicas with the requests in flight."
    )
    batching: Annotated[Batching | None, Present] = Field(None, description="The batching of requests.")
    template: PodTemplate | None = Field(None, description="The pod to run, if the engine runs containers.")
    deploy_to_layer: Layer = Field("cloud", description="The layer to run in: `cloud` or `edge`.")
    gpu: Gpu | None = Field(
        None, description="The GPUs of each replica: a share of one, such as 0.5, or a number of whole GPUs."
    )
    shadow: bool = Field(False, description="Receives copies of requests; its responses are dropped.")

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        yield from name_faults(self.name, f"{at}.name")
        if (self.model_version is None) == (self.graph is None) and context.was_read(at, "modelVersion", "graph"):
            yield Fault(
                f"{at}.modelVersion",
                "required" if self.graph is None else "not possible together with graph; set only one",
            )
        if self.shadow and self.traffic_percentage is not None:
            yield Fault(f"{at}.trafficPercentage", f"'{self.name}' is a shadow, which has no share of the traffic")
        yield from gpu_warning(self.gpu, f"{at}.gpu", context)


def _milliseconds(text: str) -> str:
    if not re.fullmatch(r"[0-9]{1,12}", text):
        durations.seconds(text)
    return text


class CustomRouting(Part):
    """Takes over requests of another component that have a given header."""

    header: str = Field(description="The header, as `name: value`.", pattern=r"^[!-9;-~]+:.*$")
    service_name: str = Field(description="The component whose requests to take over.")


class ServingProperties(Part):
    """Serves versions of models under the component's name."""

    predictors: Annotated[tuple[Predictor, ...], MaxItems(256)] = Field(
        min_length=1, description="The predictors and their shares of the requests."
    )
    protocol: str | None = Field(
        None, description="Accepted for compatibility with other platforms; all protocols are always supported."
    )
    timeout: Annotated[str, AfterValidator(_milliseconds)] | None = Field(
        None, description="The deadline of a request: milliseconds, or a duration such as `10s`."
    )
    custom_routing: CustomRouting | None = Field(None, description="Takes over another component's requests by header.")

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        yield from uniqueness.name_faults(self.predictors, f"{at}.predictors", "predictor")
        yield from _share_faults(self.predictors, f"{at}.predictors", context)
        for index, one in enumerate(self.predictors):
            automatic = one.batching is not None and one.batching.batch_size == "auto"
            if automatic and self.timeout is None and context.was_read(at, "timeout"):
                path = f"{at}.predictors[{index}].batching.batchSize"
                yield Fault(path, f"'auto' needs {at}.timeout, the latency limit")

    def unrunnable(self, at: str, context: Context, so: str) -> Iterator[Warn]:
        for index, predictor in enumerate(self.predictors):
            if predictor.template:
                place = f"{at}.predictors[{index}].template.spec"
                yield from unrunnable_images(predictor.template.spec, place, context, so)


def _share_faults(predictors: Sequence[Predictor], at: str, context: Context) -> Iterator[Fault]:
    if not all(context.was_read(f"{at}[{index}]", "shadow", "trafficPercentage") for index in range(len(predictors))):
        return
    answering = [(index, one.traffic_percentage) for index, one in enumerate(predictors) if not one.shadow]
    if not answering:
        yield Fault(at, "all predictors are shadows; at least one must answer")
        return
    given = [share for _, share in answering if share is not None]
    if not given:
        return
    for index, share in answering:
        if share is None:
            yield Fault(f"{at}[{index}].trafficPercentage", "required, since other predictors have one")
    if len(given) == len(answering) and sum(given) != WHOLE:
        yield Fault(at, f"trafficPercentage must add up to {WHOLE}, not {sum(given)}")
