from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mizzen.kinds import catalog
from mizzen.kinds.application import components, policies, steps, traits
from mizzen.kinds.application.spec import ApplicationSpec, find_needed_versions
from mizzen.kinds.parts.typed_properties import ModuleType, find
from mizzen.kinds.schema.findings import Context
from mizzen.kinds.schema.resource import Meta, Part, Resource
from tests.unit.kinds.applications import (
    SERVE,
    SERVING,
    TEMPLATE,
    TRAIN,
    TRAINING,
    component,
    faults,
    serving,
    warnings,
    workflow,
)

PROPERTIES = "spec.components[0].properties"
CLUSTER = {"provider": "alibaba", "resource": "ACK", "version": "v1.20"}
CHART = {"repo": "https://charts.example", "chart": "kubeflow"}
BUCKET = {"provider": "local", "bucket": "ml-example"}
REPLICAS = {"Worker": {"template": TEMPLATE}}


@pytest.mark.parametrize(
    "spec",
    [
        component("tfjob", {"tfReplicaSpecs": REPLICAS}),
        component("pytorchjob", {"pytorchReplicaSpecs": {"Master": {}}, "command": ["python", "train.py"]}),
        component("training", {"framework": "sklearn", "command": ["python", "train.py"], "replicas": 2}),
        component("model-training", {"image": "t:1", "framework": "tensorflow",
                                     "storage": [{"name": "my-pvc", "mountPath": "/model"}]}),
        component("model-serving", {"protocol": "tensorflow", "timeout": "10000",
                                    "customRouting": {"header": "style: transfer", "serviceName": "other"},
                                    "predictors": [{"name": "m", "graph": {"name": "my-model", "modelUri": "pvc://x",
                                                    "implementation": "tensorflow"}}]}),
        component("helm-chart", CHART),
        component("helm-chart", {"chart": "oci://charts.example/kubeflow"}),
        component("k8s-cluster", CLUSTER),
        component("k8s-cluster", {"provider": "existing", "kubeconfig": "/etc/kube/config"}),
        component("s3-bucket", BUCKET),
        component("oss-bucket", {"provider": "alibaba", "bucket": "ml-example"}, deletionPolicy="Delete"),
        component("k8s-cluster", {"nodes": 3}, module="./modules/cluster"),
        component("tfserving", SERVING["properties"], traits=[{"type": "metrics", "properties": None},
                                                              {"type": "arms-logging", "name": "logs"}]),
        {"components": [SERVING], "policies": [{"type": "keep-dev", "name": "keep"}]},
        {"components": [{**SERVING, "dependsOn": ["train-it"]}, TRAINING]},
    ],
)  # fmt: skip
def test_what_is_accepted(spec: dict[str, Any]) -> None:
    assert warnings(spec) == []


