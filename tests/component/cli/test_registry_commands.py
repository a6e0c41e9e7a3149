"""The groups model, version and alias; history and rollback; what get and describe show."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from mizzen.kinds.schema.resource import Ref
from tests.support.cli.command import Plane, commanding, failed
from tests.support.golden import Golden

GRAPH = "apiVersion: mizzen.dev/v1alpha1\nkind: MLGraph\nmetadata: {name: g}\nspec:\n  timeoutMs: 100\n  dag:\n"
GRAPH += "    - {name: a, implementation: {kfservice: iris}}\n"


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[Plane]:
    with commanding(tmp_path) as running:
        yield running


def version(plane: Plane, model: str = "iris", content: str = "content") -> str:
    """One more version, by a file on the plane's machine."""
    path = plane.folder / f"{content}.joblib"
    path.write_text(content)
    answer = plane.control.client().post(f"/model/{model}/version/auto", json={"path": str(path)})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["version"])


def served(plane: Plane, number: str, model: str = "iris") -> None:
    answer = plane.control.client().post(f"/model/{model}/serve/{number}", json={})
    plane.control.make_ready(answer.json()["id"], number)


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_models_are_created_listed_described_and_deleted(plane: Plane, golden: Golden) -> None:
    made = plane("model", "create", "iris", "--framework", "sklearn", "--label", "team=vision")
    assert made.stdout == "model iris created\n"
    plane("model", "create", "rose")
    assert rows(plane("model", "list").stdout)[0] == ["NAME", "CURRENT", "FRAMEWORK", "AGE"]
    assert [row[0] for row in rows(plane("model", "list").stdout)[1:]] == ["iris", "rose"]
    assert [row[0] for row in rows(plane("model", "list", "-l", "team=vision").stdout)[1:]] == ["iris"]
    version(plane)
    served(plane, "1")
    shown = plane("model", "describe", "iris").stdout
    assert shown.splitlines()[2:] == plane("describe", "model/iris").stdout.splitlines()[2:]  # ages move on
    assert "    team: vision\n" in shown
    assert "Versions\n  1: sklearn, by admin\n" in shown
    assert "Servers\n  iris-1: version 1, ready, http" in shown
    assert "Last changes\n" in shown
    assert json.loads(plane("model", "describe", "iris", "-o", "json").stdout)["name"] == "iris"
    failed(plane("model", "create", "iris", check=False), "already exists")
    failed(plane("model", "delete", "iris", check=False), "in use")
    golden.check(plane("model", "delete", "rose").stdout)
    assert plane("model", "list", "-n", "lab").stderr == "no models\n"


def test_versions_are_listed_described_and_deleted(plane: Plane, golden: Golden) -> None:
    plane("model", "create", "iris")
    golden.check(plane("version", "list", "iris").stderr)
    version(plane)
    version(plane, content="other")
    table = rows(plane("version", "list", "iris").stdout)
    assert table[0] == ["VERSION", "CURRENT", "FRAMEWORK", "FILES", "SIZE", "BY", "AGE"]
    assert [row[:4] for row in table[1:]] == [["1", "sklearn", "1", "7"], ["2", "sklearn", "1", "5"]]
    assert "content.joblib" in plane("version", "describe", "iris", "v1").stdout
    assert json.loads(plane("version", "describe", "iris", "2", "-o", "json").stdout)["version"] == "2"
    golden.check(plane("version", "delete", "iris", "1").stdout)
    failed(plane("version", "describe", "iris", "1", check=False), "has no version 1")


def test_a_version_is_added_from_a_file(plane: Plane, golden: Golden) -> None:
    plane("model", "create", "iris")
    plane.file("model.joblib", "weights")
    done = plane("version", "add", "iris", "model.joblib", "--label", "run=7")
    golden.check(done.stdout)
    stored = yaml.safe_load(plane("get", "mv/iris.1", "-o", "yaml").stdout)
    assert stored["metadata"]["labels"] == {"run": "7"}
    assert stored["spec"]["artifacts"][0]["path"] == "model.joblib"
    assert plane("version", "add", "iris", "model.joblib", "--version", "first").stdout.startswith("version first of")
    failed(plane("version", "add", "iris", "nowhere.joblib", check=False), "nowhere.joblib")


