"""InferenceModel."""

# ruff: noqa: E501 - in tables, one example is one line

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mizzen.kinds import catalog
from mizzen.kinds.schema.findings import Context
from mizzen.kinds.schema.resource import Meta, Resource
from mizzen.kinds.serving import InferenceModelSpec
from tests.unit.kinds.examined import EVERYTHING, faults, warnings

SUM = 64 * "0"
SMALL: dict[str, Any] = {"modelName": "iris", "deployToLayer": "cloud", "frameworkType": "sklearn"}
THREE = {"version": "3", "downloadURL": "http://host/3.tar.gz", "sha256sum": SUM}
FOUR = {"version": "4", "downloadURL": "s3://bucket/4.tar.gz", "sha256sum": SUM}
TENSOR = {"name": "y", "datatype": "INT64", "shape": [1], "data": [0]}

FACIALEXPRESSION: dict[str, Any] = {
    "modelName": "facialexpression",
    "deployToLayer": "edge",
    "frameworkType": "tensorflow",
    "image": "",
    "nodeSelector": {"kubernetes.io/hostname": "precision-5820"},
    "nodeName": "precision-5820",
    "manifest": [
        {
            "version": "3",
            "downloadURL": "http://192.168.1.15/model_emotion_3.tar.gz",
            "sha256sum": "dec87e2f3c06e60e554acac0b2b80e394c616b0ecdf878fab7f04fd414a66eff",
        },
        {
            "version": "4",
            "downloadURL": "http://192.168.1.15/model_emotion_4.tar.gz",
            "sha256sum": "108a433a941411217e5d4bf9f43a262d0247a14c35ccbf677f63ba3b46ae6285",
        },
    ],
    "targetVersion": "4",
    "servingPort": 8501,
    "replicas": 1,
}

EVERY_FIELD: dict[str, Any] = SMALL | {
    "targetVersion": "v3", "nodeSelector": {"disk": "fast"}, "nodeName": "one", "servingPort": 0, "replicas": 2,
    "extraNames": ["flowers"], "checkpoint": "step-100", "autoScale": {"minReplicas": 1, "maxReplicas": 3, "target": 4},
    "batching": {"batchSize": "auto", "timeoutSeconds": 0.01}, "cache": {"maxBytes": 1000}, "timeoutMs": 100,
    "defaultOutput": [TENSOR], "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}],
    "outputs": [{"name": "y", "datatype": "INT64", "shape": [-1]}], "gpu": 0.5,
    "resources": {"cpu": 0.5, "memory": "1Gi", "threads": 2}, "env": [{"name": "A", "value": "1"}],
    "idempotent": True, "feedback": {"maxBytes": 1, "maxAge": "1h"}, "switch": "replace",
    "template": {"spec": {"containers": [{"name": "main", "image": "i"}]}},
}  # fmt: skip


def test_the_seed_is_accepted_without_a_word() -> None:
    findings = catalog.find("im").examine("facialexpression", FACIALEXPRESSION, Context(name="facialexpression"))
    assert (findings.faults, findings.warnings) == ((), ())
    spec = InferenceModelSpec.of(Resource("InferenceModel", Meta("facialexpression"), FACIALEXPRESSION))
    assert (spec.target_version, spec.image, spec.manifest[1].version) == ("4", "", "4")


def test_every_field_at_once() -> None:
    assert warnings("InferenceModel", EVERY_FIELD) == set()
    unset = {info.alias for info in InferenceModelSpec.model_fields.values()} - set(EVERY_FIELD)
    assert unset == {"image", "manifest", "followAlias"}


@pytest.mark.parametrize(
    ("field", "default"),
    [("cache", {"maxBytes": 32 * 2**20}), ("feedback", {"maxBytes": 256 * 2**20, "maxAge": "24h"}),
     ("batching", {"batchSize": 64})],
)  # fmt: skip
@pytest.mark.parametrize("given_", [None, {}])
def test_a_key_that_is_there_turns_it_on(field: str, default: dict[str, Any], given_: object) -> None:
    spec = SMALL | {field: given_}
    assert warnings("InferenceModel", spec) == set()
    assert InferenceModelSpec.model_validate(spec).wire()[field] == default
    assert field not in InferenceModelSpec.model_validate(SMALL).wire()


