from __future__ import annotations

from typing import Any

import pytest

from mizzen.kinds.text import expressions
from mizzen.kinds.text.expressions import Combination, ConstantValue, EqualityTest, FieldPath, Not
from tests.unit.kinds.applications import SERVE, SERVING, TRAIN, TRAINING, faults, pause, warnings, workflow

STEPS = "spec.workflow.steps"
SAVE = {"name": "save", "type": "ml-model-checkpoint", "properties": {"modelVersion": "mymodel-v2"}}
UNUSED = {"component 'serve-it' is applied by no step", "component 'train-it' is applied by no step"}


def _train(**properties: Any) -> dict[str, Any]:
    return {**TRAIN, "properties": {**TRAIN["properties"], **properties}}  # type: ignore[dict-item]


def _serve(**properties: Any) -> dict[str, Any]:
    return {**SERVE, "properties": {**SERVE["properties"], **properties}}  # type: ignore[dict-item]


def _save(**properties: Any) -> dict[str, Any]:
    return {**SAVE, "properties": {**SAVE["properties"], **properties}}  # type: ignore[dict-item]


@pytest.mark.parametrize(
    "spec",
    [
        workflow(TRAIN, SAVE, SERVE),
        workflow(TRAIN, _save(**{"from": "train"}), SERVE),
        workflow(_train(dataset={"s3": {"bucket": "bucket-url"}}), SERVE),
        workflow(_train(dataset={"path": "/data"}), SERVE),
        workflow(TRAIN, pause("ok", timeout="1h", properties={"duration": "5m", "approvers": ["ann"]}), SERVE),
        workflow(TRAIN, {**SERVE, "dependsOn": ["train"], "retry": {"limit": 3, "interval": "10s"}}),
        workflow(TRAIN, {**SERVE, "dependsOn": ["train-it"]}),
        workflow({**SERVE, "dependsOn": ["train"]}, TRAIN, mode={"steps": "DAG"}),
        workflow({"name": "both", "type": "step-group", "subSteps": [{**SERVE, "dependsOn": ["train"]}, TRAIN]}),
        workflow({**TRAIN, "outputs": [{"name": "score", "valueFrom": "status.score"}]},
                 {**SERVE, "inputs": [{"from": "score", "parameterKey": "env"}]}),
        workflow(TRAIN, {**SERVE, "if": "status.train.succeeded && !(inputs.x == 'no')"},
                 pause("tell", **{"if": "always"}), onFailure="suspend"),
        workflow(TRAIN, SERVE, {**SERVE, "name": "prod", "properties": {"component": "serve-it", "env": "prod"}}),
        workflow({**TRAIN, "type": "apply-component"}, {**SERVE, "type": "apply-component",
                                                        "properties": {"component": "serve-it"}}),
    ],
)  # fmt: skip
def test_what_is_accepted(spec: dict[str, Any]) -> None:
    assert warnings(spec) == []


