from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from mizzen.kinds.application.initializer import InitializerSpec
from mizzen.kinds.schema.resource import Meta, Resource
from tests.unit.kinds import applications
from tests.unit.kinds.applications import pause

EXAMPLE = Path(__file__).parents[3] / "examples/ml-platform/initializer.yaml"
AT = "spec.appTemplate.spec"
BUCKET = {"name": "bucket", "type": "s3-bucket", "properties": {"provider": "local", "bucket": "ml-example"}}
STEP = {"name": "make", "type": "terraform-apply", "properties": {"component": "bucket"}}


def _initializer(**template: Any) -> dict[str, Any]:
    return {"appTemplate": {"spec": {"components": [BUCKET], **template}}}


def faults(spec: Any) -> dict[str, str]:
    return applications.faults(spec, kind="Initializer")


def warnings(spec: Any) -> list[str]:
    return applications.warnings(spec, kind="Initializer")


@pytest.mark.parametrize(
    "spec",
    [
        _initializer(),
        _initializer(workflows=[STEP]),
        _initializer(workflow={"steps": [STEP]}),
        {**_initializer(), "dependsOn": [{"ref": "base"}, {"ref": {"kind": "Initializer", "name": "net"}}]},
        {**_initializer(), "dependsOn": [{"ref": {"name": "it", "namespace": "other"}}]},
    ],
)
def test_what_is_accepted(spec: dict[str, Any]) -> None:
    assert warnings(spec) == []


@pytest.mark.parametrize(
    ("spec", "path", "message"),
    [
        ({}, "spec.appTemplate", "required"),
        (_initializer(workflows=[STEP], workflow={"steps": [STEP]}), f"{AT}.workflows",
         "the steps are already in workflow: set only one of the two"),
        (_initializer(workflows=[]), f"{AT}.workflows", "must have at least 1 entry"),
        (_initializer(workflows=[{**STEP, "type": "helm-apply"}]), f"{AT}.workflows[0].properties.component",
         "component 'bucket' is of type s3-bucket; this step needs helm-chart"),
        (_initializer(workflows=[STEP, pause("a", dependsOn=["mke"])]), f"{AT}.workflows[1].dependsOn[0]",
         "no step 'mke'; did you mean 'make'?"),
        (_initializer(workflow={"steps": [{"name": "make", "type": "terraform-apply", "prooperties": {}}]}),
         f"{AT}.workflow.steps[0]", "unknown field 'prooperties'; did you mean 'properties'?"),
        ({**_initializer(), "dependsOn": [{"ref": "it"}]}, "spec.dependsOn[0].ref", "'it' waits for itself"),
        ({**_initializer(), "dependsOn": [{"ref": {"kind": "Application", "name": "a"}}]},
         "spec.dependsOn[0].ref.kind", "'Application' is not a valid value; values are Initializer"),
    ],
)  # fmt: skip
def test_what_is_refused(spec: dict[str, Any], path: str, message: str) -> None:
    assert faults(spec) == {path: message}


def test_an_application_does_not_take_a_list_of_workflows() -> None:
    assert applications.faults({"components": [BUCKET], "workflows": [STEP]}) == {
        "spec": "unknown field 'workflows'; did you mean 'workflow'?"
    }


def test_both_forms_have_the_same_steps() -> None:
    plain = yaml.safe_load(EXAMPLE.read_text())["spec"]
    listed = {"appTemplate": {"spec": {**plain["appTemplate"]["spec"]}}}
    listed["appTemplate"]["spec"]["workflows"] = listed["appTemplate"]["spec"].pop("workflow")["steps"]
    steps = [
        [
            one.step
            for one in InitializerSpec.of(Resource("Initializer", Meta("x"), spec)).app_template.spec.step_positions()
        ]
        for spec in (plain, listed)
    ]
    assert steps[0] == steps[1]
    assert len(steps[0]) == 4
