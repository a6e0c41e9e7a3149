"""The import of a SeldonDeployment: one MLGraph, or one for each predictor and one that splits among them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from mizzen.errors import Fault
from mizzen.importers import percentages
from mizzen.importers.dag_builder import REQUEST, DagBuilder, MessageSource
from mizzen.importers.dns_labels import join
from mizzen.importers.model_names import GraphContext
from mizzen.importers.notes import CannotImport, ImportNotes
from mizzen.importers.seldon_units import PredictorContext, UnitTree, is_replaced
from mizzen.importers.source_types import PredictiveUnit, SeldonDeploymentSpec, SeldonPredictor, read
from mizzen.kinds.serving import CEILING_MS

PARAMETERS: Final = "PREDICTIVE_UNIT_PARAMETERS"
"""The environment variable in which Seldon passes the parameters of a unit to its container."""
TIMEOUT: Final = "seldon.io/rest-timeout"

_PROTOCOLS: Final = {"": "seldon", "seldon": "seldon", "tensorflow": "v1", "kfserving": "v2", "v2": "v2"}


@dataclass(frozen=True, slots=True)
class PredictorGraph:
    """One MLGraph."""

    name: str
    spec: dict[str, Any]
    labels: dict[str, str]
    annotations: dict[str, str]


def names(name: str, spec: Any) -> tuple[str, ...]:
    """The names of all MLGraphs that `convert` would produce. Raises CannotImport as it does."""
    predictors = read(SeldonDeploymentSpec, spec).predictors
    return (name, *(join(name, each.name) for each in predictors)) if len(predictors) > 1 else (name,)


def convert(spec: Any, caller: GraphContext) -> list[PredictorGraph]:
    """Raises CannotImport if no MLGraph is equivalent to this deployment."""
    name, notes = caller.graph, caller.notes
    deployment = read(SeldonDeploymentSpec, spec)
    notes.left_out("spec", deployment.unknown)
    if deployment.transport == "grpc":
        notes.add("spec.transport", "containers are called over HTTP, not gRPC")
    if deployment.server_type not in ("", "rpc"):
        notes.add(
            "spec.serverType", f"'{deployment.server_type}' has no equivalent; graphs are called over HTTP and gRPC"
        )
    several = len(deployment.predictors) > 1
    made = []
    for index, predictor in enumerate(deployment.predictors):
        graph = join(name, predictor.name) if several else name
        replicas = deployment.replicas if predictor.replicas is None else predictor.replicas
        speaks = _PROTOCOLS[deployment.protocol]
        around = PredictorContext(replace(caller, graph=graph), speaks, _images(predictor), replicas)
        made.append(_PredictorConverter(deployment, predictor, f"spec.predictors[{index}]", around).convert())
    if not several and not deployment.predictors[0].shadow:
        return made
    return [*made, PredictorGraph(name, _split(name, deployment, notes), {}, dict(deployment.annotations))]


@dataclass(frozen=True, slots=True)
class _PredictorConverter:
    """One predictor."""

    deployment: SeldonDeploymentSpec
    predictor: SeldonPredictor
    path: str
    around: PredictorContext

    @property
    def _notes(self) -> ImportNotes:
        return self.around.caller.notes

    def convert(self) -> PredictorGraph:
        predictor, annotations = self.predictor, {**self.deployment.annotations, **self.predictor.annotations}
        self._notes.left_out(self.path, predictor.unknown)
        custom = list(self._custom())
        containers = [container["name"] for pod in custom for container in pod["spec"]["containers"]]
        dag = DagBuilder(self._notes, containers=containers, timeout_ms=self._timeout(annotations))
        UnitTree(dag, self.around).place(predictor.graph, REQUEST, f"{self.path}.graph")
        spec = {**({"custom": custom} if custom else {}), "dag": dag.nodes}
        return PredictorGraph(self.around.caller.graph, spec, dict(predictor.labels), annotations)

    def _custom(self) -> Iterator[dict[str, Any]]:
        units = {unit.name: unit for unit in _all(self.predictor.graph)}
        for index, component in enumerate(self.predictor.component_specs):
            path = f"{self.path}.componentSpecs[{index}]"
            self._notes.left_out(path, component.unknown)
            pod = component.spec.model_dump(by_alias=True, exclude_unset=True)
            kept = []
            for container in pod.get("containers", ()):
                unit = units.get(container["name"])
                if unit is not None and is_replaced(unit, container.get("image", "")):
                    continue
                kept.append(self._container(container, unit, path))
            replicas = self.around.replicas if component.replicas is None else component.replicas
            if kept:
                yield {"spec": {**pod, "containers": kept}, **({} if replicas is None else {"replicas": replicas})}

    def _container(self, container: dict[str, Any], unit: PredictiveUnit | None, path: str) -> dict[str, Any]:
        """The container with the parameters of its unit, passed as Seldon does."""
        env = container.get("env") or []
        if (
            unit is None
            or not unit.parameters
            or any(isinstance(each, Mapping) and each.get("name") == PARAMETERS for each in env)
        ):
            return container
        parameters = [parameter.model_dump(by_alias=True, exclude_unset=True) for parameter in unit.parameters]
        self._notes.add(
            path, f"the parameters of '{unit.name}' are in its environment variable {PARAMETERS}, as in Seldon"
        )
        return {**container, "env": [*env, {"name": PARAMETERS, "value": json.dumps(parameters)}]}

    def _timeout(self, annotations: Mapping[str, str]) -> int | None:
        """The timeout of each call, in milliseconds."""
        path = f"spec.annotations.{TIMEOUT}"
        strange = sorted(key for key in annotations if key.startswith("seldon.io/") and key != TIMEOUT)
        if strange:
            self._notes.add("spec.annotations", f"{', '.join(strange)}: kept, but without effect")
        text = annotations.get(TIMEOUT)
        if text is None:
            return None
        if not re.fullmatch(r"0*[1-9][0-9]{0,9}", text):
            self._notes.add(path, f"{text[:100]!r} is not a number of milliseconds; it has no effect")
            return None
        if int(text) > CEILING_MS:
            self._notes.add(path, f"{text} ms is above the maximum of {CEILING_MS // 1000} s, which applies")
        return min(int(text), CEILING_MS)


def _split(name: str, deployment: SeldonDeploymentSpec, notes: ImportNotes) -> dict[str, Any]:
    """The graph that calls the graphs of the predictors."""
    path = "spec.predictors"
    answering = [each for each in deployment.predictors if not each.shadow]
    if not answering:
        raise CannotImport(Fault(path, "every predictor is a shadow, so none of them answers"))
    if len({each.name for each in deployment.predictors}) < len(deployment.predictors):
        raise CannotImport(Fault(path, "two predictors have the same name"))
    dag = DagBuilder(notes)
    node = dag.add("split", REQUEST, path, route={"split": {}})
    made = {}
    for index, predictor in enumerate(deployment.predictors):
        calls = {"kfservice": join(name, predictor.name)}
        made[predictor.name] = dag.add(predictor.name, MessageSource((node,)), f"{path}[{index}].name", calls=calls)
        if predictor.shadow and predictor.traffic:
            notes.add(f"{path}[{index}].traffic", "a shadow receives a copy of every request")
    split: dict[str, Any] = {}
    traffic = _traffic(answering, notes)
    if traffic is not None:
        split["traffic"] = {made[each.name]: share for each, share in zip(answering, traffic, strict=True)}
    shadows = [made[each.name] for each in deployment.predictors if each.shadow]
    if shadows:
        split["shadow"] = shadows
    dag.set_route(node, {"split": split})
    return {"dag": dag.nodes}


def _traffic(answering: list[SeldonPredictor], notes: ImportNotes) -> list[int] | None:
    given = [each.traffic for each in answering]
    if len(given) == 1:
        return [percentages.WHOLE]
    if not any(given):
        notes.add("spec.predictors", "no predictor has traffic; the split is even")
        return None
    return percentages.round_weights(given, "traffic sums", "spec.predictors", notes)


def _images(predictor: SeldonPredictor) -> dict[str, str]:
    return {container.name: container.image for pod in predictor.component_specs for container in pod.spec.containers}


def _all(unit: PredictiveUnit) -> Iterator[PredictiveUnit]:
    yield unit
    for child in unit.children:
        yield from _all(child)