@pytest.mark.parametrize(
    ("spec", "path", "message"),
    [
        (workflow(pause("a"), {"name": "b", "type": "suspent"}), f"{STEPS}[1].type",
         "no step type 'suspent'; did you mean 'suspend'?"),
        (workflow({**TRAIN, "properties": {"component": "train-at"}}), f"{STEPS}[0].properties.component",
         "no component 'train-at'; did you mean 'train-it'?"),
        (workflow({**TRAIN, "properties": {"component": "x"}}), f"{STEPS}[0].properties.component",
         "no component 'x'; components are train-it, serve-it"),
        (workflow({**TRAIN, "properties": {}}), f"{STEPS}[0].properties.component", "required"),
        (workflow({**TRAIN, "properties": {"component": "serve-it"}}), f"{STEPS}[0].properties.component",
         "component 'serve-it' is of type tfserving; this step needs tfjob, pytorchjob, training"),
        (workflow({**TRAIN, "propertys": {}, "properties": {"component": "train-it"}}), f"{STEPS}[0]",
         "unknown field 'propertys'; did you mean 'properties'?"),
        (workflow(_serve(env="staging")), f"{STEPS}[0].properties.env", "no env 'staging'; envs are dev, prod"),
        (workflow(pause("a"), pause("a")), f"{STEPS}[1].name", "'a' is already the name of another step"),
        (workflow({"type": "suspend"}), f"{STEPS}[0].name", "required"),
        (workflow(pause("a", dependsOn=["b"])), f"{STEPS}[0].dependsOn[0]", "no step 'b'; steps are a"),
        (workflow(pause("wait-a"), pause("b", dependsOn=["wait-b"])), f"{STEPS}[1].dependsOn[0]",
         "no step 'wait-b'; did you mean 'wait-a'?"),
        (workflow(pause("a", dependsOn=["b"]), pause("b")), f"{STEPS}[0].dependsOn[0]",
         "step 'b' comes later, and the steps run one after another (mode StepByStep)"),
        (workflow(pause("a", dependsOn=["b"]), pause("b", dependsOn=["a"]), mode={"steps": "DAG"}),
         f"{STEPS}[0].dependsOn", "'a', 'b' wait for each other"),
        (workflow(pause("a", dependsOn=["a"])), f"{STEPS}[0].dependsOn", "'a' waits for itself"),
        (workflow({"name": "g", "type": "step-group", "subSteps": [pause("a", dependsOn=["g"])]}),
         f"{STEPS}[0].dependsOn", "'g', 'a' wait for each other"),
        (workflow({"name": "g", "type": "step-group", "subSteps": [pause("a", dependsOn=["b"]), pause("b")]},
                  mode={"subSteps": "StepByStep"}), f"{STEPS}[0].subSteps[0].dependsOn[0]",
         "step 'b' comes later, and the steps run one after another (mode StepByStep)"),
        (workflow({"name": "g", "type": "step-group"}), f"{STEPS}[0].subSteps", "required in a step-group"),
        (workflow(pause("a", subSteps=[pause("b")])), f"{STEPS}[0].subSteps", "only possible in a step-group"),
        (workflow({"name": "g", "type": "step-group", "subSteps": [{"name": "h", "type": "step-group"}]}),
         f"{STEPS}[0].subSteps[0].type", "a group within a group is not allowed"),
        (workflow(pause("a", inputs=[{"from": "x", "parameterKey": "y"}])), f"{STEPS}[0].inputs[0].from",
         "no output 'x'; none is possible here"),
        (workflow(pause("a", outputs=[{"name": "o", "valueFrom": "x"}, {"name": "o", "valueFrom": "y"}])),
         f"{STEPS}[0].outputs[1].name", "'o' is already the name of another output"),
        (workflow(pause("a", timeout="1 hour")), f"{STEPS}[0].timeout",
         "'1 hour' is not a valid duration; expected a text such as 30s, 5m, 1h30m or 2d"),
        (workflow(pause("a", properties={"duration": "soon"})), f"{STEPS}[0].properties.duration",
         "'soon' is not a valid duration; expected a text such as 30s, 5m, 1h30m or 2d"),
        (workflow(pause("a", retry={"limit": -1})), f"{STEPS}[0].retry.limit", "must be at least 0, not -1"),
        (workflow(pause("a"), mode={"steps": "Dag"}), "spec.workflow.mode.steps",
         "'Dag' is not a valid value; did you mean 'DAG'?"),
        (workflow(pause("a"), onFailure="stop"), "spec.workflow.onFailure",
         "'stop' is not a valid value; values are terminate, suspend"),
        (workflow(), STEPS, "must have at least 1 entry"),
        (workflow(SAVE), f"{STEPS}[0].properties.from",
         "no earlier step is of type ml-model-training, so there is nothing to save"),
        (workflow(TRAIN, _save(**{"from": "trian"})), f"{STEPS}[1].properties.from",
         "no step 'trian'; did you mean 'train'?"),
        (workflow(TRAIN, pause("a"), _save(**{"from": "a"})), f"{STEPS}[2].properties.from",
         "step 'a' is not an earlier step of type ml-model-training"),
        (workflow(TRAIN, _save(modelVersion="mymodel@stable")), f"{STEPS}[1].properties.modelVersion",
         "a new version needs a version, not an alias"),
        (workflow(TRAIN, _save(modelVersion={"modelName": "My Model", "version": "1"})),
         f"{STEPS}[1].properties.modelVersion.modelName",
         "'My Model' is not a valid name; expected lower-case letters, digits and '-', at most 63, such as 'my-model'"),
    ],
)  # fmt: skip
def test_what_is_refused(spec: dict[str, Any], path: str, message: str) -> None:
    assert faults(spec) == {path: message}


