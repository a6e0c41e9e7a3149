"""Traits of a component, such as a metrics exporter."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from mizzen.kinds.parts.typed_properties import ModuleType, TypedPart
from mizzen.kinds.schema.resource import Part
from mizzen.kinds.schema.size_limits import MaxItems


class ExportProperties(Part):
    endpoint: str | None = Field(
        None, description="Where to send them. Default: as in the plane's settings; without one, they stay local."
    )
    labels: Annotated[dict[str, str], MaxItems(256)] = Field(
        default_factory=dict, description="Labels to add to every sample or line."
    )


TYPES: tuple[ModuleType, ...] = (
    ModuleType("metrics", ExportProperties, "Exports the component's metrics."),
    ModuleType("logging", ExportProperties, "Sends the component's logs to a sink."),
    ModuleType(
        "arms-metrics",
        ExportProperties,
        "Exports the component's metrics to ARMS; local while no endpoint is configured.",
    ),
    ModuleType(
        "arms-logging", ExportProperties, "Sends the component's logs to ARMS; local while no endpoint is configured."
    ),
)


class Trait(TypedPart):
    noun: ClassVar[str] = "trait"
    types: ClassVar[tuple[ModuleType, ...]] = TYPES

    name: str | None = Field(None, description="The name of the trait. Default: its type.")
