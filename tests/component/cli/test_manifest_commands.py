"""apply, lint, diff, explain: what files say, and what a plane has."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from mizzen.kinds.schema.resource import Ref
from tests.support.cli.command import Plane, commanding, failed, mizzen
from tests.support.golden import Golden

HEAD = "apiVersion: mizzen.dev/v1alpha1\n"
IRIS = f"{HEAD}kind: Model\nmetadata: {{name: iris, labels: {{team: vision}}}}\nspec: {{track: latest}}\n"
SECOND_NAME = f"{HEAD}kind: Model\nmetadata: {{name: rose}}\nspec: {{aliasOf: iris}}\n"
VERSION = f"{HEAD}kind: ModelVersion\nmetadata: {{name: iris.1}}\nspec: {{modelName: iris, version: '1', "
VERSION += "framework: sklearn, image: 'a/b:1'}\n"
GRAPH = """apiVersion: serving.mlpsepc.org/v1alpha1
kind: MLGraph
metadata: {name: experiment}
spec:
  dag:
    - {name: a, route: {split: }}
    - {name: b, dependencies: [a], implementation: {kfservice: kfb}}
    - {name: c, dependencies: [a], implementation: {kfservice: kfc}}
"""
MISPRINT = (
    "apiVersion: 'serving.mlpsepc.org/v1alpha1' is read as mizzen.dev/v1alpha1; "
    "did you mean 'serving.mlspec.org/v1alpha2'?\n"
)


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[Plane]:
    with commanding(tmp_path) as running:
        yield running


def stored(plane: Plane, kind: str, name: str) -> Any:
    return plane.control.run(plane.control.store.get(Ref(kind, name)))


def test_apply_creates_configures_and_leaves_alone(plane: Plane) -> None:
    file = plane.file("iris.yaml", IRIS)
    assert plane("apply", "-f", file).stdout == "model/iris created\n"
    before = stored(plane, "Model", "iris")
    assert plane("apply", "-f", file).stdout == "model/iris unchanged\n"
    assert stored(plane, "Model", "iris") == before, "nothing was written"
    plane.file("iris.yaml", IRIS.replace("vision", "sound"))
    assert plane("apply", "-f", file).stdout == "model/iris configured\n"
    assert stored(plane, "Model", "iris").meta.labels == {"team": "sound"}
    assert stored(plane, "Model", "iris").spec == {"track": "latest"}


def test_apply_converts_aliases_and_nulls_and_tells_warnings(plane: Plane) -> None:
    file = plane.file("graph.yaml", GRAPH)
    done = plane("apply", "-f", file)
    assert done.stdout == "mlgraph/experiment created\n"
    assert f"warning: graph.yaml:1: MLGraph/experiment: {MISPRINT}" in done.stderr
    assert stored(plane, "MLGraph", "experiment").spec["dag"][0] == {"name": "a", "route": {"split": {}}}
    assert plane("apply", "-f", file).stdout == "mlgraph/experiment unchanged\n"


def test_the_planes_own_warnings_are_told_too(plane: Plane) -> None:
    graph = f"{HEAD}kind: MLGraph\nmetadata: {{name: g}}\nspec: {{dag: [{{name: classifier}}], custom: [{{spec: "
    graph += "{containers: [{name: classifier, image: 'a/b:1'}]}}]}\n"
    done = plane("apply", "-f", "-", "--dry-run", stdin=graph)
    told = "spec.custom[0].spec.containers[0].image: this engine runs no container images; node 'classifier' stays"
    assert done.stderr.count(f"warning: stdin:1: MLGraph/g: {told}") == 1


def test_a_dry_run_writes_nothing(plane: Plane, golden: Golden) -> None:
    file = plane.file("iris.yaml", IRIS)
    golden.check(plane("apply", "-f", file, "--dry-run").stdout)
    failed(plane("get", "model", "iris", check=False), "iris")
    plane("apply", "-f", file)
    plane.file("iris.yaml", IRIS.replace("latest", "manual"))
    golden.check(plane("apply", "-f", file, "--dry-run").stdout)
    assert stored(plane, "Model", "iris").spec == {"track": "latest"}
    plane.file("iris.yaml", IRIS)
    golden.check(plane("apply", "-f", file, "--dry-run").stdout)


def test_objects_of_a_batch_are_sent_in_an_order_in_which_each_finds_the_others(plane: Plane) -> None:
    """Whatever the order of the files; and a dry run says the same."""
    server = f"{HEAD}kind: InferenceModel\nmetadata: {{name: iris-1}}\nspec: {{modelName: iris, targetVersion: '1', "
    server += "deployToLayer: cloud, frameworkType: sklearn}\n"
    file = plane.file("all.yaml", f"{VERSION}---\n{server}---\n{SECOND_NAME}---\n{IRIS}")
    made = ["model/rose created", "model/iris created", "modelversion/iris.1 created", "inferencemodel/iris-1 created"]
    tried = plane("apply", "-f", file, "--dry-run")
    assert tried.stdout.splitlines() == [f"{line} (dry run)" for line in made]
    assert plane("get", "models").stderr == "no models\n"
    done = plane("apply", "-f", file)
    assert done.stdout.splitlines() == made
    assert done.stderr == tried.stderr
    alone = plane.file("alone.yaml", server.replace("iris", "lily"))
    failed(plane("apply", "-f", alone, "--dry-run", check=False), "no model 'lily' is registered")
    # What would be made elsewhere does not help.
    other = plane.file("other.yaml", IRIS.replace("name: iris", "name: lily, namespace: lab"))
    tried = plane("apply", "-f", other, "-f", alone, "--dry-run", check=False)
    assert (tried.returncode, tried.stdout) == (1, "model/lily created (dry run)\n")
    assert "no model 'lily' is registered" in tried.stderr


def test_one_fault_and_nothing_is_sent(plane: Plane) -> None:
    plane.file("all/a.yaml", IRIS)
    plane.file("all/b.yaml", f"{HEAD}kind: Model\nmetadata: {{nmae: x}}\nspec: {{trakc: latest}}\n")
    done = plane("apply", "-f", "all", check=False)
    failed(done, "3 faults; nothing was sent")
    assert "  all/b.yaml:1: Model/?: metadata: unknown field 'nmae'; did you mean 'name'?\n" in done.stderr
    assert "  all/b.yaml:1: Model/?: metadata.name: required\n" in done.stderr
    assert "  all/b.yaml:1: Model/?: spec: unknown field 'trakc'; did you mean 'track'?\n" in done.stderr
    assert plane("get", "models").stderr == "no models\n"


SERVERS = f"""{IRIS.replace("iris", "aa")}---
{HEAD}kind: InferenceModel
metadata: {{name: bb}}
spec: {{modelName: bb, targetVersion: "1", deployToLayer: cloud, frameworkType: sklearn}}
---
{HEAD}kind: InferenceModel
metadata: {{name: cc}}
spec: {{modelName: cc, targetVersion: "1", deployToLayer: cloud, frameworkType: sklearn}}
---
{HEAD}kind: Node
metadata: {{name: nn}}
spec: {{layer: edge}}
"""


def outcomes(told: str) -> list[tuple[str, str, int]]:
    return [(item["name"], item["outcome"], len(item["faults"])) for item in json.loads(told)["items"]]


def test_faults_that_only_the_plane_finds_are_all_told_before_anything_is_sent(plane: Plane) -> None:
    file = plane.file("all.yaml", SERVERS)
    done = plane("apply", "-f", file, check=False)
    failed(done, "2 faults; nothing was sent")
    assert "  all.yaml:6: InferenceModel/bb: spec.modelName: no model 'bb' is registered; " in done.stderr
    assert "  all.yaml:11: InferenceModel/cc: spec.modelName: no model 'cc' is registered; " in done.stderr
    assert plane("get", "models").stderr == "no models\n"
    told = plane("apply", "-f", file, "-o", "json", check=False)
    assert told.returncode == 1
    assert outcomes(told.stdout) == [
        ("aa", "unsent", 0),
        ("bb", "refused", 1),
        ("cc", "refused", 1),
        ("nn", "unsent", 0),
    ]
    tried = plane("apply", "-f", file, "--dry-run", check=False)
    assert tried.returncode == 1
    assert tried.stdout.splitlines() == ["model/aa created (dry run)", "node/nn created (dry run)"]
    assert tried.stderr == done.stderr
    # Those of the files themselves, and those of the plane, in one go.
    plane.file("all.yaml", SERVERS.replace("track", "trakc").replace("modelName: bb", "modelName: aa"))
    both = plane("apply", "-f", file, check=False)
    failed(both, "2 faults; nothing was sent")
    assert "did you mean 'track'?" in both.stderr
    assert "no model 'cc' is registered" in both.stderr
    assert plane("audit", "-o", "json").stdout.count('"kind": "Model"') == 0, "what is only tried is no change"


def test_who_is_overtaken_in_the_middle_learns_what_was_sent(plane: Plane) -> None:
    """A graph and a server of one name: neither is there when they are tried."""
    graph = GRAPH.replace("experiment", "both").replace("serving.mlpsepc.org", "mizzen.dev")
    server = SERVERS.split("---\n")[1].replace("name: bb", "name: both").replace("modelName: bb", "modelName: aa")
    text = "---\n".join([IRIS.replace("iris", "aa"), server, graph, SERVERS.split("---\n")[3]])
    file = plane.file("all.yaml", text)
    done = plane("apply", "-f", file, check=False)
    assert done.returncode == 1
    assert done.stdout.splitlines() == ["model/aa created", "inferencemodel/both created"]
    assert "error: all.yaml:11: MLGraph/both: " in done.stderr
    assert "; applied before it: Model/aa, InferenceModel/both; not sent: Node/nn\n" in done.stderr
    plane("delete", "inferencemodel", "both", "--no-wait")
    plane.control.release(Ref("InferenceModel", "both"))
    told = plane("apply", "-f", file, "-o", "json", check=False)
    assert outcomes(told.stdout) == [
        ("aa", "unchanged", 0), ("both", "created", 0), ("both", "refused", 1), ("nn", "unsent", 0),
    ]  # fmt: skip


def test_what_is_odd_is_told_of_refused_files_and_of_repeated_objects_too(plane: Plane, golden: Golden) -> None:
    refused = plane("apply", "-f", "-", "--dry-run", stdin="kind: Application\nspec: {components: []}\n", check=False)
    failed(refused, "metadata.name: required")
    assert "warning: stdin:1: Application/?: apiVersion: missing, read as core.oam.dev/v1beta1\n" in refused.stderr
    twice = plane("apply", "-f", "-", stdin=f"{IRIS}---\n{IRIS}")
    assert twice.stdout == "model/iris created\nmodel/iris unchanged\n"
    golden.check(twice.stderr)


def test_several_objects_from_folders_and_stdin(plane: Plane) -> None:
    plane.file("all/a.yaml", IRIS)
    plane.file("all/b/c.json", json.dumps(yaml.safe_load(IRIS.replace("iris", "rose"))))
    done = plane("apply", "-f", "all", "-f", "-", stdin=f"{GRAPH}---\n{IRIS.replace('iris', 'lily')}")
    assert done.stdout.split() == [
        "model/iris", "created", "model/rose", "created", "model/lily", "created", "mlgraph/experiment", "created",
    ]  # fmt: skip
    listing = plane("get", "models", "-o", "yaml").stdout
    again = plane("apply", "-f", "-", stdin=listing)
    assert again.stdout.split() == ["model/iris", "unchanged", "model/lily", "unchanged", "model/rose", "unchanged"]
    told = json.loads(plane("apply", "-f", "all/a.yaml", "-o", "json").stdout)
    assert [(item["kind"], item["name"], item["outcome"]) for item in told["items"]] == [("Model", "iris", "unchanged")]


def test_namespaces_are_asked_for_or_written(plane: Plane) -> None:
    file = plane.file("iris.yaml", IRIS)
    plane("apply", "-f", file, "-n", "lab")
    assert plane("get", "models", "-n", "lab", "-o", "name").stdout == "model/iris\n"
    assert plane("get", "models").stderr == "no models\n"
    plane.file("iris.yaml", IRIS.replace("name: iris", "name: iris, namespace: lab"))
    assert plane("apply", "-f", file).stdout == "model/iris unchanged\n"
    wrong = plane("apply", "-f", file, "-n", "other", check=False)
    failed(wrong, "metadata.namespace: is 'lab', but the request is for 'other'")


def test_apply_waits_until_the_object_is_accepted(plane: Plane) -> None:
    file = plane.file("iris.yaml", IRIS)
    done = plane("apply", "-f", file, "--wait", "--timeout", "0.2", check=False)
    assert done.returncode == 1
    assert "was not Accepted within 0.2 s" in done.stderr, "there is no controller here"
    assert done.stdout == "model/iris created\n"


def test_lint_needs_no_plane_and_speaks_of_every_object(tmp_path: Path, golden: Golden) -> None:
    (tmp_path / "good.yaml").write_text(f"{IRIS}---\n{GRAPH}")
    done = mizzen("lint", "-f", "good.yaml", cwd=tmp_path, check=True)
    assert done.stdout.splitlines() == [
        "good.yaml:1: Model/iris: accepted",
        "good.yaml:6: MLGraph/experiment: warning: " + MISPRINT.strip(),
        "good.yaml:6: MLGraph/experiment: accepted with 1 warning",
    ]
    (tmp_path / "bad.yaml").write_text(f"{HEAD}kind: Model\nmetadata: {{name: yes}}\n")
    done = mizzen("lint", "-f", ".", cwd=tmp_path)
    assert done.returncode == 1
    golden.check(done.stdout.splitlines()[0])
    assert "good.yaml:1: Model/iris: accepted" in done.stdout
    told = json.loads(mizzen("lint", "-f", "bad.yaml", "-o", "json", cwd=tmp_path).stdout)
    assert [(item["accepted"], len(item["faults"])) for item in told["items"]] == [(False, 1)]
    failed(mizzen("lint", "-f", "none.yaml", cwd=tmp_path), "no file or folder 'none.yaml'")


def test_lint_knows_what_each_home_can_do(tmp_path: Path) -> None:
    graph = f"{HEAD}kind: MLGraph\nmetadata: {{name: g}}\nspec: {{dag: {{name: c}}, custom: [{{spec: "
    (tmp_path / "g.yaml").write_text(graph + "{containers: [{name: c, image: 'a/b:1'}]}}]}\n")
    assert "accepted with 1 warning" in mizzen("lint", "-f", "g.yaml", cwd=tmp_path, check=True).stdout
    done = mizzen("lint", "-f", "g.yaml", "--for", "cluster", cwd=tmp_path, check=True)
    assert done.stdout == "g.yaml:1: MLGraph/g: accepted\n"


def test_diff_of_files_is_0_1_or_2(plane: Plane) -> None:
    file = plane.file("iris.yaml", IRIS)
    new = plane("diff", "-f", file, check=False)
    assert new.returncode == 1
    assert "+  track: latest" in new.stdout
    plane("apply", "-f", file)
    same = plane("diff", "-f", file)
    assert (same.returncode, same.stdout) == (0, "")
    plane.file("iris.yaml", IRIS.replace("latest", "manual"))
    changed = plane("diff", "-f", file, check=False)
    assert changed.returncode == 1
    assert "-  track: latest\n+  track: manual\n" in changed.stdout
    assert stored(plane, "Model", "iris").spec == {"track": "latest"}
    failed(plane("diff", "-f", "none.yaml", check=False), "none.yaml", code=2)
    plane.file("iris.yaml", "kind: Model")
    failed(plane("diff", "-f", file, check=False), "2 faults", code=2)
    failed(mizzen("diff", "-f", file, cwd=plane.folder), "no plane runs", code=2)


def test_diff_of_versions_compares_fields_and_files(plane: Plane) -> None:
    for number, (weights, code) in enumerate([("one", "a = 1\n"), ("three", "a = 1\n"), ("three", "a = 2\n")], start=1):
        folder = plane.folder / str(number)
        plane.file(f"{number}/weights.bin", weights)
        plane.file(f"{number}/net.py", code)
        plane.control.client().post("/model", json={"name": "net"}) if number == 1 else None
        body = {"path": str(folder), "framework": "python", "entrypoint": f"net:{'b' if number == 3 else 'a'}"}
        assert plane.control.client().post("/model/net/version/auto", json=body).status_code == 201
    data = plane("diff", "net:1", "net:2", check=False)
    assert data.returncode == 1
    assert data.stdout.splitlines() == [
        "net:1 -> net:2", "  same     net.py       6 B", "  changed  weights.bin  3 B -> 5 B", "data changed",
    ]  # fmt: skip
    code = plane("diff", "net:2", "net:v3", check=False).stdout
    assert "  entrypoint: net:a -> net:b\n" in code
    assert code.endswith("code changed\n")
    assert plane("diff", "net:1", "net:1").stdout.endswith("no file changed\n")
    both = json.loads(plane("diff", "net:1", "net:3", "-o", "json", check=False).stdout)
    assert both["halves"] == ["code", "data"]
    failed(plane("diff", "net:1", "net:9", check=False), "has no version 9", code=2)
    failed(plane("diff", "net", "net:1", check=False), "no current version", "name a version, such as net:1", code=2)
    failed(plane("diff", "net@prod", "net:1", check=False), "no alias 'prod'", "aliases: none", code=2)


def test_explain_tells_types_defaults_and_what_fields_mean(tmp_path: Path) -> None:
    whole = mizzen("explain", "im", cwd=tmp_path, check=True).stdout
    assert whole.startswith("InferenceModel\n\n  A served model: ")
    assert mizzen("explain", "revision", cwd=tmp_path).stdout.startswith(
        "Revision\n\n  One entry of an object's history: "
    )
    metadata = mizzen("explain", "model.metadata", cwd=tmp_path, check=True).stdout
    assert metadata.startswith("Model.metadata\n")
    assert "  labels  <map of text to text>" in metadata
    assert "  replicas  <whole number, default 1>\n" in whole
    assert "  modelName  <text, required>" in whole
    field = mizzen("explain", "inferencemodel.spec.batching.batchSize", cwd=tmp_path, check=True).stdout
    assert field.startswith("InferenceModel.batching.batchSize  <")
    assert "requests in one batch" in field
    status = mizzen("explain", "model.status.current", cwd=tmp_path, check=True).stdout
    assert "  version  <text" in status
    told = json.loads(mizzen("explain", "model.track", "-o", "json", cwd=tmp_path, check=True).stdout)
    assert (told["type"], told["default"]) == ("'manual' or 'latest'", "manual")
    failed(mizzen("explain", "model.trakc", cwd=tmp_path), "Model has no field 'trakc'", "did you mean 'track'?")
    failed(mizzen("explain", "modle", cwd=tmp_path), "no kind 'modle'", "did you mean 'model'?")
    failed(mizzen("explain", "model.track.x", cwd=tmp_path), "Model.track has no field 'x'", "none is possible here")


@pytest.mark.parametrize("kind", ["mlgraph.dag.route", "application.components", "trainingjob", "rolebinding.target"])
def test_explain_reaches_into_every_kind(tmp_path: Path, kind: str) -> None:
    assert "FIELDS" in mizzen("explain", kind, cwd=tmp_path, check=True).stdout