@pytest.mark.parametrize(
    "fields",
    [
        {"targetVersion": ""},
        {"targetVersion": "prod", "followAlias": True},
        {"followAlias": True},
        {"manifest": [THREE]},
        {"manifest": [THREE, FOUR], "targetVersion": "v004"},
        {"manifest": [THREE | {"sha256sum": SUM.replace("0", "F")}]},
        {"servingPort": 65535, "replicas": 0},
        {"gpu": 2},
        {"gpu": 1},
        {"batching": {"batchSize": 32}},
        {"autoScale": {"maxReplicas": 1}},
        {"autoScale": {"minReplicas": 0, "maxReplicas": 1, "quietSeconds": 10}},
    ],
)
def test_what_is_fine(fields: dict[str, Any]) -> None:
    assert warnings("InferenceModel", SMALL | fields) == set()


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"deployToLayer": "Edge"}, "spec.deployToLayer: 'Edge' is not a valid value; did you mean 'edge'?"),
        ({"deployToLayer": "fog"}, "spec.deployToLayer: 'fog' is not a valid value; values are cloud, edge"),
        ({"nodeName": "a.b"}, "spec.nodeName: 'a.b' is not a valid name; expected lower-case letters, digits and '-', at most 63"),
        ({"nodeSelector": {"a": 1}}, "spec.nodeSelector.a: must be a text; quote it: '1'"),
        ({"manifest": [THREE, FOUR]}, "spec.targetVersion: required, because the manifest has several versions: 3, 4"),
        ({"manifest": [THREE, FOUR], "targetVersion": "5"}, "spec.targetVersion: no version 5 in the manifest; "
        "versions are 3, 4"),
        ({"manifest": [THREE, THREE | {"version": "v3"}], "targetVersion": "3"}, "spec.manifest[1].version: version 3 "
        "is given twice"),
        ({"manifest": [{"version": "3", "sha256sum": SUM}]}, "spec.manifest[0].downloadURL: required"),
        ({"manifest": [{"downloadURL": "http://h/a", "sha256sum": SUM}]}, "spec.manifest[0].version: required"),
        ({"manifest": [{"version": "3", "downloadURL": "http://h/a"}]}, "spec.manifest[0].sha256sum: required, unless "
        "insecureSkipVerify is true"),
        ({"manifest": [THREE | {"sha256sum": "12"}]}, "spec.manifest[0].sha256sum: must be the sha256 of the content: "
        "64 hexadecimal digits"),
        ({"manifest": [{"version": "3", "downloadUrl": "http://h/a", "sha256sum": SUM}]}, "spec.manifest[0]: unknown "
        "field 'downloadUrl'; did you mean 'downloadURL'?"),
        ({"manifest": [THREE | {"downloadURL": "ftp://h/a"}]}, "spec.manifest[0].downloadURL: is not a valid URL; "
        "expected http:// or https:// or s3:// or file://"),
        ({"targetVersion": "latest"}, "spec.targetVersion: 'latest' is reserved and cannot name a version"),
        ({"targetVersion": "3", "followAlias": True}, "spec.followAlias: targetVersion 3 is a version, not an alias, "
        "so there is nothing to follow"),
        ({"servingPort": -1}, "spec.servingPort: must be at least 0, not -1"),
        ({"servingPort": 65536}, "spec.servingPort: must be at most 65535, not 65536"),
        ({"replicas": -1}, "spec.replicas: must be at least 0, not -1"),
        ({"replicas": 1.5}, "spec.replicas: must be a whole number, not 1.5"),
        ({"extraNames": ["iris"]}, "spec.extraNames[0]: 'iris' is already its own name"),
        ({"extraNames": ["a", "a"]}, "spec.extraNames[1]: 'a' is given twice"),
        ({"extraNames": ["a:b"]}, "spec.extraNames[0]: 'a:b' is not a valid name; expected lower-case letters, digits and '-', at "
        "most 63"),
        ({"autoScale": {"minReplicas": 3, "maxReplicas": 2}}, "spec.autoScale.minReplicas: 3 is above maxReplicas, "
        "which is 2"),
        ({"autoScale": None}, "spec.autoScale.maxReplicas: required"),
        ({"autoScale": {"maxReplicas": 2, "target": 0}}, "spec.autoScale.target: must be at least 1, not 0"),
        ({"autoScale": {"maxReplicas": 2, "minReplicas": -1}}, "spec.autoScale.minReplicas: must be at least 0, not "
        "-1"),
        ({"autoScale": {"maxReplicas": 2, "quietSeconds": 0}}, "spec.autoScale.quietSeconds: must be at least 1, not "
        "0"),
        ({"batching": {"batchSize": "auto"}}, "spec.batching.batchSize: 'auto' needs spec.timeoutMs, the latency "
        "limit"),
        ({"batching": {"batchSize": "x"}}, "spec.batching.batchSize: must be a whole number from 1 to 4096, or 'auto'"),
        ({"batching": {"batchSize": 0}}, "spec.batching.batchSize: must be a whole number from 1 to 4096, or 'auto'"),
        ({"batching": {"batchSize": True}}, "spec.batching.batchSize: must be a whole number from 1 to 4096, or "
        "'auto'"),
        ({"batching": {"timeoutSeconds": -1}}, "spec.batching.timeoutSeconds: must be at least 0, not -1"),
        ({"cache": {"maxBytes": 0}}, "spec.cache.maxBytes: must be at least 1, not 0"),
        ({"timeoutMs": 60_001}, "spec.timeoutMs: must be at most 60000, not 60001"),
        ({"defaultOutput": []}, "spec.defaultOutput: must have at least 1 entry"),
        ({"defaultOutput": [TENSOR, TENSOR]}, "spec.defaultOutput[1].name: 'y' is already the name of another tensor"),
        ({"defaultOutput": [TENSOR | {"data": [0.5]}]}, "spec.defaultOutput[0].data: 0.5 is not of type INT64"),
        ({"defaultOutput": [TENSOR], "outputs": [{"name": "yes", "datatype": "INT64", "shape": [1]}]}, "spec.defaultOutput[0].name: no output 'y'; outputs are yes"),
        ({"defaultOutput": [TENSOR | {"shape": [2], "data": [1, 2]}], "outputs": [{"name": "y", "datatype": "INT64", "shape": [-1]}]}, "spec.defaultOutput[0].shape: must be [1], the shape of the output for one row"),
        ({"defaultOutput": [TENSOR], "outputs": [{"name": "y", "datatype": "INT64", "shape": [-1, 2]}]}, "spec.defaultOutput[0].shape: must be [1, 2], the shape of the output for one row"),
        ({"defaultOutput": [TENSOR | {"datatype": "UINT8", "data": [256]}]}, "spec.defaultOutput[0].data: 256 is not "
        "of type UINT8"),
        ({"defaultOutput": [TENSOR | {"datatype": "FP16", "data": [1e5]}]}, "spec.defaultOutput[0].data: 100000.0 is "
        "not of type FP16"),
        ({"defaultOutput": [TENSOR | {"datatype": "FP64", "data": [float("nan")]}]}, "spec.defaultOutput[0].data: nan "
        "is not of type FP64"),
        ({"cache": None, "idempotent": False}, "spec.cache: requires spec.idempotent, because a "
         "cached response skips the model"),
        ({"defaultOutput": [TENSOR], "outputs": [{"name": "y", "datatype": "FP32", "shape": [1]}]}, "spec.defaultOutput[0].datatype: must be FP32, the type of the output"),
        ({"inputs": 2 * [{"name": "y", "datatype": "FP32", "shape": [1]}]}, "spec.inputs[1].name: 'y' is already the name of another tensor"),
        ({"gpu": 0}, "spec.gpu: must be above 0, not 0"),
        ({"gpu": 1.5}, "spec.gpu: 1.5 is not valid; expected a share of one device (up to 1), or a number of whole "
        "devices"),
        ({"resources": {"cpu": "lots"}}, "spec.resources.cpu: 'lots' is not a valid quantity; expected a text such as 2, 0.5, 500m, 512Mi or "
        "4Gi"),
        ({"resources": {"memory": "500m"}}, "spec.resources.memory: '500m' is less than a byte"),
        ({"resources": {"cpus": 2}}, "spec.resources: unknown field 'cpus'; did you mean 'cpu'?"),
        ({"feedback": {"maxAge": "soon"}}, "spec.feedback.maxAge: 'soon' is not a valid duration; expected a text such as 30s, 5m, 1h30m or "
        "2d"),
        ({"switch": "swap"}, "spec.switch: 'swap' is not a valid value; values are overlap, replace"),
        ({"idempotent": "yes"}, "spec.idempotent: must be true or false, not 'yes'"),
        ({"template": {}}, "spec.template.spec: required"),
        ({"env": [{"name": "A", "value": "1"}] * 2}, "spec.env[1].name: 'A' is already the name of another variable"),
    ],
)  # fmt: skip
def test_what_is_wrong(fields: dict[str, Any], fault: str) -> None:
    assert faults("InferenceModel", SMALL | fields) == {fault}


