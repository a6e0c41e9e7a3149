"""Components of an Application. Each type is a module with typed parameters, listed in one table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from mizzen.errors import Fault
from mizzen.kinds.application.infrastructure import BucketProperties, ChartProperties, ClusterProperties
from mizzen.kinds.application.predictors import ServingProperties
from mizzen.kinds.application.training import (
    PyTorchJobProperties,
    TFJobProperties,
    TrainingProperties,
    TrainingTaskProperties,
)
from mizzen.kinds.application.traits import Trait
from mizzen.kinds.parts import typed_properties, uniqueness
from mizzen.kinds.parts.typed_properties import ModuleType, TypedPart
from mizzen.kinds.schema.findings import Context, Finding
from mizzen.kinds.schema.resource import name_faults
from mizzen.kinds.schema.size_limits import MaxItems

Family = Literal["training", "serving", "terraform", "helm"]
"""The purpose of a component, which decides which steps can apply it."""


@dataclass(frozen=True, slots=True)
class ComponentType(ModuleType):
    family: Family = "serving"


TYPES: tuple[ComponentType, ...] = (
    ComponentType("tfjob", TFJobProperties, "Trains with TensorFlow.", family="training"),
    ComponentType("pytorchjob", PyTorchJobProperties, "Trains with PyTorch.", family="training"),
    ComponentType(
        "training", TrainingTaskProperties, "Trains with any framework.", ("model-training",), family="training"
    ),
    ComponentType(
        "tfserving", ServingProperties, "Serves versions of models under one name.", ("model-serving",),
        family="serving",
    ),
    ComponentType("helm-chart", ChartProperties, "A release of a Helm chart.", family="helm"),
    ComponentType("k8s-cluster", ClusterProperties, "A Kubernetes cluster.", family="terraform"),
    ComponentType("s3-bucket", BucketProperties, "A bucket for objects.", ("oss-bucket",), family="terraform"),
)  # fmt: skip


class Component(TypedPart):
    """One part of an application, such as a training job, a service or a bucket."""

    noun: ClassVar[str] = "component"
    types: ClassVar[tuple[ModuleType, ...]] = TYPES

    name: str = Field(
        description="The name of the component, unique in the application. A serving component serves this name."
    )
    traits: Annotated[tuple[Trait, ...], MaxItems(256)] = Field(
        (), description="Traits of the component, such as a metrics exporter."
    )
    depends_on: Annotated[tuple[str, ...], MaxItems(256)] = Field(
        (), description="Components that must be healthy before this one is applied, if there is no workflow."
    )
    module: str | None = Field(
        None, min_length=1,
        description="Your own Terraform module, by path or address; `properties` are then its variables.",
    )  # fmt: skip
    deletion_policy: Literal["Keep", "Delete"] = Field(
        "Keep", description="What happens to infrastructure when the object is deleted."
    )

    @property
    def family(self) -> Family | None:
        """None if the type is unknown."""
        known = typed_properties.find(TYPES, self.type)
        return known.family if known else None

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        yield from name_faults(self.name, f"{at}.name")
        yield from uniqueness.name_faults(self.traits, f"{at}.traits", "trait")
        yield from self._infrastructure_faults(at)
        if self.module is not None and self.family == "terraform":
            return  # only the module knows its variables
        yield from super().check(at, context)
        properties = self.readable_properties
        if isinstance(properties, ServingProperties | TrainingProperties):
            so = f"component '{self.name}' stays not ready"
            yield from properties.unrunnable(f"{at}.properties", context, so)

    def _infrastructure_faults(self, at: str) -> Iterator[Fault]:
        if self.module is not None and self.family not in ("terraform", None):
            made = ", ".join(type_.name for type_ in TYPES if type_.family == "terraform")
            yield Fault(f"{at}.module", f"only components that Terraform creates have a module: {made}")
        if "deletion_policy" in self.model_fields_set and self.family in ("training", "serving"):
            yield Fault(
                f"{at}.deletionPolicy", "applies only to infrastructure; this component is deleted with the application"
            )
