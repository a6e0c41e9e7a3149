"""Model and ModelVersion."""

# ruff: noqa: E501 - in tables, one example is one line

from __future__ import annotations

from typing import Any

import pytest

from mizzen.kinds import catalog
from mizzen.kinds.model import ModelSpec, ModelStatus, ModelVersionSpec
from mizzen.kinds.schema.findings import Context
from mizzen.kinds.schema.resource import Meta, Resource
from mizzen.kinds.text.frameworks import FRAMEWORKS
from tests.unit.kinds.examined import faults, warnings

TENSOR = {"name": "x", "datatype": "FP64", "shape": [1, 2], "data": [[1, 2.5]]}
SPEC_OF_TENSOR = {"name": "x", "datatype": "FP64", "shape": [-1, 2]}
SECRET = {"name": "ci", "key": "key"}

MODEL: dict[str, Any] = {
    "framework": "sklearn",
    "track": "latest",
    "aliases": {"prod": "v3", "beta": "1.0.2"},
    "checks": {
        "signature": {"inputs": [SPEC_OF_TENSOR], "outputs": [SPEC_OF_TENSOR]},
        "golden": [{"name": "one", "inputs": [TENSOR], "outputs": [TENSOR], "tolerance": 0.01}],
        "disagreement": {"limit": 0.05, "samples": 50},
        "latency": {"limitMs": 20, "percentile": 95},
    },
    "hooks": [
        {"on": ["created", "failed"], "command": ["notify", "--all"], "timeoutSeconds": 5},
        {"on": ["activated", "rolled-back"], "webhook": {"url": "https://ci/hook", "secret": SECRET}},
    ],
}


def test_a_model_with_everything() -> None:
    assert warnings("Model", MODEL) == set()
    assert ModelSpec.of(Resource("Model", Meta("iris"), MODEL)).aliases == {"prod": "3", "beta": "1.0.2"}
    assert warnings("Model", {}) == set()
    assert warnings("Model", {"aliasOf": "wine:v2", "framework": "sklearn"}) == set()