def test_aliases_are_set_moved_and_deleted(plane: Plane, golden: Golden) -> None:
    plane("model", "create", "iris")
    version(plane)
    version(plane, content="other")
    golden.check(plane("alias", "set", "iris", "prod", "1").stdout)
    plane("alias", "set", "iris", "prod", "2")
    assert "  aliases:\n    prod: '2'\n" in plane("model", "describe", "iris").stdout
    failed(plane("version", "delete", "iris", "2", check=False), "prod")
    told = plane("history", "iris").stdout.splitlines()
    assert [line.partition("updated")[2].strip() for line in told[-2:]] == [
        "aliases.prod: - -> 1", "aliases.prod: 1 -> 2",
    ]  # fmt: skip
    compared = plane("diff", "iris:1", "iris@prod", check=False)
    assert compared.stdout.startswith("iris:1 -> iris:2\n")
    assert plane("alias", "delete", "iris", "prod").stdout == "iris@prod deleted\n"
    failed(plane("alias", "delete", "iris", "prod", check=False), "no alias 'prod'")


def test_a_model_rolls_back_to_what_was_current(plane: Plane, golden: Golden) -> None:
    plane("model", "create", "iris")
    for content in ("one", "two", "three"):
        served(plane, version(plane, content=content))
    for number in ("1", "3"):
        plane("promote", "iris", number)
    golden.check(plane("rollback", "iris").stdout)
    golden.check(plane("rollback", "model/iris", "--to", "v2").stdout)
    golden.check(plane("rollback", "model/iris").stdout)
    failed(plane("rollback", "iris", "--to", "9", check=False), "has no version 9")
    moves = [row for row in rows(plane("history", "iris").stdout) if row[4] in ("promoted", "rolledback")]
    assert [row[5] for row in moves] == ["1", "3", "1", "2", "1"]
    assert plane("rollback", "iris", "--to", "3", "-o", "json").stdout.count('"version": "3"') == 1


def test_a_version_that_is_not_served_is_served_before_the_model_rolls_back(plane: Plane, golden: Golden) -> None:
    plane("model", "create", "iris")
    served(plane, version(plane, content="one"))
    served(plane, version(plane, content="two"))
    plane("promote", "iris", "1")
    plane("promote", "iris", "2")
    plane("delete", "im", "iris-1", "--no-wait")
    plane.control.release(Ref("InferenceModel", "iris-1"))
    control = plane.control

    def become_ready() -> None:
        while True:
            names = [item.meta.name for item in control.run(control.store.list("InferenceModel")).items]
            if len(names) == 2:
                control.make_ready(next(name for name in names if name != "iris-2"), "1")
                return

    thread = threading.Thread(target=become_ready)
    thread.start()
    golden.check(plane("rollback", "iris").stdout)
    thread.join()


def test_any_object_has_a_history_and_goes_back_in_it(plane: Plane, golden: Golden) -> None:
    for milliseconds in (100, 200, 300):
        plane.file("g.yaml", GRAPH.replace("100", str(milliseconds)))
        plane("apply", "-f", "g.yaml")
    golden.check(plane("rollback", "mlgraph/g").stdout)
    golden.check(plane("rollback", "mlgraph/g", "--to", "1").stdout)
    golden.check(plane("rollback", "mlgraph/g", "--to", "1").stdout)
    table = rows(plane("history", "mlgraph/g").stdout)
    assert table[0] == ["REVISION", "TIME", "ACTOR", "ACTION", "SPEC", "CHANGED"]
    assert [(row[0], row[3], " ".join(row[4:])) for row in table[1:]] == [
        ("1", "created", ""), ("2", "updated", "timeoutMs: 100 -> 200"), ("3", "updated", "timeoutMs: 200 -> 300"),
        ("4", "updated", "= revision 2 timeoutMs: 300 -> 200"), ("5", "updated", "= revision 1 timeoutMs: 200 -> 100"),
    ]  # fmt: skip
    failed(plane("rollback", "mlgraph/g", "--to", "9", check=False), "no revision 9", "revisions are 1, 2, 3, 4, 5")
    failed(plane("rollback", "mlgraph/none", check=False), "none")
    failed(plane("history", "mlgraph/none", check=False), "has no history")


def test_an_object_that_never_changed_cannot_go_back(plane: Plane) -> None:
    plane.file("g.yaml", GRAPH)
    plane("apply", "-f", "g.yaml")
    failed(plane("rollback", "mlgraph/g", check=False), "never had another spec", "'mizzen history MLGraph/g'")


