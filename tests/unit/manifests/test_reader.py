"""What people write into files, as objects to send: aliases, nulls, texts that YAML takes for something else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from mizzen.errors import NotFound
from mizzen.kinds import catalog
from mizzen.kinds.schema.resource import API_VERSION
from mizzen.manifests import reader
from mizzen.manifests.api_versions import ALIASES
from mizzen.manifests.reader import Document
from tests.support.examples import examples

ALIAS_PAIRS = [
    ("serving.mlspec.org/v1alpha2", "MLGraph", "MLGraph"),
    ("sedna.io/v1alpha1", "InferenceModel", "InferenceModel"),
    ("sedna.io/v1alpha1", "TrainingModel", "TrainingJob"),
    ("core.oam.dev/v1beta1", "Application", "Application"),
    ("core.oam.dev/v1beta1", "Initializer", "Initializer"),
    (API_VERSION, "TrainingModel", "TrainingJob"),
    *((API_VERSION, kind.name, kind.name) for kind in catalog.KINDS),
]


def one(text: str | bytes) -> Document:
    (document,) = reader.read_text(text)
    return document


def written(api_version: str, kind: str) -> Document:
    return one(yaml.safe_dump({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}}))


def texts(document: Document) -> list[str]:
    return [str(finding) for finding in (*document.faults, *document.warnings)]


@pytest.mark.parametrize(("api_version", "kind", "stored"), ALIAS_PAIRS)
def test_aliases_are_read_as_ours_without_a_word(api_version: str, kind: str, stored: str) -> None:
    document = written(api_version, kind)
    assert texts(document) == []
    assert (document.data["apiVersion"], document.data["kind"]) == (API_VERSION, stored)
    assert str(document) == f"{stored}/x"


@pytest.mark.parametrize("api_version", ["serving.mlpsepc.org/v1alpha1", "mlgraph.org/v1alpha1"])
def test_misprints_are_read_with_a_warning(api_version: str) -> None:
    document = written(api_version, "MLGraph")
    assert document.faults == ()
    assert texts(document) == [
        f"apiVersion: '{api_version}' is read as mizzen.dev/v1alpha1; did you mean 'serving.mlspec.org/v1alpha2'?"
    ]
    assert document.data["apiVersion"] == API_VERSION


@pytest.mark.parametrize("kind", ["Application", "Initializer"])
def test_without_an_api_version_an_application_is_of_oam(kind: str) -> None:
    document = one(f"kind: {kind}\nmetadata: {{name: x}}\n")
    assert document.faults == ()
    assert texts(document) == ["apiVersion: missing, read as core.oam.dev/v1beta1"]
    assert document.data["apiVersion"] == API_VERSION


def test_without_an_api_version_anything_else_is_faulty() -> None:
    assert texts(one("kind: Model\n")) == ["apiVersion: required; write mizzen.dev/v1alpha1"]


@pytest.mark.parametrize(
    ("api_version", "kind", "says"),
    [
        ("sedna.io/v1alpha1", "MLGraph",
         "'sedna.io/v1alpha1' has InferenceModel and TrainingModel, but no MLGraph; "
         "did you mean 'mizzen.dev/v1alpha1'?"),
        ("sedna.io/v1alpha1", "TrainingJob",
         "'sedna.io/v1alpha1' has InferenceModel and TrainingModel, but no TrainingJob; "
         "did you mean 'mizzen.dev/v1alpha1'?"),
        ("serving.mlspec.org/v1alpha1", "MLGraph",
         "unknown 'serving.mlspec.org/v1alpha1'; did you mean 'serving.mlspec.org/v1alpha2'?"),
        ("mizen.dev/v1alpha1", "Model", "unknown 'mizen.dev/v1alpha1'; did you mean 'mizzen.dev/v1alpha1'?"),
        ("apps/v1", "Model", "unknown 'apps/v1'; valid are mizzen.dev/v1alpha1"),
        ("apps/v1", "Application", "unknown 'apps/v1'; valid are mizzen.dev/v1alpha1, core.oam.dev/v1beta1"),
        ("mlgraph.org/v1alpha1", "Model",
         "'mlgraph.org/v1alpha1' has MLGraph, but no Model; did you mean 'mizzen.dev/v1alpha1'?"),
    ],
)  # fmt: skip
def test_other_api_versions_are_faults_with_a_suggestion(api_version: str, kind: str, says: str) -> None:
    document = written(api_version, kind)
    assert texts(document) == [f"apiVersion: {says}"]
    assert document.faults


@settings(max_examples=examples(60), deadline=None)
@given(
    api_version=st.sampled_from([*ALIASES, API_VERSION, "v1", "apps/v1", "mizzen.dev/v1"]),
    kind=st.sampled_from([*catalog.BY_NAME, "TrainingModel", "Deployment", "model"]),
)
def test_no_api_version_is_taken_for_a_kind_that_it_does_not_have(api_version: str, kind: str) -> None:
    carried = {*(kind.name for kind in catalog.KINDS), "TrainingModel"} if api_version == API_VERSION else set()
    carried |= set(ALIASES[api_version].kinds) if api_version in ALIASES else set()
    assert bool(written(api_version, kind).faults) == (kind not in carried)


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("model", "kind: unknown 'model'; did you mean 'Model'?"),
        ("InferenceModle", "kind: unknown 'InferenceModle'; did you mean 'InferenceModel'?"),
    ],
)
def test_a_misspelt_kind_is_told_and_the_rest_is_read_as_what_was_meant(kind: str, says: str) -> None:
    document = written(API_VERSION, kind)
    assert texts(document) == [says]
    assert document.kind is not None


def test_what_is_no_kind_at_all_lists_those_there_are() -> None:
    (fault,) = written(API_VERSION, "Deployment").faults
    assert fault.message.startswith("unknown 'Deployment'; kinds are Model, ModelVersion, TrainingJob, TrainingModel")
    assert "Workload" not in fault.message, "nobody writes one"
    assert texts(one(f"apiVersion: {API_VERSION}\n"))[0].startswith("kind: required; kinds are Model")
    assert "must be a text" in texts(one(f"apiVersion: {API_VERSION}\nkind: 7\n"))[0]


def test_keys_without_a_value_that_mean_something_become_empty_objects() -> None:
    text = f"""
