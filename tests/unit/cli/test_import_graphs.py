"""import: graphs of others as manifests, on stdout; what is said of them, on stderr."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from tests.support.cli.command import failed, mizzen

GRAPH = """apiVersion: serving.kserve.io/v1alpha1
kind: InferenceGraph
metadata: {name: canary}
spec:
  nodes:
    root:
      routerType: Splitter
      steps:
      - {serviceName: old, weight: 90, dependency: Hard}
      - {serviceName: new, weight: 10, dependency: Hard}
"""
DEPLOYMENT = """apiVersion: machinelearning.seldon.io/v1
kind: SeldonDeployment
metadata: {name: iris}
spec:
  predictors:
  - name: main
    graph: {name: classifier, implementation: SKLEARN_SERVER, modelUri: 'gs://models/iris'}
"""
OTHER = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"


def test_a_file_is_printed_as_manifests_with_notes_beside(tmp_path: Path) -> None:
    (tmp_path / "graph.yaml").write_text(GRAPH)
    done = mizzen("import", "-f", "graph.yaml", cwd=tmp_path, check=True)
    assert yaml.safe_load(done.stdout)["spec"]["dag"][0] == {
        "name": "root", "route": {"split": {"traffic": {"old": 90, "new": 10}}},
    }  # fmt: skip
    says = "note: graph.yaml:1: InferenceGraph/canary: spec.nodes: deploy 'old' here: mizzen deploy PATH"
    assert done.stderr.startswith(says)
    assert "error" not in done.stderr


def test_what_is_printed_is_what_lint_takes(tmp_path: Path) -> None:
    for form in ("yaml", "json"):
        done = mizzen("import", "-f", "-", "-o", form, cwd=tmp_path, stdin=f"{GRAPH}---\n{DEPLOYMENT}", check=True)
        checked = mizzen("lint", "-f", "-", cwd=tmp_path, stdin=done.stdout, check=True)
        assert checked.stdout.count(": accepted\n") == 2


def test_several_are_a_list_in_json_and_one_is_itself(tmp_path: Path) -> None:
    several = mizzen("import", "-f", "-", "-o", "json", cwd=tmp_path, stdin=f"{GRAPH}---\n{DEPLOYMENT}", check=True)
    assert [item["metadata"]["name"] for item in json.loads(several.stdout)["items"]] == ["canary", "iris"]
    one = mizzen("import", "-f", "-", "-o", "json", cwd=tmp_path, stdin=GRAPH, check=True)
    assert json.loads(one.stdout)["kind"] == "MLGraph"


def test_a_folder_with_other_things_in_it(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name, text in {"a.yaml": OTHER, "b.yaml": DEPLOYMENT, "c.yaml": "a: ["}.items():
        (tmp_path / "in" / name).write_text(text)
    done = mizzen("import", "-f", "in", cwd=tmp_path, check=True)
    assert yaml.safe_load(done.stdout)["metadata"] == {"name": "iris"}
    assert "note: in/a.yaml:1: ConfigMap/c: only InferenceGraph and SeldonDeployment are imported" in done.stderr
    assert "error: in/c.yaml:1: not readable YAML" in done.stderr


def test_nothing_turned_is_a_failure(tmp_path: Path) -> None:
    failed(mizzen("import", "-f", "-", cwd=tmp_path, stdin=OTHER), "nothing was converted to an MLGraph")
    cyclic = GRAPH.replace("serviceName: new", "nodeName: root")
    failed(mizzen("import", "-f", "-", cwd=tmp_path, stdin=cyclic), "nodes call each other in a cycle: root -> root")
    failed(mizzen("import", "-f", "absent.yaml", cwd=tmp_path), "no file or folder 'absent.yaml'")


def test_it_is_called_with_files(tmp_path: Path) -> None:
    failed(mizzen("import", cwd=tmp_path), "Missing option '--file'", code=2)
    failed(mizzen("import", "-f", "-", "-o", "table", cwd=tmp_path), "'table' is not one of 'yaml', 'json'", code=2)