def test_history_at_a_time_shows_the_object_as_it_was(plane: Plane) -> None:
    for milliseconds in (100, 200):
        plane.file("g.yaml", GRAPH.replace("100", str(milliseconds)))
        plane("apply", "-f", "g.yaml")
    first, second = json.loads(plane("history", "mlgraph/g", "-o", "json").stdout)["items"]
    assert yaml.safe_load(plane("history", "mlgraph/g", "--at", first["time"]).stdout)["spec"]["timeoutMs"] == 100
    then = json.loads(plane("history", "mlgraph/g", "--at", second["time"], "-o", "json").stdout)
    assert (then["spec"]["timeoutMs"], then["number"], then["actor"]) == (200, 2, "admin")
    failed(plane("history", "mlgraph/g", "--at", "3d", check=False), "MLGraph/g did not exist", "its history begins at")
    plane("model", "create", "iris", "--framework", "sklearn")
    failed(plane("history", "iris", "--at", "3d", check=False), "Model/iris did not exist", "its history begins at")
    number = version(plane)
    served(plane, number)
    plane("promote", "iris", number)
    last = json.loads(plane("history", "iris", "-o", "json").stdout)["items"][-1]
    past = yaml.safe_load(plane("history", "iris", "--at", last["time"]).stdout)
    assert past["status"]["current"]["version"] == "1"
    assert past["versions"] == ["1"]


def test_describe_shows_spec_conditions_and_changes(plane: Plane) -> None:
    plane("model", "create", "iris", "--label", "team=vision")
    version(plane)
    served(plane, "1")
    shown = plane("describe", "im/iris-1").stdout
    assert shown.startswith("InferenceModel/iris-1 in namespace default\n")
    assert "  modelName: iris\n" in shown
    assert "  Ready: True (Serving, for " in shown
    assert "created by admin" in shown
    assert "    team: vision\n" in plane("describe", "model", "iris").stdout
    told = json.loads(plane("describe", "model", "iris", "-o", "json").stdout)
    assert told["changes"][0]["action"] == "created"
    failed(plane("describe", "model", "none", check=False), "none")


def test_get_selects_by_labels_fields_and_namespace(plane: Plane) -> None:
    plane("model", "create", "iris", "--label", "team=vision")
    plane("model", "create", "rose", "--label", "team=sound")
    plane("model", "create", "lily", "-n", "lab", "--label", "team=vision")
    version(plane)
    version(plane, "rose")

    def names(*words: str) -> list[str]:
        return plane("get", *words, "-o", "name").stdout.split()

    assert names("models", "-l", "team=vision") == ["model/iris"]
    assert names("models", "-l", "team notin (vision)") == ["model/rose"]
    assert names("models", "-A") == ["model/iris", "model/rose", "model/lily"]
    assert names("mv", "--field-selector", "spec.modelName=rose") == ["modelversion/rose.1"]
    wide = rows(plane("get", "models", "-A", "-o", "wide").stdout)
    assert (wide[0][0], wide[0][-4:]) == ("NAMESPACE", ["AGE", "FRAMEWORK", "WRITTEN-BY", "LABELS"])
    assert wide[1][0] == "default"
    assert wide[1][-2:] == ["admin", "team=vision"]
    assert yaml.safe_load(plane("get", "model/iris", "-o", "yaml").stdout)["kind"] == "Model"
    failed(plane("get", "models", "-l", "team in vision", check=False), "labelSelector", "write key=value")
    failed(plane("get", "models", "--field-selector", "spec.track=latest", check=False), "spec.track")
    wrong = plane("get", "model/iris", "-A", check=False)
    assert (wrong.returncode, "names cannot be combined with selectors" in wrong.stderr) == (2, True)


def test_who_owns_which_field_is_not_shown(plane: Plane) -> None:
    plane("model", "create", "iris")
    file = plane.folder / "m.yaml"
    file.write_text("apiVersion: mizzen.dev/v1alpha1\nkind: Model\nmetadata: {name: rose, labels: {a: b}}\n")
    plane("apply", "-f", str(file))
    for form in ("yaml", "json"):
        for command in (("get", "model", "rose"), ("get", "models"), ("describe", "model/rose")):
            shown = plane(*command, "-o", form).stdout
            assert "rose" in shown
            assert "managedFields" not in shown
