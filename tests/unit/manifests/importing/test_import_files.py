"""Files of any sort as one import, and the parts that all imports share."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mizzen.errors import NotFound
from mizzen.importers import files
from mizzen.importers.dns_labels import free, join, label
from mizzen.importers.percentages import per_cent
from mizzen.kinds.schema.resource import NAME
from tests.unit.manifests.importing.importing import deployment, graph, imported, predictor

CHAIN = "root: {routerType: Sequence, steps: [{serviceName: a, dependency: Hard}]}"
ONE = graph(CHAIN, "one")
SELDON = deployment(predictor("{name: b, implementation: SKLEARN_SERVER, modelUri: u}"), "two")


def names(found: files.ImportResult) -> list[str]:
    return [manifest["metadata"]["name"] for manifest in found.manifests]


def test_several_documents_are_one_import() -> None:
    assert names(imported(f"{ONE}---\n{SELDON}")) == ["one", "two"]


def test_what_kubectl_prints_is_read_without_what_the_server_wrote() -> None:
    live = "metadata: {name: one, uid: x, resourceVersion: '7', managedFields: [], annotations: "
    live += "{kubectl.kubernetes.io/last-applied-configuration: '{}', team: a}}"
    item = ONE.replace("metadata: {name: one}", live).rstrip().replace("\n", "\n  ")
    found = imported(f"apiVersion: v1\nkind: List\nitems:\n- {item}\n  status: {{url: x}}\n")
    assert found.manifests[0]["metadata"] == {"name": "one", "annotations": {"team": "a"}}


def test_one_that_cannot_be_turned_keeps_no_other_from_it() -> None:
    found = imported(f"{graph('x: {routerType: Sequence}', 'bad')}---\n{ONE}")
    assert names(found) == ["one"]
    (fault,) = [note for note in found.notes if note.refused]
    assert str(fault) == "file.yaml:1: InferenceGraph/bad: spec.nodes.root: required: requests start there"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("kind: ConfigMap\napiVersion: v1\nmetadata: {name: c}\n", "only InferenceGraph and SeldonDeployment are"),
        (
            "kind: InferenceService\nmetadata: {name: c}\n",
            "models are not imported: serve one with 'mizzen deploy PATH --name NAME'",
        ),
        ("kind: MLGraph\napiVersion: mizzen.dev/v1alpha1\n", "this is already a Mizzen object"),
        (
            ONE.replace("v1alpha1", "v2"),
            "unknown apiVersion 'serving.kserve.io/v2'; known are serving.kserve.io/v1alpha1",
        ),
    ],
)
def test_other_kinds_are_left_out_with_a_note(text: str, says: str) -> None:
    found = imported(text)
    assert found.manifests == ()
    (note,) = found.notes
    assert not note.refused
    assert says in str(note)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: [", "not readable YAML"),
        ("- 1\n", "must be an object, not a list"),
        (ONE.replace("name: one", "generateName: one"), "metadata.name: required"),
        (ONE.replace("{name: one}", "{name: one, labels: [a]}"), "metadata.labels: must be an object of texts"),
        (ONE.replace("{name: one}", "{name: one, labels: {a: 1}}"), "would be rejected: metadata.labels.a"),
        (ONE.replace("{name: one}", "{name: one, namespace: No!}"), "metadata.namespace: 'No!' is not a valid name"),
        (ONE.partition("spec:")[0], "spec: required"),
        (ONE.partition("spec:")[0] + "spec: []\n", "spec: must be an object"),
        (ONE.partition("spec:")[0] + "spec: {nodes: []}\n", "spec.nodes: must be an object"),
    ],
)
def test_what_is_malformed_is_refused_in_words(text: str, says: str) -> None:
    found = imported(text)
    assert found.manifests == ()
    assert any(note.refused and says in str(note) for note in found.notes)


def test_names_that_are_none_here_are_changed() -> None:
    found = imported(graph(CHAIN, "one.two"))
    assert names(found) == ["one-two"]
    assert any("metadata.name: 'one.two' is renamed to 'one-two'" in str(note) for note in found.notes)


def test_two_of_one_name_are_told() -> None:
    found = imported(f"{ONE}---\n{ONE}")
    assert "MLGraph/one: two graphs have this name; applied in this order, the last one wins" in map(str, found.notes)


def test_folders_are_read_at_every_depth(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a.yaml").write_text(ONE)
    (tmp_path / "b.json").write_text("{}")
    (tmp_path / "notes.txt").write_text("not this")
    found = files.read(tmp_path)
    assert [one.source for one in found] == [str(tmp_path / "b.json"), str(tmp_path / "deep" / "a.yaml")]
    assert names(files.import_objects(found)) == ["one"]


def test_nothing_to_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no objects in"):
        files.read(tmp_path)
    with pytest.raises(NotFound, match="no file or folder"):
        files.read(tmp_path / "absent.yaml")


@given(st.text(), st.lists(st.text(), max_size=3))
def test_any_text_becomes_a_name(text: str, others: list[str]) -> None:
    assert NAME.fullmatch(label(text))
    assert NAME.fullmatch(join(text, *others))
    taken = {label(text), join(text, "2")}
    assert free(label(text), taken) not in taken


def test_names_keep_what_they_can() -> None:
    assert label("Cat_Dog..Classifier") == "cat-dog-classifier"
    assert label("a" * 70) != label("a" * 71)
    assert free("a", {"a", "a-2"}) == "a-3"


@given(st.lists(st.integers(0, 1000) | st.fractions(0, 1), min_size=1, max_size=20).filter(any))
def test_shares_are_whole_and_sum_to_a_hundred(weights: list[int | Fraction]) -> None:
    shares = per_cent(weights)
    assert sum(shares) == 100
    total = sum(weights)
    for weight, share in zip(weights, shares, strict=True):
        assert abs(share - Fraction(weight) * 100 / total) < 1
        assert weight or not share
