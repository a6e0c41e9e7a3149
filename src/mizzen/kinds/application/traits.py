"""Traits: what is attached to a component, such as an exporter of its metrics."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from mizzen.kinds.parts.typed_properties import Type, Typed
from mizzen.kinds.schema.resource import Part
from mizzen.kinds.schema.size_limits import Most


class Metrics(Part):
    endpoint: str | None = Field(
        None, description="Where metrics are sent. Absent: what the plane is configured with; else they stay local."
    )
    labels: Annotated[dict[str, str], Most(256)] = Field(
        default_factory=dict, description="Labels added to every sample."
    )


class Logging(Part):
    endpoint: str | None = Field(
        None, description="Where logs are sent. Absent: what the plane is configured with; else they stay local."
    )
    labels: Annotated[dict[str, str], Most(256)] = Field(
        default_factory=dict, description="Labels added to every line."
    )


TYPES: tuple[Type, ...] = (
    Type("metrics", Metrics, "Exports the component's metrics."),
    Type("logging", Logging, "Sends the component's logs to a sink."),
    Type("arms-metrics", Metrics, "Exports the component's metrics to ARMS; local while no endpoint is configured."),
    Type("arms-logging", Logging, "Sends the component's logs to ARMS; local while no endpoint is configured."),
)


class Trait(Typed):
    noun: ClassVar[str] = "trait"
    types: ClassVar[tuple[Type, ...]] = TYPES

    name: str | None = Field(None, description="A name of one's own for it; its type by default.")
