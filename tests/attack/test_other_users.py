"""The same attacks where models run as a user of their own, and where the plane itself is an ordinary user's."""

from __future__ import annotations

import json
import os
import pwd
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import planes, wheels
from tests.support.hostile import programs, stage
from tests.support.hostile.stage import Stage

USER = "nobody"
pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="only root can start processes of another user")


@pytest.fixture(scope="module", params=["models as another user", "a plane of an ordinary user"])
def attacked(request: pytest.FixtureRequest) -> Iterator[Stage]:
    ordinary = "plane" in request.param
    with stage.folder_for(USER) as folder:
        wheels.of_installed(folder / "wheels", "numpy")
        settings = f'environment_wheels = "{folder / "wheels"}"\n'
        flags = () if ordinary else ("--run-models-as", USER)
        with stage.running(folder, *flags, user=USER if ordinary else "", settings=settings) as running:
            yield running


def none_succeeded(report: dict[str, Any]) -> None:
    assert report["tried"] > 150, "the whole list was tried"
    assert report["uid"] == pwd.getpwnam(USER).pw_uid
    assert report["succeeded"] == {}


def known(attacked: Stage) -> programs.Targets:
    assert attacked.targets is not None
    return attacked.targets


def test_a_model(attacked: Stage) -> None:
    folder = programs.python_module(attacked.home.parent / "code", known(attacked))
    attacked.deploy(folder, "hostile", "--entrypoint", "model:predict")
    none_succeeded(attacked.report_of("hostile"))


def test_an_honest_model_answers(attacked: Stage) -> None:
    answer = json.loads(attacked.cli("predict", "victim", "--data", "[1]", "-o", "json").stdout)
    assert answer["outputs"][0]["data"] == [4.0]


def test_a_training_job(attacked: Stage) -> None:
    none_succeeded(attacked.train("trains"))


def test_the_build_of_a_package(attacked: Stage) -> None:
    parent = attacked.home.parent
    sdist = programs.package(parent / "sdists", known(attacked))
    sdist.rename(parent / "wheels" / sdist.name)
    (parent / "builds").mkdir()
    (parent / "builds" / "model.py").write_text(
        "import thing\n\nprint(thing.REPORT)\n\ndef predict(inputs):\n    return inputs\n"
    )
    attacked.deploy(parent / "builds", "builds", "--entrypoint", "model:predict", "--requirement", "thing==1.0")
    none_succeeded(attacked.report_of("builds"))


def test_what_is_missing_is_said(attacked: Stage) -> None:
    confinement = attacked.status()["confinement"]
    assert confinement["status"] == "True"
    if attacked.user:
        assert "a private list of processes, which needs root" in confinement["message"]
    else:
        assert f"the user {USER}" in confinement["message"]


def test_files_of_ended_models_are_removed(attacked: Stage) -> None:
    """Also those that belong to the other user, and folders that were made to resist."""
    folder = attacked.home.parent / "deep"
    folder.mkdir()
    (folder / "model.py").write_text(_DEEP)
    attacked.cli("deploy", str(folder), "--name", "deep", "--entrypoint", "model:predict")
    [key] = [each["key"] for each in attacked.status()["processes"] if each.get("model") == "deep"]
    work = attacked.plane.data_dir / "work" / key.rpartition(".")[0]
    assert (work / "scratch" / "d").exists()
    attacked.cli("undeploy", "deep")
    planes.wait_until(lambda: not work.exists(), "its work folder is gone")


_DEEP = """
import os

os.chdir(os.environ["TMPDIR"])
for _ in range(1500):
    os.mkdir("d")
    os.chdir("d")
os.chdir("/")


def predict(inputs):
    return inputs
"""


def test_its_log_is_not_a_way_to_the_token(attacked: Stage) -> None:
    """The message of a model that gives up is read by the supervisor, in a folder that the model may write to."""
    folder: Path = attacked.home.parent / "linked"
    folder.mkdir()
    (folder / "model.py").write_text(
        "import os\n\n"
        'log = os.environ["MIZZEN_TERMINATION_LOG"]\n'
        f"os.symlink({known(attacked)['token']!r}, log)\n"
        "os._exit(78)\n"
    )
    attacked.deploy(folder, "linked", "--entrypoint", "model:predict")

    def failed() -> list[dict[str, Any]]:
        processes = attacked.status()["processes"]
        return [each for each in processes if each.get("model") == "linked" and each["state"] == "failed"]

    [process] = planes.wait_until(failed, "it has given up")
    assert attacked.plane.token() not in json.dumps(attacked.status())
    assert attacked.plane.token() not in process["message"]
