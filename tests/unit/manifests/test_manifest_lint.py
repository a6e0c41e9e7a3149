"""All that is wrong with documents, at once and in the words of their authors."""

from __future__ import annotations

import pytest

from mizzen.kinds.schema.resource import API_VERSION
from mizzen.manifests import reader
from mizzen.manifests.lint import CAPABILITIES, Checked, lint

HEAD = f"apiVersion: {API_VERSION}\n"


def checked(text: str, *capabilities: str) -> list[Checked]:
    return lint(reader.read_text(text, "file.yaml"), capabilities)


def faults(text: str) -> list[str]:
    return [str(fault) for one in checked(text) for fault in one.faults]


def warnings(text: str, *capabilities: str) -> list[str]:
    return [str(warning) for one in checked(text, *capabilities) for warning in one.warnings]


def test_a_good_object_draws_nothing() -> None:
    (one,) = checked(f"{HEAD}kind: Model\nmetadata: {{name: iris, labels: {{team: a}}}}\nspec: {{track: latest}}\n")
    assert (one.faults, one.warnings) == ((), ())


def test_every_part_of_an_object_is_looked_at() -> None:
    text = f"""{HEAD}kind: InferenceModel
extra: {{}}
metadata: {{name: Iris!, label: {{}}, labels: {{a b: c}}, namespace: No!}}
spec: {{repliacs: 1, timeoutMs: 0}}
"""
    found = faults(text)
    assert "unknown field 'extra'; valid are apiVersion, kind, metadata, spec, status" in found
    assert "metadata: unknown field 'label'; did you mean 'labels'?" in found
    assert any(fault.startswith("metadata.name: 'Iris!' is not a valid name") for fault in found)
    assert any(fault.startswith("metadata.namespace: 'No!' is not a valid name") for fault in found)
    assert any(fault.startswith("metadata.labels.a b: the key must be") for fault in found)
    assert "spec: unknown field 'repliacs'; did you mean 'replicas'?" in found
    assert any(fault.startswith("spec.timeoutMs: must be at least 1") for fault in found)
    assert len(found) == len(set(found))


def test_a_missing_name_is_said_once_with_and_without_metadata() -> None:
    for metadata in ("", "metadata:\n", "metadata: {}\n", "metadata: {name: }\n", "metadata: {name: ''}\n"):
        assert faults(f"{HEAD}kind: Model\n{metadata}") == ["metadata.name: required"]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("yes", "must be a text, but YAML reads yes as true; quote it: 'yes'"),
        ("off", "must be a text, but YAML reads off as false; quote it: 'off'"),
        ("010", "must be a text, but YAML reads 010 as 8; quote it: '010'"),
        ("1_0", "must be a text, but YAML reads 1_0 as 10; quote it: '1_0'"),
        ("7", "must be a text; quote it: '7'"),
        ("1.0", "must be a text; quote it: '1.0'"),
        ("true", "must be a text; quote it: 'true'"),
    ],
)
def test_a_name_that_yaml_took_for_something_else_is_shown_as_written(name: str, says: str) -> None:
    assert faults(f"{HEAD}kind: Model\nmetadata: {{name: {name}}}\n") == [f"metadata.name: {says}"]


def test_so_is_every_other_text() -> None:
    metadata = "metadata: {name: a, namespace: No, labels: {x: on}}"
    found = faults(f"{HEAD}kind: InferenceModel\n{metadata}\nspec: {{modelName: 012}}\n")
    assert "metadata.namespace: must be a text, but YAML reads No as false; quote it: 'No'" in found
    assert "metadata.labels.x: must be a text, but YAML reads on as true; quote it: 'on'" in found
    assert "spec.modelName: must be a text, but YAML reads 012 as 10; quote it: '012'" in found


def test_the_spec_must_be_an_object() -> None:
    assert faults(f"{HEAD}kind: Model\nmetadata: {{name: a}}\nspec: [1]\n") == ["spec: must be an object"]


@pytest.mark.parametrize("kind", ["Workload", "Revision"])
def test_what_the_plane_writes_itself_is_not_for_files(kind: str) -> None:
    (fault,) = faults(f"{HEAD}kind: {kind}\nmetadata: {{name: a}}\n")
    assert fault == f"kind: {kind} is internal: only the plane writes it, users can read it"


def test_what_an_engine_lacks_is_a_warning_for_that_home_only() -> None:
    text = f"""{HEAD}kind: MLGraph
metadata: {{name: a}}
spec:
  custom: [{{spec: {{containers: [{{name: classifier, image: 'x/y:1'}}]}}}}]
  dag: {{name: classifier}}
"""
    assert faults(text) == []
    assert warnings(text, *CAPABILITIES["embedded"]) == [
        "spec.custom[0].spec.containers[0].image: this engine runs no container images; "
        "node 'classifier' stays not ready"
    ]
    assert warnings(text, *CAPABILITIES["cluster"]) == []


def test_one_object_twice_is_a_warning() -> None:
    model = f"{HEAD}kind: Model\nmetadata: {{name: a}}\n"
    assert warnings(f"{model}---\n{model}") == [
        "metadata.name: Model/a is also in file.yaml:1; applied in this order, the last one wins"
    ]
    elsewhere = f"{HEAD}kind: Model\nmetadata: {{name: a, namespace: other}}\n"
    assert warnings(f"{model}---\n{elsewhere}") == []
    default = f"{HEAD}kind: Model\nmetadata: {{name: a, namespace: default}}\n"
    assert len(warnings(f"{model}---\n{default}")) == 1