apiVersion: {API_VERSION}
kind: MLGraph
metadata: {{name: x}}
spec:
  dag:
    - name: a
      route:
        split:
    - name: b
      dependencies: [a]
      merge: {{ensemble: }}
      implementation: {{kfservice: kfb}}
"""
    nodes = one(text).data["spec"]["dag"]
    assert nodes[0]["route"] == {"split": {}}
    assert nodes[1]["merge"] == {"ensemble": {}}


def test_one_object_in_place_of_a_list_is_kept_as_it_is_written() -> None:
    spec = "spec: {dag: {name: a, route: {split: }}}"
    document = one(f"apiVersion: {API_VERSION}\nkind: MLGraph\nmetadata: {{name: x}}\n{spec}\n")
    assert document.data["spec"] == {"dag": {"name": "a", "route": {"split": {}}}}


def test_other_nulls_stay_and_no_spec_is_an_empty_one() -> None:
    document = one(f"apiVersion: {API_VERSION}\nkind: Model\nmetadata: {{name: x}}\nspec: {{framework: }}\n")
    assert document.data["spec"] == {"framework": None}
    assert one(f"apiVersion: {API_VERSION}\nkind: TrainingModel\nmetadata: {{name: x}}\nspec:\n").data["spec"] == {}


def test_several_documents_with_their_lines() -> None:
    text = "# first\n---\nkind: Model\n---\n# nothing\n---\n\nkind: MLGraph\n...\n"
    assert [(document.line, document.data["kind"]) for document in reader.read_text(text)] == [
        (3, "Model"), (8, "MLGraph"),
    ]  # fmt: skip


def test_lists_are_their_items() -> None:
    items = [{"apiVersion": API_VERSION, "kind": "Model", "metadata": {"name": name}} for name in ("a", "b")]
    for kind in ("List", "ModelList"):
        listing = yaml.safe_dump({"apiVersion": "v1", "kind": kind, "items": items})
        assert [str(document) for document in reader.read_text(listing)] == ["Model/a", "Model/b"]
        assert [texts(document) for document in reader.read_text(listing)] == [[], []]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: [\n", "not readable YAML: did not find expected node content while parsing a flow node, line 2, column 1"),
        ("a: 1\na: 2\n", "not readable YAML: the key 'a' is repeated, line 2, column 1"),
        ("on: 1\n", "not readable YAML: the key 'on' is not a text; quote it, line 1, column 1"),
        ("a:\n\tb: 1\n", "not readable YAML: a tab; indent with spaces, line 2, column 1"),
        (b"\x80\x04K\x01.", "not text: byte 1 is not UTF-8"),
        ("a: \x00", "not text: character 4 is a control character"),
        ("a: &x 1\nb: *x\n", "not readable YAML: aliases are not supported, line 2, column 4"),
        ('{"a": 1, "a": 2}', "not readable JSON: the key 'a' is repeated"),
        ('{"a": nope nope,,}', "not readable JSON: Expecting value: line 1 column 7 (char 6)"),
        ("- a\n", "must be an object, not a list"),
        ("just text\n", "must be an object, not a text"),
    ],
)
def test_what_cannot_be_read_is_a_fault_with_its_place(text: str | bytes, says: str) -> None:
    document = one(text)
    assert texts(document) == [says]
    assert document.data == {}


def test_json_may_have_tabs_and_yaml_may_begin_with_a_brace() -> None:
    assert one('\n{\n\t"kind": "Model"\n}').data["kind"] == "Model"
    assert one("{kind: Model}").data["kind"] == "Model"


def test_texts_that_kubectl_reads_otherwise_draw_a_warning() -> None:
    document = one(f"apiVersion: {API_VERSION}\nkind: Model\nmetadata: {{name: y, labels: {{n: 'y', a: N}}}}\n")
    assert document.name == "y"
    assert texts(document) == [
        "metadata.name: kubectl reads an unquoted y as true; quote it: 'y'",
        "metadata.labels.n: kubectl reads an unquoted n as false; quote it: 'n'",
        "metadata.labels.a: kubectl reads an unquoted N as false; quote it: 'N'",
    ]


def test_a_folder_is_read_in_order_and_without_what_is_hidden(tmp_path: Path) -> None:
    def file(name: str, kind: str) -> None:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"apiVersion: {API_VERSION}\nkind: {kind}\nmetadata: {{name: x}}\n")

    for name in ("b.yml", "a/z.yaml", "c.yaml", ".git/x.yaml", ".hidden.yaml", "notes.txt", "a/.mizzen/y.yaml"):
        file(name, "Model")
    (tmp_path / "a.json").write_text('{"apiVersion": "mizzen.dev/v1alpha1", "kind": "Model"}')
    found = [Path(document.source).relative_to(tmp_path).as_posix() for document in reader.read(tmp_path)]
    assert found == ["a.json", "b.yml", "c.yaml", "a/z.yaml"]
    assert [document.source for document in reader.read(str(tmp_path / "b.yml"))] == [str(tmp_path / "b.yml")]


def test_one_unreadable_file_hides_no_other(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a: [")
    (tmp_path / "b.yaml").write_text(f"apiVersion: {API_VERSION}\nkind: Model\nmetadata: {{name: x}}\n")
    (tmp_path / "c.yaml").write_bytes(b"\xff\xfe")
    documents = reader.read(tmp_path)
    assert [bool(document.faults) for document in documents] == [True, False, True]


def test_nothing_to_read_is_said(tmp_path: Path) -> None:
    (tmp_path / "empty.yaml").write_text("# nothing\n")
    for place in (tmp_path, tmp_path / "empty.yaml"):
        with pytest.raises(NotFound, match="no objects in"):
            reader.read(place)
    with pytest.raises(NotFound, match="no file or folder"):
        reader.read(tmp_path / "none.yaml")


json_data: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 99) | st.text("ayn01 -", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ayn01", max_size=3), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=examples(100), deadline=None)
@given(spec=json_data, name=json_data, kind=st.sampled_from(["Model", "MLGraph", "Application", "RoleBinding"]))
def test_whatever_is_written_is_read_or_told(spec: Any, name: Any, kind: str) -> None:
    value = {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}
    document = one(yaml.safe_dump(value))
    assert document.data["metadata"] == {"name": name}
    assert reader.read_data(value)[0].data == document.data
    for path in document.unquoted:
        assert path.startswith(("metadata.name", "spec"))
