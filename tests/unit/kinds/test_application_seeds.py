"""The manifests of ml-platform.md: exactly the outcomes that are promised for them, and their corrected twins."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from mizzen.errors import Fault
from mizzen.kinds import catalog
from mizzen.kinds.application.spec import ApplicationSpec, find_needed_versions, missing_versions_warnings
from mizzen.kinds.schema.findings import Context, Findings, Warn
from mizzen.kinds.schema.resource import Meta, Resource

EXAMPLES = Path(__file__).parents[3] / "examples"
WITH_CONTAINERS = Context(capabilities=frozenset({"containers"}))
WITHOUT_CONTAINERS = Context()
TEMPLATE = "spec.appTemplate.spec"


def _read(path: str) -> dict[str, Any]:
    data: dict[str, Any] = yaml.safe_load((EXAMPLES / path).read_text())
    return data


def _examined(manifest: dict[str, Any], context: Context = WITH_CONTAINERS, **overrides: str) -> Findings:
    name = overrides.get("name", manifest.get("metadata", {}).get("name", ""))
    return catalog.find(manifest["kind"]).examine(name, manifest["spec"], context)


def test_the_initializer_as_printed() -> None:
    found = _examined(_read("seeds/ml-platform/initializer.yaml"))
    assert set(found.faults) == {
        Fault("metadata.name", "required"),
        Fault(
            f"{TEMPLATE}.components[2].properties",
            "unknown field 'create-nmespace'; did you mean 'create-namespace'?",
        ),
        Fault(
            f"{TEMPLATE}.workflows[0].properties.component",
            "no component 'prod-cluster'; did you mean 'prd-cluster'?",
        ),
        Fault(
            f"{TEMPLATE}.workflows[1].properties.component",
            "no component 'prod-cluster'; did you mean 'prd-cluster'?",
        ),
        Fault(f"{TEMPLATE}.workflows[3]", "unknown field 'prooperties'; did you mean 'properties'?"),
    }
    assert found.warnings == (Warn("", "component 'dev-cluster' is applied by no step"),)


def test_the_initializer_with_its_typos_corrected() -> None:
    manifest = _read("seeds/ml-platform/initializer.yaml")
    template = manifest["spec"]["appTemplate"]["spec"]
    chart = template["components"][2]["properties"]
    chart["create-namespace"] = chart.pop("create-nmespace")
    for step in template["workflows"][:2]:
        step["properties"]["component"] = "prd-cluster"
    template["workflows"][3]["properties"] = template["workflows"][3].pop("prooperties")
    found = _examined(manifest, name="ml")
    assert found.faults == ()
    assert [str(warning) for warning in found.warnings] == [
        "steps 'create-prod-cluster' and 'create-dev-cluster' both apply 'prd-cluster'",
        "component 'dev-cluster' is applied by no step; did you mean it in 'create-dev-cluster'?",
    ]


def test_the_application_as_printed() -> None:
    found = _examined(_read("seeds/ml-platform/application.yaml"))
    assert found.faults == (Fault("metadata.name", "required"),)


SAVED = "spec.workflow.steps[2].properties.modelVersion"
READINGS = [
    f"{SAVED}.modelName: 'mymodel-v2' is read as model 'mymodel', version 2",
    f"{SAVED}.imageRepo: 'myrepo/mymodel' differs from 'myhub/mymodel' of component 'my-tfjob'; "
    "the step's value is used",
]
POD = "template.spec.containers[0].image: this engine runs no container images"
IMAGES = [
    f"spec.components[0].properties.tfReplicaSpecs.Worker.{POD}; component 'my-tfjob' stays not ready",
    f"spec.components[1].properties.predictors[0].{POD}; component 'my-tfserving-prod' stays not ready",
    f"spec.components[1].properties.predictors[1].{POD}; component 'my-tfserving-prod' stays not ready",
    f"spec.components[2].properties.predictors[0].{POD}; component 'my-tfserving-dev' stays not ready",
]


@pytest.mark.parametrize(
    ("context", "warnings"), [(WITH_CONTAINERS, READINGS), (WITHOUT_CONTAINERS, [*READINGS, *IMAGES])]
)
def test_the_application_with_a_name(context: Context, warnings: list[str]) -> None:
    found = _examined(_read("seeds/ml-platform/application.yaml"), context, name="mymodel")
    assert found.faults == ()
    assert sorted(map(str, found.warnings)) == sorted(warnings)


def test_the_application_needs_a_version_that_no_step_makes() -> None:
    spec = _spec(_read("seeds/ml-platform/application.yaml"))
    assert find_needed_versions(spec) == (("my-tfserving-prod", "mymodel", "1"),)
    assert [str(warning) for warning in missing_versions_warnings(spec, lambda _model, _version: False)] == [
        "component 'my-tfserving-prod' needs mymodel version 1, which does not exist and which no step makes"
    ]
    assert missing_versions_warnings(spec, lambda model, version: (model, version) == ("mymodel", "1")) == ()


@pytest.mark.parametrize("path", ["ml-platform/initializer.yaml", "ml-platform/application.yaml"])
def test_the_corrected_twins_are_accepted_without_a_word(path: str) -> None:
    manifest = _read(path)
    assert manifest["apiVersion"] == "mizzen.dev/v1alpha1"
    assert _examined(manifest) == Findings()


@pytest.mark.parametrize(
    "path",
    [
        "seeds/model-operator/facialexpression.yaml",
        "seeds/model-operator/trainingmodel.yaml",
        "model-operator/facialexpression.yaml",
        "model-operator/trainingjob.yaml",
    ],
)
def test_the_manifests_of_the_model_operator_are_accepted_without_a_word(path: str) -> None:
    assert _examined(_read(path), WITHOUT_CONTAINERS) == Findings()


def test_reading_a_spec_writes_nothing_into_it() -> None:
    manifest = _read("seeds/ml-platform/application.yaml")
    before = copy.deepcopy(manifest)
    _examined(manifest, name="mymodel")
    find_needed_versions(_spec(manifest))
    assert manifest == before


def _spec(manifest: dict[str, Any]) -> ApplicationSpec:
    return ApplicationSpec.of(Resource("Application", Meta("mymodel"), manifest["spec"]))