@pytest.mark.parametrize(
    ("spec", "path", "message"),
    [
        (component("tfjbo", {}), "spec.components[0].type", "no component type 'tfjbo'; did you mean 'tfjob'?"),
        (component("tfjob", {"tfReplicaSpec": REPLICAS}), PROPERTIES,
         "unknown field 'tfReplicaSpec'; did you mean 'tfReplicaSpecs'?"),
        (component("tfjob", {"tfReplicaSpecs": {}, "command": ["x"]}), f"{PROPERTIES}.tfReplicaSpecs",
         "has no replicas; at least 1 is needed"),
        (component("tfjob", {"tfReplicaSpecs": {"Worker": {}}}), PROPERTIES,
         "has nothing to run: set command, or templates of the replicas"),
        (component("tfjob", {"tfReplicaSpecs": REPLICAS, "modelVersion": "m@stable"}), f"{PROPERTIES}.modelVersion",
         "a new version needs a version, not an alias"),
        (component("training", {}), PROPERTIES,
         "has nothing to run: set image, command, or templates of the replicas"),
        (component("training", {"image": "t", "replicas": 1, "replicaSpecs": REPLICAS}), f"{PROPERTIES}.replicas",
         "replicaSpecs has the same meaning; set only one of them"),
        (component("training", {"image": "t", "replicas": 0}), f"{PROPERTIES}.replicas",
         "has no replicas; at least 1 is needed"),
        (component("helm-chart", {"chart": "kubeflow"}), f"{PROPERTIES}.repo",
         "required, since the chart is neither a URL nor a path"),
        (component("k8s-cluster", {"provider": "alibaba"}), f"{PROPERTIES}.resource",
         "required with provider 'alibaba'; valid are ACK, ASK"),
        (component("k8s-cluster", {"provider": "alibba", "resource": "ACK"}), f"{PROPERTIES}.provider",
         "'alibba' is not a valid value; did you mean 'alibaba'?"),
        (component("k8s-cluster", {"provider": "existing"}), f"{PROPERTIES}.kubeconfig",
         "required with provider 'existing'"),
        (component("k8s-cluster", {"provider": "existing", "kubeconfig": "apiVersion: v1\nusers: []"}),
         f"{PROPERTIES}.kubeconfig", "must be a path: a manifest must not contain credentials"),
        (component("tfjob", {"tfReplicaSpecs": REPLICAS}, module="./m"), "spec.components[0].module",
         "only components that Terraform creates have a module: k8s-cluster, s3-bucket"),
        (component("tfjob", {"tfReplicaSpecs": REPLICAS}, deletionPolicy="Keep"), "spec.components[0].deletionPolicy",
         "applies only to infrastructure; this component is deleted with the application"),
        (component("s3-bucket", BUCKET, traits=[{"type": "metric"}]), "spec.components[0].traits[0].type",
         "no trait type 'metric'; did you mean 'metrics'?"),
        (component("s3-bucket", BUCKET, traits=[{"type": "metrics", "name": "a"}, {"type": "logging", "name": "a"}]),
         "spec.components[0].traits[1].name", "'a' is already the name of another trait"),
        ({"components": [SERVING], "policies": [{"type": "keepdev"}]}, "spec.policies[0].type",
         "no policy type 'keepdev'; did you mean 'keep-dev'?"),
        ({"components": [SERVING, SERVING]}, "spec.components[1].name", "'serve-it' is already the name of another "
        "component"),
        ({"components": [{**SERVING, "dependsOn": ["serve-at"]}]}, "spec.components[0].dependsOn[0]",
         "no component 'serve-at'; did you mean 'serve-it'?"),
        ({"components": [{**SERVING, "dependsOn": ["train-it"]}, {**TRAINING, "dependsOn": ["serve-it"]}]},
         "spec.components[0].dependsOn", "'serve-it', 'train-it' wait for each other"),
        ({"components": [{**SERVING, "dependsOn": ["serve-it"]}]}, "spec.components[0].dependsOn",
         "'serve-it' waits for itself"),
        ({"components": [{**SERVING, "name": None}]}, "spec.components[0].name", "must be a text; quote it: 'None'"),
        ({"components": []}, "spec.components", "must have at least 1 entry"),
        ({}, "spec.components", "required"),
    ],
)  # fmt: skip
def test_what_is_refused(spec: dict[str, Any], path: str, message: str) -> None:
    assert faults(spec) == {path: message}


def test_a_bucket_name_that_no_provider_takes_is_refused() -> None:
    (path,) = faults(component("s3-bucket", {"provider": "aws", "bucket": "ml"}))
    assert path == f"{PROPERTIES}.bucket"


def test_all_faults_are_reported_at_once() -> None:
    spec = {
        "components": [
            {"type": "helm-chart", "properties": {"chart": 3, "repo": "x", "create-nmespace": True}},
            {"name": "Bad", "type": "tfservin", "properties": {}},
            {"name": "b", "type": "s3-bucket", "properties": {"bucket": "fine"}, "trait": []},
        ],
        "workflow": {"steps": [{"type": "suspend"}, {"name": "s", "type": "helm-apply"}], "onFailure": "suspent"},
        "policys": [],
    }
    assert set(faults(spec)) == {
        "spec", "spec.components[0].name", "spec.components[0].properties", "spec.components[0].properties.chart",
        "spec.components[1].name", "spec.components[1].type", "spec.components[2]",
        "spec.components[2].properties.provider", "spec.workflow.steps[0].name",
        "spec.workflow.steps[1].properties.component", "spec.workflow.onFailure",
    }  # fmt: skip


