"""What files of KServe and Seldon hold, as far as it means something here. Fields that are not named go to the notes.

Types are theirs; what their admission would refuse beyond types is judged by whoever reads it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from mizzen.errors import Fault
from mizzen.importers.notes import CannotImport
from mizzen.kinds.graph.last_applied import without_nulls
from mizzen.kinds.schema.findings import faults_of


class Foreign(BaseModel):
    """Strict, as their API servers are; what is not known is kept apart."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, extra="allow", strict=True, defer_build=True)

    @property
    def unknown(self) -> tuple[str, ...]:
        """Fields that hold something and that nothing is read from."""
        return tuple(
            name for name, value in (self.model_extra or {}).items() if value not in ({}, [], "") and value is not False
        )


T = TypeVar("T", bound=Foreign)


def read(model: type[T], spec: Any) -> T:
    """CannotImport names all that is of a wrong type. A null is as if it were not there, as it is to them."""
    if not isinstance(spec, Mapping):
        raise CannotImport(Fault("spec", "required" if spec is None else "must be an object"))
    try:
        return model.model_validate_json(json.dumps(without_nulls(spec)))
    except ValidationError as error:
        raise CannotImport(*faults_of(error, "spec")) from error


class Step(Foreign):
    """One step of a node of an InferenceGraph."""

    name: str = ""
    service_name: str = ""
    service_url: str = ""
    node_name: str = ""
    data: str = ""
    weight: int | None = None
    condition: str = ""
    dependency: Literal["", "Soft", "Hard"] = ""
    map_predictions_to_instances: bool = False
    """What goes from node to node here are tensors, so it is always done."""

    @property
    def target(self) -> str:
        return self.service_name or self.service_url or self.node_name

    @property
    def called(self) -> str:
        return self.name or self.target

    @property
    def hard(self) -> bool:
        return self.dependency == "Hard"

    @property
    def takes_answer(self) -> bool:
        """Of the step before; otherwise it gets what its node got."""
        return self.data == "$response"


class Router(Foreign):
    """One node of an InferenceGraph."""

    router_type: Literal["Sequence", "Splitter", "Ensemble", "Switch"]
    steps: tuple[Step, ...] = ()


class RouterTimeouts(Foreign):
    service_client: int | None = None


class InferenceGraphSpec(Foreign):
    nodes: dict[str, Router]
    timeout: int | None = None
    router_timeouts: RouterTimeouts = RouterTimeouts()


class Parameter(Foreign):
    name: str
    value: Any = None
    type: str = ""


class Endpoint(Foreign):
    service_host: str = Field(default="", alias="service_host")
    service_port: int = Field(default=0, alias="service_port")
    http_port: int = 0
    type: str = ""


def _upper(value: Any) -> Any:
    return value.upper() if isinstance(value, str) else value


class Unit(Foreign):
    """One unit in the tree of a predictor."""

    name: str = Field(min_length=1)
    children: tuple[Unit, ...] = ()
    type: Annotated[
        Literal["UNKNOWN_TYPE", "ROUTER", "COMBINER", "MODEL", "TRANSFORMER", "OUTPUT_TRANSFORMER"],
        BeforeValidator(_upper),
    ] = "UNKNOWN_TYPE"
    implementation: str = ""
    methods: tuple[str, ...] = ()
    endpoint: Endpoint = Endpoint()
    parameters: tuple[Parameter, ...] = ()
    model_uri: str = ""

    def parameter(self, name: str) -> Any:
        return next((parameter.value for parameter in self.parameters if parameter.name == name), None)


class ContainerNamed(Foreign):
    """A container of a pod, the rest of which is passed on."""

    name: str
    image: str = ""


class PodNamed(Foreign):
    containers: tuple[ContainerNamed, ...] = ()


class Component(Foreign):
    """A pod whose containers back units."""

    metadata: dict[str, Any] = Field(default_factory=dict)
    spec: PodNamed = PodNamed()
    replicas: int | None = None


class Predictor(Foreign):
    name: str = Field(min_length=1)
    graph: Unit
    component_specs: tuple[Component, ...] = ()
    replicas: int | None = None
    annotations: dict[str, str] = Field(default_factory=dict)
    labels: dict[str, str] = Field(default_factory=dict)
    traffic: int = Field(0, ge=0)
    shadow: bool = False


class SeldonDeploymentSpec(Foreign):
    predictors: tuple[Predictor, ...] = Field(min_length=1)
    name: str = ""
    """An old name of the deployment, which nobody reads."""
    annotations: dict[str, str] = Field(default_factory=dict)
    protocol: Literal["", "seldon", "tensorflow", "kfserving", "v2"] = ""
    transport: str = ""
    server_type: str = ""
    replicas: int | None = None