ALIAS_RULE = "lower-case letters, digits and '-', at most 63"


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ({"framework": "Scikit Learn"}, "spec.framework: 'Scikit Learn' is not a framework name; expected a "
        "lower-case word such as sklearn, xgboost, lightgbm"),
        ({"track": "newest"}, "spec.track: 'newest' is not a valid value; values are manual, latest"),
        ({"aliases": {"v3": "3"}}, "spec.aliases: 'v3' is a version, not an alias"),
        ({"aliases": {"12": "3"}}, "spec.aliases: '12' is a version, not an alias"),
        ({"aliases": {"latest": "3"}}, "spec.aliases: 'latest' is reserved and cannot name an alias"),
        ({"aliases": {"a.b": "3"}}, f"spec.aliases: 'a.b' is not a valid alias; expected {ALIAS_RULE}"),
        ({"aliases": {"prod": "current"}}, "spec.aliases.prod: 'current' is reserved and cannot name a version"),
        ({"aliases": {"prod": 3}}, "spec.aliases.prod: must be a text; quote it: '3'"),
        ({"aliasOf": "wine@prod"}, "spec.aliasOf: 'wine@prod' refers to an alias; expected name or name:version"),
        ({"aliasOf": "iris:2"}, "spec.aliasOf: names the model itself"),
        ({"aliasOf": "wine", "track": "latest"}, "spec.track: not possible together with aliasOf: a second name has "
        "no versions of its own"),
        ({"aliasOf": "wine", "aliases": {"a": "1"}}, "spec.aliases: not possible together with aliasOf: a second name "
        "has no versions of its own"),
        ({"aliasOf": "wine", "checks": {}}, "spec.checks: not possible together with aliasOf: a second name has no "
        "versions of its own"),
        ({"chekcs": {}}, "spec: unknown field 'chekcs'; did you mean 'checks'?"),
        ({"checks": {"signature": {}}}, "spec.checks.signature: needs inputs or outputs"),
        ({"checks": {"signature": {"inputs": [SPEC_OF_TENSOR, SPEC_OF_TENSOR]}}}, "spec.checks.signature.inputs[1].name: 'x' is already the name of another tensor"),
        ({"checks": {"signature": {"inputs": [SPEC_OF_TENSOR | {"shape": [-2]}]}}}, "spec.checks.signature.inputs[0].shape[0]: must be at least -1, not -2"),
        ({"checks": {"signature": {"inputs": [SPEC_OF_TENSOR | {"datatype": "FLOAT"}]}}}, "spec.checks.signature.inputs[0].datatype: 'FLOAT' is not a valid value; values are BOOL, UINT8, UINT16, UINT32, UINT64, INT8, INT16, INT32, INT64, FP16, FP32, FP64, BYTES"),
        ({"checks": {"golden": [{"inputs": [TENSOR]}]}}, "spec.checks.golden[0].outputs: required"),
        ({"checks": {"golden": [{"inputs": [TENSOR], "outputs": []}]}}, "spec.checks.golden[0].outputs: must have at "
        "least 1 entry"),
        ({"checks": {"golden": [{"inputs": [TENSOR | {"data": [1]}], "outputs": [TENSOR]}]}}, "spec.checks.golden[0].inputs[0].data: has 1 elements; shape needs 2"),
        ({"checks": {"golden": [{"inputs": [TENSOR | {"data": ["1", 2]}], "outputs": [TENSOR]}]}}, "spec.checks.golden[0].inputs[0].data: '1' is not of type FP64"),
        ({"checks": {"golden": [{"inputs": [TENSOR | {"shape": [-1, 2]}], "outputs": [TENSOR]}]}}, "spec.checks.golden[0].inputs[0].shape[0]: must be at least 0, not -1"),
        ({"checks": {"disagreement": {"limit": 5}}}, "spec.checks.disagreement.limit: must be at most 1, not 5"),
        ({"checks": {"disagreement": {}}}, "spec.checks.disagreement.limit: required"),
        ({"checks": {"latency": {"limitMs": 0}}}, "spec.checks.latency.limitMs: must be above 0, not 0"),
        ({"hooks": [{"on": ["created"]}]}, "spec.hooks[0]: one of command, webhook is required"),
        ({"hooks": [MODEL["hooks"][0] | {"on": []}]}, "spec.hooks[0].on: must have at least 1 entry"),
        ({"hooks": [MODEL["hooks"][0] | {"on": ["created", "created"]}]}, "spec.hooks[0].on[1]: 'created' is given "
        "twice"),
        ({"hooks": [MODEL["hooks"][0] | {"on": ["activted"]}]}, "spec.hooks[0].on[0]: 'activted' is not a valid value; did "
        "you mean 'activated'?"),
        ({"hooks": [{**MODEL["hooks"][0], **MODEL["hooks"][1]}]}, "spec.hooks[0]: only one of command, webhook may be "
        "set, not command and webhook"),
        ({"hooks": [{"on": ["failed"], "command": []}]}, "spec.hooks[0].command: must not be empty"),
        ({"hooks": [{"on": ["failed"], "webhook": {"url": "https://ci"}}]}, "spec.hooks[0].webhook.secret: required"),
        ({"hooks": [{"on": ["failed"], "webhook": {"url": "ci", "secret": SECRET}}]}, "spec.hooks[0].webhook.url: is "
        "not a valid URL; expected http:// or https://"),
        ({"hooks": [MODEL["hooks"][0] | {"timeoutSeconds": 0}]}, "spec.hooks[0].timeoutSeconds: must be above 0, not "
        "0"),
    ],
)  # fmt: skip
def test_a_model_that_is_wrong(spec: dict[str, Any], fault: str) -> None:
    assert faults("Model", spec) == {fault}


def test_a_framework_nobody_knows_is_odd_only() -> None:
    assert warnings("Model", {"framework": "tensorflw"}) == {
        "spec.framework: unknown framework 'tensorflw'; did you mean 'tensorflow'?"
    }
    assert warnings("Model", {"framework": "cobol"}) == {
        f"spec.framework: unknown framework 'cobol'; known are {', '.join(FRAMEWORKS)}"
    }


def test_the_versions_behind_aliases_stand_in_the_status() -> None:
    status = ModelStatus.of(Resource("Model", Meta("iris"), {}, {"aliases": {"prod": "3"}}))
    assert status.aliases == {"prod": "3"}


DIGEST = "sha256:" + 64 * "a"
COMMIT = 40 * "b"
FILE = {"path": "model.joblib", "digest": DIGEST, "size": 1}
VERSION: dict[str, Any] = {
    "modelName": "iris",
    "version": "v3",
    "framework": "sklearn",
    "code": {"git": {"repo": "git@host:team/iris.git", "commit": COMMIT, "ref": "main", "digest": DIGEST}},
    "artifacts": [FILE | {"trusted": True}],
    "requirements": ["numpy>=1.26", "scikit-learn[alldeps] ~= 1.5", "torch @ "
    "https://host/torch.whl", "a; python_version<'3'"],
    "entrypoint": "model.joblib",
    "source": {"url": "https://host/iris.tar.gz", "sha256sum": 64 * "0"},
    "createdBy": "ada",
    "parentJob": "train-7",
}  # fmt: skip