@pytest.mark.parametrize(
    ("fields", "warning"),
    [
        ({"image": "repo/i", "manifest": [THREE, FOUR], "targetVersion": "9"}, "spec.image: manifest and "
        "targetVersion are ignored, because an image is given"),
        ({"image": "repo/i", "targetVersion": "1"}, "spec.image: targetVersion is ignored, because an image is given"),
        ({"manifest": [THREE], "followAlias": True, "checkpoint": "c"}, "spec.manifest: followAlias and checkpoint "
        "are ignored, because a manifest is given"),
        ({"manifest": [{"version": "3", "downloadURL": "http://h/a", "insecureSkipVerify": True}]}, "spec.manifest[0].insecureSkipVerify: the archive is served without being verified"),
        ({"deployToLayer": "edge", "replicas": 3}, "spec.replicas: the edge runs one process, not 3"),
        ({"deployToLayer": "edge", "autoScale": {"maxReplicas": 3}}, "spec.autoScale: ignored: the edge runs one "
        "process"),
        ({"replicas": 20, "autoScale": {"maxReplicas": 3}}, "spec.replicas: starts with 3: autoScale allows 1 to 3"),
        ({"autoScale": {"minReplicas": 0, "maxReplicas": 3, "standby": 2}}, "spec.autoScale.standby: 2 replicas keep running "
        "while idle, which is more than minReplicas"),
        ({"frameworkType": "pytorhc"}, "spec.frameworkType: unknown framework 'pytorhc'; did you mean 'pytorch'?"),
    ],
)  # fmt: skip
def test_what_is_odd(fields: dict[str, Any], warning: str) -> None:
    assert warnings("InferenceModel", SMALL | fields) == {warning}


