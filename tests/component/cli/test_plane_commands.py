"""Commands as a person runs them, against the real control API and a small server in place of the inference API."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from mizzen.cli import output
from mizzen.kinds.schema.resource import Ref
from tests.support.cli.command import Plane, commanding, failed, mizzen
from tests.support.golden import Golden

OUTPUTS = [
    {"name": "predict", "datatype": "INT64", "shape": [2], "data": [0, 2]},
    {"name": "predict_proba", "datatype": "FP64", "shape": [2, 2], "data": [0.1, 0.9, 0.25, 0.75]},
]
ANSWER = {"model_name": "iris", "model_version": "3", "id": "abc", "outputs": OUTPUTS}


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[Plane]:
    with commanding(tmp_path) as plane:
        inference = plane.inference
        inference.give["GET", "/v2/models/iris"] = (200, {"inputs": [{"name": "x", "datatype": "FP64", "shape": [-1]}]})
        inference.give["POST", "/v2/models/iris/infer"] = (200, ANSWER)
        yield plane


@pytest.mark.parametrize("words", [("get", "models"), ("status",), ("predict", "iris", "--data", "[1]")])
def test_without_a_plane_it_says_how_to_start_one(tmp_path: Path, words: tuple[str, ...]) -> None:
    failed(mizzen(*words, cwd=tmp_path), "no plane runs in .mizzen", "start one with 'mizzen up'")
    assert list(tmp_path.iterdir()) == []


def test_down_without_a_plane_is_fine(tmp_path: Path, golden: Golden) -> None:
    done = mizzen("down", cwd=tmp_path, check=True)
    golden.check(done.stdout)
    assert list(tmp_path.iterdir()) == []


def test_predict_prints_outputs_readably_or_as_data(plane: Plane, golden: Golden) -> None:
    done = plane("predict", "iris", "--data", "[1, 2]")
    golden.check(done.stdout)
    assert "version 3, request abc" in done.stderr
    assert json.loads(plane("predict", "iris", "--data", "[1, 2]", "-o", "json").stdout) == ANSWER
    assert yaml.safe_load(plane("predict", "iris", "--data", "[1, 2]", "-o", "yaml").stdout) == ANSWER


def test_predict_takes_rows_objects_whole_requests_files_and_stdin(plane: Plane) -> None:
    tensor = {"name": "x", "datatype": "FP64", "shape": [2], "data": [1.0, 2.0]}
    (plane.folder / "rows.json").write_text("[1, 2]")
    whole = json.dumps({"inputs": [tensor], "id": "mine"})
    for words, stdin in ((("[1,2]",), ""), (('{"x": [1,2]}',), ""), (("@rows.json",), ""), (("-",), "[1, 2]")):
        plane("predict", "iris", "--data", *words, stdin=stdin)
        assert plane.inference.asked[-1].body == {"inputs": [tensor]}
    plane("predict", "iris", "--data", whole)
    assert plane.inference.asked[-1].body == json.loads(whole)
    plane("predict", "iris", "--data", "[1]", "--output-name", "predict_proba")
    assert plane.inference.asked[-1].body["outputs"] == [{"name": "predict_proba"}]


def test_predict_explains_what_it_cannot_read(plane: Plane) -> None:
    failed(plane("predict", "iris", "--data", "{no", check=False), "--data is not valid JSON", "for example")
    failed(plane("predict", "iris", "--data", "@none.json", check=False), "cannot read none.json")
    failed(plane("predict", "iris", "--data", '["a"]', check=False), "must be FP64: 'a' is not a number")
    failed(plane("predict", "nobody", "--data", "[1]", check=False), "nobody")


def test_get_shows_tables_json_and_yaml(plane: Plane) -> None:
    assert plane("get", "models").stderr == "no models\n"
    plane.control.file("model.joblib")
    plane("deploy", "model.joblib", "--name", "iris", "--no-wait")
    table = plane("get", "mv").stdout.splitlines()
    assert table[0].split() == ["NAME", "MODEL", "VERSION", "FRAMEWORK", "SERVABLE", "AGE"]
    assert table[1].split()[:4] == ["iris.1", "iris", "1", "sklearn"]
    listing = json.loads(plane("get", "InferenceModel", "-o", "json").stdout)
    assert [item["metadata"]["name"] for item in listing["items"]] == ["iris-1"]
    one = yaml.safe_load(plane("get", "im", "iris-1", "-o", "yaml").stdout)
    assert one["spec"]["modelName"] == "iris"
    failed(plane("get", "modell", check=False), "no kind 'modell'", "did you mean 'model'?")
    failed(plane("get", "model", "nobody", check=False), "nobody")


def test_deploy_without_waiting_and_the_way_back(plane: Plane, golden: Golden) -> None:
    plane.control.file("model.joblib")
    done = plane("deploy", "model.joblib", "--name", "iris", "--no-wait")
    assert "iris version 1 is starting as iris-1; once it is ready: mizzen promote iris 1" in done.stdout
    told = json.loads(plane("deploy", "model.joblib", "--name", "iris", "--no-wait", "-o", "json").stdout)
    assert told == {
        "model": "iris", "version": "2", "server": "iris-2", "url": f"{plane.inference.url}/v2/models/iris",
    }  # fmt: skip
    failed(plane("promote", "iris", "1", check=False), "is ready", "serve it first: 'mizzen serve iris 1'")
    plane.control.make_ready("iris-1", "1")
    golden.check(plane("promote", "iris", "1").stdout)
    told = [line.split() for line in plane("history", "iris").stdout.splitlines()]
    assert told[0] == ["OBJECT", "REVISION", "TIME", "ACTOR", "ACTION", "CURRENT", "CHANGED"]
    assert ["Model/iris", "2", "admin", "promoted", "1"] in [[*row[:2], *row[3:]] for row in told]
    assert plane("delete", "inferencemodel", "iris-2", "--no-wait").stdout == "inferencemodel/iris-2 deleted\n"


def test_deploy_explains_what_is_not_there(plane: Plane) -> None:
    (plane.folder / "double.py").write_text("def predict(inputs):\n    return 1\n")
    failed(plane("deploy", "nowhere.joblib", "--name", "x", check=False), "nowhere.joblib", "give a path")
    failed(plane("deploy", "nowhere:f", "--name", "x", check=False), "no module 'nowhere'")
    failed(
        plane("deploy", "double:predct", "--name", "x", check=False),
        "does not define 'predct'",
        "did you mean 'predict'?",
    )
    failed(plane("deploy", "double:predict", "--name", "Not A Name", check=False), "is not a valid name")


def test_a_wrong_token_is_said_with_a_hint(plane: Plane) -> None:
    done = plane("get", "models", token="wrong", check=False)
    failed(done, "token", "the token from MIZZEN_TOKEN is not valid here")


def test_logs_of_a_server_and_of_the_planes_processes(plane: Plane, tmp_path: Path, golden: Golden) -> None:
    plane.control.file("model.joblib")
    plane("deploy", "model.joblib", "--name", "iris", "--no-wait")
    plane("logs", "iris-1")
    golden.check(plane("logs", "iris").stderr)
    failed(plane("logs", "nobody-1", check=False), "nobody-1")
    logs = tmp_path / ".mizzen" / "logs"
    here = ("--data-dir", ".mizzen")
    no_log = "no log of 'plane'"
    failed(plane("logs", "plane", *here, check=False), no_log, "no plane has run there: 'mizzen up' starts one")
    logs.mkdir(parents=True)
    (logs / "gateway-0.log").write_text("one\ntwo\nthree\n")
    (logs / "0f3a.0.log").write_text("of a model")
    assert plane("logs", "gateway", "--tail", "2", *here).stdout == "two\nthree\n"
    failed(plane("logs", "plane", *here, check=False), no_log, "logs there: gateway-0\n")
    failed(plane("logs", "access", *here, check=False), "no access log in", "set access_log to 'errors'")
    (logs / "access.gateway-0.log").write_text('{"time":"1"}\n')
    assert plane("logs", "access", *here).stdout == '{"time":"1"}\n'
    for name in ("access", "gateway", "plane"):  # MIZZEN_URL is set, and the files here are of whoever's plane
        elsewhere = f"run 'mizzen logs {name} --data-dir DIR' on the plane's machine"
        failed(
            plane("logs", name, check=False),
            f"the log of '{name}' can only be read from the plane's data dir",
            elsewhere,
        )
    failed(plane("logs", "acces", check=False), "acces", "did you mean 'access'?")


def test_what_nobody_expected_is_no_traceback(plane: Plane) -> None:
    strange: Any = {"outputs": 7}
    plane.inference.give["POST", "/v2/models/iris/infer"] = (200, strange)
    failed(plane("predict", "iris", "--data", "[1]", check=False), "TypeError", "MIZZEN_DEBUG=1")


def test_a_version_is_served_again(plane: Plane, golden: Golden) -> None:
    plane.control.file("model.joblib")
    plane("deploy", "model.joblib", "--name", "iris", "--no-wait")
    done = plane("serve", "iris", "1", "--replicas", "2", "--no-wait")
    golden.check(done.stdout)
    assert yaml.safe_load(plane("get", "im", "iris-1-2", "-o", "yaml").stdout)["spec"]["replicas"] == 2
    failed(plane("serve", "iris", "7", check=False), "has no version 7")


def test_a_served_model_is_deleted_with_its_servers_only_when_asked(plane: Plane) -> None:
    plane.control.file("model.joblib")
    plane("deploy", "model.joblib", "--name", "iris", "--no-wait")
    failed(plane("delete", "model", "iris", check=False), "is in use", "a cascade removes these first: --cascade")
    assert plane("delete", "model", "iris", "--cascade", "--no-wait").stdout == "model/iris deleted\n"
    assert plane.control.run(plane.control.store.get(Ref("Model", "iris"))).deleting
    wrong = plane("delete", "im", "iris-1", "--cascade", check=False)
    assert (wrong.returncode, "applies only to models" in wrong.stderr) == (2, True)


def test_an_entrypoint_says_what_to_load_of_a_folder_or_file(plane: Plane) -> None:
    plane.control.file("code/scorer.py", "def predict(inputs):\n    return 1\n")
    failed(plane("deploy", "code", "--name", "scorer", check=False), "entrypoint")
    for number, what in enumerate(("code", "code/scorer.py"), start=1):
        plane("deploy", what, "--name", "scorer", "--entrypoint", "scorer:predict", "--no-wait")
        version = yaml.safe_load(plane("get", "mv", f"scorer.{number}", "-o", "yaml").stdout)
        assert (version["spec"]["framework"], version["spec"]["entrypoint"]) == ("python", "scorer:predict")


@pytest.mark.usefixtures("heard_interrupts")
def test_an_interrupted_deploy_tells_what_goes_on(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    plane.control.file("model.joblib")
    note = output.note

    def interrupted(text: str) -> None:
        note(text)
        if "starting" in text and "interrupted" not in text:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(output, "note", interrupted)
    done = plane("deploy", "model.joblib", "--name", "iris", check=False)
    assert done.returncode == 130
    left = "version 1 of iris is registered and starting as iris-1; when it is ready, "
    left += "'mizzen promote iris 1' makes it current; 'mizzen undeploy iris --version 1' stops it"
    assert f"interrupted: {left}\n" in done.stderr
    monkeypatch.undo()
    late = plane("deploy", "model.joblib", "--name", "iris", "--timeout", "0.01", check=False)
    assert late.returncode == 1
    assert "hint: version 2 of iris is registered and starting as iris-2; when" in late.stderr