def _changed(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in (VERSION | fields).items() if value is not None}


def _faults(**fields: Any) -> set[str]:
    return faults("ModelVersion", _changed(**fields), name="iris.3")


def test_a_version_with_everything() -> None:
    assert warnings("ModelVersion", VERSION, name="iris.3") == set()
    assert ModelVersionSpec.model_validate(VERSION).version == "3"


@pytest.mark.parametrize(
    "fields",
    [
        {"artifacts": None},
        {"code": {"digest": DIGEST}},
        {"artifacts": [], "code": None, "image": "repo/iris:3"},
        {"code": None},
        {"requirements": ["a; python_version<'3'", "a>2; python_version>='3'"]},
    ],
)
def test_the_halves_of_a_version(fields: dict[str, Any]) -> None:
    assert _faults(**fields) == set()


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"artifacts": None, "code": None}, "spec.artifacts: required, unless code or an image is given"),
        ({"framework": None}, "spec.framework: required"),
        ({"modelName": "Iris"}, "spec.modelName: 'Iris' is not a valid name; expected lower-case letters, digits and '-', at most 63"),
        ({"code": {}}, "spec.code: one of digest, git is required"),
        ({"code": {"digest": DIGEST, **VERSION["code"]}}, "spec.code: only one of digest, git may be set, not digest "
        "and git"),
        ({"code": {"digest": "abc"}}, "spec.code.digest: 'abc' is not a digest; expected sha256: and 64 hexadecimal "
        "digits"),
        ({"code": {"git": {"repo": "/srv/a"}}}, "spec.code.git.commit: required"),
        ({"code": {"git": {"repo": "/srv/a", "commit": "main"}}}, "spec.code.git.commit: 'main' is not a commit; "
        "expected 40 or 64 hexadecimal digits, since branches move"),
        ({"code": {"git": {"repo": "--x", "commit": COMMIT}}}, "spec.code.git.repo: is not a git repository; expected "
        "a URL, host:path or an absolute path"),
        ({"code": {"git": {"repo": "/srv/a", "commit": COMMIT, "ref": "-x"}}}, "spec.code.git.ref: '-x' is not a "
        "branch, tag or commit"),
        ({"artifacts": [FILE, FILE]}, "spec.artifacts: 'model.joblib' is listed twice"),
        ({"artifacts": [FILE | {"size": -1}]}, "spec.artifacts[0].size: must be at least 0, not -1"),
        ({"artifacts": [FILE | {"digest": "md5:1"}]}, "spec.artifacts[0].digest: 'md5:1' is not a digest; expected "
        "sha256: and 64 hexadecimal digits"),
        ({"requirements": ["--index-url=x"]}, "spec.requirements[0]: '--index-url=x' is not a valid requirement; expected one "
        "as for pip, such as 'numpy>=1.26'"),
        ({"requirements": ["a\nb"]}, "spec.requirements[0]: 'a\\nb' is not a valid requirement; expected one as for pip, such "
        "as 'numpy>=1.26'"),
        ({"requirements": ["scikit-learn", "Scikit_Learn>1"]}, "spec.requirements[1]: there is already a requirement for "
        "'scikit-learn'"),
        ({"source": {"url": "https://h/x", "sha256sum": "1"}}, "spec.source.sha256sum: must be the sha256 of the "
        "content: 64 hexadecimal digits"),
        ({"source": {"url": "https://h/x", "sha256Sum": 64 * "0"}}, "spec.source: unknown field 'sha256Sum'; did you "
        "mean 'sha256sum'?"),
        ({"version": "4"}, "metadata.name: must be 'iris.4', that is <modelName>.<version>"),
        ({"image": ""}, "spec.image: must not be empty"),
    ],
)  # fmt: skip
def test_a_version_that_is_wrong(fields: dict[str, Any], fault: str) -> None:
    name = "Iris.3" if fields.get("modelName") == "Iris" else "iris.3"
    assert faults("ModelVersion", _changed(**fields), name=name) == {fault}


def test_a_version_with_an_image_where_none_runs() -> None:
    assert warnings("ModelVersion", _changed(image="repo/iris:3"), Context(), name="iris.3") == {
        "spec.image: this engine runs no container images; it cannot be served here"
    }


def test_nothing_of_a_version_changes() -> None:
    fields = {info.alias for info in ModelVersionSpec.model_fields.values()}
    assert catalog.find("modelversion").fixed == fields