def test_what_an_engine_lacks_is_odd_only() -> None:
    template = {"spec": {"containers": [{"name": "main", "image": "i"}]}}
    spec = SMALL | {"image": "repo/i", "gpu": 0.5, "template": template}
    assert warnings("InferenceModel", spec, Context()) == {
        "spec.image: this engine runs no container images; 'iris' stays not ready",
        "spec.template.spec.containers[0].image: this engine runs no container images; 'iris' stays not ready",
        "spec.gpu: this engine has no GPUs; it stays not ready",
    }
    assert warnings("InferenceModel", spec, EVERYTHING) == set()


def test_what_people_must_say_and_stored_objects_may_lack() -> None:
    assert faults("InferenceModel", {}) == {
        "spec.modelName: required", "spec.deployToLayer: required", "spec.frameworkType: required",
    }  # fmt: skip
    assert faults("InferenceModel", {"modelName": "iris", "deployTolayer": "edge", "frameworkType": "sklearn"}) == {
        "spec: unknown field 'deployTolayer'; did you mean 'deployToLayer'?"
    }
    kind = catalog.BY_NAME["InferenceModel"]
    assert kind.examine("iris-1", {"modelName": "iris", "targetVersion": "1"}, strict=False).faults == ()


def test_all_faults_at_once() -> None:
    spec = {
        "modelName": "iris", "deployToLayer": "moon", "manifest": [{"version": "0"}, THREE, THREE], "replicas": -1,
        "batching": {"batchSize": "auto"}, "extraNames": ["a", "a"], "nonsense": 1, "servingPort": "x",
    }  # fmt: skip
    assert faults("InferenceModel", spec, name="Not A Name") == {
        "metadata.name: 'Not A Name' is not a valid name; expected lower-case letters, digits and '-', at most 63, such as 'my-model'",
        "spec: unknown field 'nonsense'; valid are "
        "" + ", ".join(str(i.alias) for i in InferenceModelSpec.model_fields.values()),
        "spec.deployToLayer: 'moon' is not a valid value; values are cloud, edge",
        "spec.frameworkType: required",
        "spec.manifest[0].version: version numbers start at 1",
        "spec.manifest[0].downloadURL: required",
        "spec.manifest[0].sha256sum: required, unless insecureSkipVerify is true",
        "spec.manifest[2].version: version 3 is given twice",
        "spec.targetVersion: required, because the manifest has several versions: 3",
        "spec.batching.batchSize: 'auto' needs spec.timeoutMs, the latency limit",
        "spec.replicas: must be at least 0, not -1",
        "spec.servingPort: must be a whole number, not 'x'",
        "spec.extraNames[1]: 'a' is given twice",
    }  # fmt: skip


names = st.sampled_from([str(info.alias) for info in InferenceModelSpec.model_fields.values()])
junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names | st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(names, junk))
def test_no_spec_is_too_odd_to_be_examined(spec: dict[str, Any]) -> None:
    if not catalog.BY_NAME["InferenceModel"].examine("iris", spec).faults:
        InferenceModelSpec.of(Resource("InferenceModel", Meta("iris"), spec))