def test_stored_properties_may_hold_what_we_do_not_know() -> None:
    stored = component("helm-chart", {**CHART, "fromTheFuture": 1})
    valid = "repo, chart, version, namespace, create-namespace, values"
    assert faults(stored) == {PROPERTIES: f"unknown field 'fromTheFuture'; valid are {valid}"}
    assert catalog.find("app").examine("it", stored, strict=False).faults == ()


def test_what_an_engine_lacks_is_only_a_warning() -> None:
    so = "this engine runs no container images; component 'it' stays not ready"
    assert warnings(component("training", {"image": "t:1"}), Context()) == [f"{PROPERTIES}.image: {so}"]
    (warning,) = warnings(serving({"gpu": 0.5}), Context())
    assert warning.startswith(f"{PROPERTIES}.predictors[0].gpu: this engine has no GPUs")


class TestPredictors:
    AT = f"{PROPERTIES}.predictors"

    @pytest.mark.parametrize(
        "given",
        [
            [{}],
            [{"trafficPercentage": 100}],
            [{}, {}, {}],
            [{"trafficPercentage": 90}, {"trafficPercentage": 10}],
            [{"trafficPercent": 50}, {"trafficWeight": 30}, {"traffic": 20}],
            [{"trafficPercentage": 100}, {"trafficPercentage": 0}],
            [{}, {"shadow": True}],
        ],
    )  # fmt: skip
    def test_shares(self, given: list[dict[str, Any]]) -> None:
        assert (faults(serving(*given)), warnings(serving(*given))) == ({}, [])

    @pytest.mark.parametrize(
        ("given", "path", "message"),
        [
            ([{"trafficPercentage": 90}], AT, "trafficPercentage must add up to 100, not 90"),
            ([{"trafficPercentage": 90}, {"trafficPercentage": 20}], AT,
             "trafficPercentage must add up to 100, not 110"),
            ([{"trafficPercentage": 100}, {}], f"{AT}[1].trafficPercentage", "required, since other predictors have "
            "one"),
            ([{"trafficPercentage": 101}], f"{AT}[0].trafficPercentage", "must be at most 100, not 101"),
            ([{"shadow": True}], AT, "all predictors are shadows; at least one must answer"),
            ([{}, {"shadow": True, "trafficPercentage": 50}], f"{AT}[1].trafficPercentage",
             "'p1' is a shadow, which has no share of the traffic"),
            ([{}, {"shadow": True, "traffic": 0}], f"{AT}[1].trafficPercentage",
             "'p1' is a shadow, which has no share of the traffic"),
            ([{"trafficPercent": 90, "trafficPercentage": 100}], f"{AT}[0]",
             "both 'trafficPercent' and 'trafficPercentage' are given; they are the same field"),
            ([{"traffic": 90, "trafficWeight": 100}], f"{AT}[0]",
             "both 'traffic' and 'trafficWeight' are given; they are the same field"),
            ([{"name": "a"}, {"name": "a"}], f"{AT}[1].name", "'a' is already the name of another predictor"),
            ([{"modelVersion": None}], f"{AT}[0].modelVersion", "required"),
            ([{"graph": {"name": "m", "modelUri": "s3://x"}}], f"{AT}[0].modelVersion",
             "not possible together with graph; set only one"),
            ([{"modelVersion": "My Model"}], f"{AT}[0].modelVersion",
             "'My Model' is not a valid reference; expected name, name:version or name@alias"),
            ([{"modelVersion": {"modelName": "m", "version": "1", "alias": "a"}}], f"{AT}[0].modelVersion",
             "may have a version or an alias, not both"),
            ([{"autoScale": {"minReplicas": 3, "maxReplicas": 2}}], f"{AT}[0].autoScale.minReplicas",
             "3 is above maxReplicas, which is 2"),
            ([{"deployToLayer": "egde"}], f"{AT}[0].deployToLayer", "'egde' is not a valid value; did you mean "
            "'edge'?"),
            ([{"batching": {"batchSize": "auto"}}], f"{AT}[0].batching.batchSize",
             f"'auto' needs {PROPERTIES}.timeout, the latency limit"),
            ([{"replica": 2}], f"{AT}[0]", "unknown field 'replica'; did you mean 'replicas'?"),
            ([], AT, "must have at least 1 entry"),
        ],
    )  # fmt: skip
    def test_what_is_refused(self, given: list[dict[str, Any]], path: str, message: str) -> None:
        assert faults(serving(*given)) == {path: message}

    @given(st.lists(st.integers(0, 100), min_size=1, max_size=8))
    def test_shares_are_accepted_exactly_when_they_make_a_whole(self, shares: list[int]) -> None:
        spec = serving(*({"trafficPercentage": share} for share in shares))
        assert (faults(spec) == {}) == (sum(shares) == 100)

    def test_metrics_of_another_autoscaler_are_read_with_a_warning(self) -> None:
        scale = {"minReplicas": 1, "maxReplicas": 2, "metrics": [{"type": "cpu"}]}
        assert warnings(serving({"autoscaler": scale})) == [
            f"{self.AT}[0].autoScale.metrics: not used: replicas follow the requests in flight"
        ]


