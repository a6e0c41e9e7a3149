"""get, delete, status and describe: several objects at once, watching, and what is told of processes."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from mizzen.cli import output
from mizzen.cli.objects.columns import Columns
from mizzen.cli.objects.watch import _Lines
from mizzen.cli.output import ListFormat
from mizzen.kinds.schema import names_and_columns
from mizzen.supervisor.protocol import Listener
from tests.support.cli.command import Plane, commanding, failed, mizzen
from tests.support.golden import Golden
from tests.support.supervised import supervised


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[Plane]:
    with commanding(tmp_path) as running:
        for name in ("iris", "rose", "lily"):
            running("model", "create", name)
        running.control.file("m.joblib")
        running("version", "add", "iris", "m.joblib")
        yield running


def test_several_objects_are_shown_at_once(plane: Plane) -> None:
    assert plane("get", "model", "rose", "iris", "-o", "name").stdout == "model/rose\nmodel/iris\n"
    assert plane("get", "model/rose", "mv/iris.1", "-o", "name").stdout == "model/rose\nmodelversion/iris.1\n"
    table = plane("get", "model,mv").stdout
    assert [line.split()[:2] for line in table.splitlines() if line.startswith("NAME")] == [
        ["NAME", "CURRENT"], ["NAME", "MODEL"],
    ]  # fmt: skip
    whole = yaml.safe_load(plane("get", "model,mv", "-o", "yaml").stdout)
    assert [item["kind"] for item in whole["items"]] == ["Model", "Model", "Model", "ModelVersion"]
    plane.file("all.yaml", yaml.safe_dump(whole))
    assert "model/iris unchanged" in plane("apply", "-f", "all.yaml").stdout
    failed(plane("get", "model", "iris", "nosuch", check=False), "Model/nosuch does not exist")


def test_several_objects_are_deleted_at_once_and_waited_for(plane: Plane, golden: Golden) -> None:
    done = plane("delete", "models", "rose", "lily")
    golden.check(done.stdout)
    assert plane("get", "models", "-o", "name").stdout == "model/iris\n"
    told = json.loads(plane("delete", "model/iris", "-o", "json").stdout)
    assert told == {"kind": "Model", "name": "iris", "deleted": True, "gone": True}


def test_a_kind_is_found_by_the_plural_of_its_other_name(plane: Plane) -> None:
    assert plane("get", "trainingmodels").stderr == "no trainingjobs\n"


@pytest.mark.usefixtures("heard_interrupts")
def test_a_name_that_is_not_there_is_waited_for_aloud(
    plane: Plane, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    say = output.write

    def interrupted(text: str) -> None:
        say(text)
        if text.startswith("iris"):
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(output, "write", interrupted)
    done = plane("get", "model", "iris", "nosuch", "-w", check=False)
    assert done.returncode == 130
    golden.check(done.stderr)
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["NAME", "iris"]


def test_what_is_watched_on_its_way_out_is_told_of_once() -> None:
    lines = _Lines(Columns(names_and_columns.find("model")), ListFormat.TABLE)
    item = {"metadata": {"name": "iris", "uid": "u"}}
    going = {"metadata": {"name": "iris", "uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    changes = ((item, False), (going, False), (going, False), (going, True))
    told = [line.split() for one, deleted in changes for line in lines.format(one, deleted=deleted)]
    assert told[1:] == [["iris"], ["iris", "(deleting)"], ["iris", "(deleted)"]]


def test_which_half_of_a_version_changed_is_told(plane: Plane) -> None:
    plane.control.file("m.joblib", "other weights")
    plane("version", "add", "iris", "m.joblib")
    shown = plane("version", "describe", "iris", "2").stdout
    assert shown.endswith("Since the previous version: data changed\n")


def test_status_tells_every_process_as_data(tmp_path: Path) -> None:
    with supervised(tmp_path / "data") as running:
        listeners = (Listener("control", "127.0.0.1", 0), Listener("inference", "127.0.0.1", 0))
        running.start(running.spec("plane"), listeners=listeners)
        running.running("plane")
        told = json.loads(mizzen("status", "--data-dir", "data", "-o", "json", cwd=tmp_path, check=True).stdout)
    (process,) = told["processes"]
    assert process == {
        "key": "plane",
        "state": "running",
        "pid": told["pid"],
        "restarts": 0,
        "message": process["message"],
    }