def test_a_dataset_needs_a_source() -> None:
    assert list(faults(workflow(_train(dataset={})))) == [f"{STEPS}[0].properties.dataset"]


def test_a_component_that_no_step_applies_is_a_warning_only_where_there_are_steps() -> None:
    assert set(warnings(workflow(pause("a")))) == UNUSED
    assert warnings({"components": [TRAINING, SERVING]}) == []


def test_two_steps_that_apply_one_component() -> None:
    steps = [{"name": name, "type": "apply-component", "properties": {"component": "train-it"}} for name in "abc"]
    assert warnings(workflow(*steps[:2], SERVE)) == ["steps 'a' and 'b' both apply 'train-it'"]
    assert warnings(workflow(*steps, SERVE)) == ["steps 'a', 'b' and 'c' all apply 'train-it'"]


def test_only_a_model_name_with_a_version_at_its_end_is_explained() -> None:
    at = f"{STEPS}[1].properties.modelVersion.modelName"
    assert warnings(workflow(TRAIN, _save(modelVersion={"modelName": "m-v007"}), SERVE)) == [
        f"{at}: 'm-v007' is read as model 'm', version 7"
    ]
    for plain in ("m-v7", {"modelName": "m"}, {"modelName": "m-v7", "version": "1"}):
        assert warnings(workflow(TRAIN, _save(modelVersion=plain), SERVE)) == []


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        ("status.train.faild", "a step has no 'faild'; did you mean 'failed'?"),
        ("status.trian.failed", "no step 'trian'; did you mean 'train'?"),
        ("status.train", "'status.train' is neither status.<step>.<field> nor inputs.<name>"),
        ("on failure", "'on' is neither status.<step>.<field> nor inputs.<name>"),
        ("status.train.failed &&", "it ends unexpectedly"),
        ("(status.train.failed", "')' is missing"),
        ("status.train.failed status.train.failed", "did not expect 'status'"),
        ("status.train.phase = 'failed'", "cannot read \"= 'failed'\""),
        ("", "it ends unexpectedly"),
        ("(" * 100, "brackets are nested more than 40 deep"),
        ("!" * 3000, "it has 3000 characters; at most 2000 are allowed"),
    ],
)
def test_a_condition_that_cannot_be_judged_is_a_warning(condition: str, why: str) -> None:
    assert warnings(workflow(TRAIN, {**SERVE, "if": condition})) == [f"{STEPS}[1].if: {why}; the step would be skipped"]


def test_conditions_are_read_with_the_usual_precedence() -> None:
    failed, score = FieldPath(("status", "my-step", "failed")), FieldPath(("inputs", "score"))
    assert expressions.parse("status.my-step.failed") == failed
    assert expressions.parse('status["my-step"].failed') == failed
    assert expressions.parse("!!status.my-step.failed") == failed
    assert expressions.parse("inputs.score == 3 || !status.my-step.failed && true") == Combination(
        "||", (EqualityTest(score, True, ConstantValue(3)), Combination("&&", (Not(failed), ConstantValue(True))))
    )
    assert expressions.parse('(inputs.score != "a\\"b" || false)&&\'c\'') == Combination(
        "&&",
        (
            Combination("||", (EqualityTest(score, False, ConstantValue('a"b')), ConstantValue(False))),
            ConstantValue("c"),
        ),
    )
