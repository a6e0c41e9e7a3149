"""The fields of KServe and Seldon files that an import uses. Other fields are listed in the notes.

The types are theirs; the converters check what their admission would reject beyond types.
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
from mizzen.kinds.schema.validation_errors import faults_of


class ForeignModel(BaseModel):
    """Strict, like their API servers; unknown fields are kept separately."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, extra="allow", strict=True, defer_build=True)

    @property
    def unknown(self) -> tuple[str, ...]:
        """Unknown fields that are not empty."""
        return tuple(
            name for name, value in (self.model_extra or {}).items() if value not in ({}, [], "") and value is not False
        )


T = TypeVar("T", bound=ForeignModel)


def read(model: type[T], spec: Any) -> T:
    """Raises CannotImport, which lists all values of a wrong type. A null counts as absent, as in Kubernetes."""
    if not isinstance(spec, Mapping):
        raise CannotImport(Fault("spec", "required" if spec is None else "must be an object"))
    try:
        return model.model_validate_json(json.dumps(without_nulls(spec)))
    except ValidationError as error:
        raise CannotImport(*faults_of(error, "spec")) from error


class GraphStep(ForeignModel):
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
    """Not needed: nodes always exchange tensors here."""

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
        """Whether it uses the response of the step before; otherwise it receives the input of its node."""
        return self.data == "$response"


class Router(ForeignModel):
    """One node of an InferenceGraph."""

    router_type: Literal["Sequence", "Splitter", "Ensemble", "Switch"]
    steps: tuple[GraphStep, ...] = ()


class RouterTimeouts(ForeignModel):
    service_client: int | None = None


class InferenceGraphSpec(ForeignModel):
    nodes: dict[str, Router]
    timeout: int | None = None
    router_timeouts: RouterTimeouts = RouterTimeouts()


class Parameter(ForeignModel):
    name: str
    value: Any = None
    type: str = ""


class UnitEndpoint(ForeignModel):
    service_host: str = Field(default="", alias="service_host")
    service_port: int = Field(default=0, alias="service_port")
    http_port: int = 0
    type: str = ""


def _upper(value: Any) -> Any:
    return value.upper() if isinstance(value, str) else value


class PredictiveUnit(ForeignModel):
    """One unit in the tree of a predictor."""

    name: str = Field(min_length=1)
    children: tuple[PredictiveUnit, ...] = ()
    type: Annotated[
        Literal["UNKNOWN_TYPE", "ROUTER", "COMBINER", "MODEL", "TRANSFORMER", "OUTPUT_TRANSFORMER"],
        BeforeValidator(_upper),
    ] = "UNKNOWN_TYPE"
    implementation: str = ""
    methods: tuple[str, ...] = ()
    endpoint: UnitEndpoint = UnitEndpoint()
    parameters: tuple[Parameter, ...] = ()
    model_uri: str = ""

    def parameter(self, name: str) -> Any:
        return next((parameter.value for parameter in self.parameters if parameter.name == name), None)


class SeldonContainer(ForeignModel):
    """A container of a pod; its other fields are passed on."""

    name: str
    image: str = ""


class SeldonPodSpec(ForeignModel):
    containers: tuple[SeldonContainer, ...] = ()


class ComponentSpec(ForeignModel):
    """A pod with containers that implement units."""

    metadata: dict[str, Any] = Field(default_factory=dict)
    spec: SeldonPodSpec = SeldonPodSpec()
    replicas: int | None = None


class SeldonPredictor(ForeignModel):
    name: str = Field(min_length=1)
    graph: PredictiveUnit
    component_specs: tuple[ComponentSpec, ...] = ()
    replicas: int | None = None
    annotations: dict[str, str] = Field(default_factory=dict)
    labels: dict[str, str] = Field(default_factory=dict)
    traffic: int = Field(0, ge=0)
    shadow: bool = False


class SeldonDeploymentSpec(ForeignModel):
    predictors: tuple[SeldonPredictor, ...] = Field(min_length=1)
    name: str = ""
    """A legacy name of the deployment, which is not used."""
    annotations: dict[str, str] = Field(default_factory=dict)
    protocol: Literal["", "seldon", "tensorflow", "kfserving", "v2"] = ""
    transport: str = ""
    server_type: str = ""
    replicas: int | None = None