class TestNeededVersions:
    def _needed(self, spec: dict[str, Any]) -> list[str]:
        typed = ApplicationSpec.of(Resource("Application", Meta("it"), spec))
        return [f"{component}:{model}:{version}" for component, model, version in find_needed_versions(typed)]

    @pytest.mark.parametrize("written", ["mymodel-v1", "mymodel:1", "mymodel:v001", {"modelName": "mymodel-v1"},
                                         {"modelName": "mymodel", "version": "v1"}])  # fmt: skip
    def test_text_and_object_mean_the_same(self, written: Any) -> None:
        assert self._needed(serving({"modelVersion": written})) == ["serve-it:mymodel:1"]

    @pytest.mark.parametrize("written", ["mymodel", "mymodel@stable", {"modelName": "mymodel", "alias": "stable"}])
    def test_the_current_version_or_an_alias_is_no_certain_version(self, written: Any) -> None:
        assert self._needed(serving({"modelVersion": written})) == []

    def test_a_model_may_really_be_called_so_when_a_version_is_given_as_well(self) -> None:
        written = {"modelName": "mymodel-v2", "version": "7"}
        assert self._needed(serving({"modelVersion": written})) == ["serve-it:mymodel-v2:7"]

    def test_training_makes_the_next_number_unless_a_later_checkpoint_names_the_model(self) -> None:
        save = {"name": "save", "type": "ml-model-checkpoint", "properties": {"modelVersion": "mymodel-v2"}}
        assert self._needed({"components": [TRAINING, SERVING]}) == []
        assert self._needed(workflow(TRAIN, SERVE)) == []
        assert self._needed(workflow(TRAIN, save, SERVE)) == ["serve-it:mymodel:1"]
        save = {**save, "properties": {"modelVersion": "mymodel-v1"}}
        assert self._needed(workflow(TRAIN, save, SERVE)) == []

    def test_a_component_that_no_step_applies_needs_nothing(self) -> None:
        assert self._needed(workflow(TRAIN)) == []


@pytest.mark.parametrize("table", [components.TYPES, steps.TYPES, traits.TYPES, policies.TYPES])
def test_every_type_and_every_parameter_is_documented(table: tuple[ModuleType, ...]) -> None:
    names = [name for type_ in table for name in (type_.name, *type_.aliases)]
    assert len(set(names)) == len(names)
    for type_ in table:
        assert type_.description.endswith("."), type_.name
        assert all(find(table, name) is type_ for name in (type_.name, *type_.aliases))
        _all_described(type_.properties)


def _all_described(part: type[Part]) -> None:
    for name, field in part.model_fields.items():
        assert field.description, f"{part.__name__}.{name}"
        for inner in _parts(field.annotation):
            _all_described(inner)


def _parts(annotation: Any) -> Iterator[type[Part]]:
    if isinstance(annotation, type) and issubclass(annotation, Part):
        yield annotation
    for argument in get_args(annotation):
        yield from _parts(argument)
