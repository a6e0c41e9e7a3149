"""What shells are offered, and what they are given to ask."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli.command import Plane, commanding, mizzen


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[Plane]:
    with commanding(tmp_path) as running:
        yield running


def offered(line: str, cwd: Path, **environ: str) -> list[str]:
    words = line.split(" ")
    asked = {"_MIZZEN_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    done = mizzen(cwd=cwd, environ={**asked, **environ})
    assert done.stderr == ""
    return done.stdout.split()


def test_commands_options_and_kinds_need_no_plane(tmp_path: Path) -> None:
    assert offered("mizzen des", tmp_path) == ["describe"]
    assert offered("mizzen version ", tmp_path) == ["add", "list", "describe", "trust", "delete"]
    assert offered("mizzen get mod", tmp_path) == ["model", "models", "modelversion", "modelversions"]
    assert offered("mizzen explain model.al", tmp_path) == ["model.aliases", "model.aliasOf"]
    assert offered("mizzen explain im.batching.b", tmp_path) == ["im.batching.batchSize"]
    assert offered("mizzen explain nosuch.", tmp_path) == []
    assert offered("mizzen permit ann re", tmp_path) == ["read"]
    assert offered("mizzen logs gate", tmp_path) == ["gateway"]
    assert "--all-namespaces" in offered("mizzen get models --all", tmp_path)


def test_names_are_those_of_the_plane(plane: Plane) -> None:
    plane("model", "create", "iris")
    plane("model", "create", "rose")
    plane("model", "create", "irma", "-n", "lab")
    here = {"MIZZEN_URL": plane.control.url, "MIZZEN_TOKEN": "a-token-for-tests-only"}
    assert offered("mizzen get model ", plane.folder, **here) == ["iris", "rose"]
    assert offered("mizzen get model ir", plane.folder, **here) == ["iris"]
    assert offered("mizzen describe model/ir", plane.folder, **here) == ["model/iris"]
    assert offered("mizzen history ir", plane.folder, **here) == ["iris"]
    assert offered("mizzen version list r", plane.folder, **here) == ["rose"]
    assert offered("mizzen model describe -n lab ir", plane.folder, **here) == ["irma"]
    assert offered("mizzen get mz ", plane.folder, **here) == ["iris", "rose"]
    assert offered("mizzen describe mz/ir", plane.folder, **here) == ["mz/iris"]
    assert offered("mizzen get nosuch ", plane.folder, **here) == []
    assert offered("mizzen get models -n ", plane.folder, **here) == ["default", "lab"]


def test_what_belongs_to_something_is_offered_after_it(plane: Plane) -> None:
    here = {"MIZZEN_URL": plane.control.url, "MIZZEN_TOKEN": "a-token-for-tests-only"}
    plane.control.file("model.joblib")
    plane("deploy", "model.joblib", "--name", "iris", "--no-wait")
    plane("alias", "set", "iris", "prod", "1")
    plane("user", "add", "ann")
    made = json.loads(plane("token", "create", "ann", "-o", "json").stdout)
    plane("secret", "set", "db", "PASSWORD=x")
    plane("secret", "set", "elsewhere", "PASSWORD=x", "-n", "lab")

    def after(words: str) -> list[str]:
        return offered(f"mizzen {words} ", plane.folder, **here)

    assert after("promote iris") == after("version describe iris") == ["1"]
    assert after("alias delete iris") == ["prod"]
    assert after("get im") == after("describe im") == ["iris-1"]
    assert after("predict") == ["iris", "iris-1"]
    assert after("logs") == ["iris-1", "iris", "plane", "gateway", "supervisor", "access"]
    assert after("user delete") == after("permit") == ["ann"]
    assert after("permit ann read") == ["read", "predict", "write", "admin", "iris"]
    assert after("token revoke ann") == [made["id"]]
    assert after("secret delete") == ["db"]
    assert after("secret delete -n lab") == ["elsewhere"]
    assert after("promote nosuch") == after("alias delete nosuch") == []


@pytest.mark.parametrize(
    "environ", [{}, {"MIZZEN_URL": "http://127.0.0.1:1"}, {"MIZZEN_URL": "nonsense"}, {"MIZZEN_DATA_DIR": "none"}]
)
def test_without_a_plane_there_is_silence(tmp_path: Path, environ: dict[str, str]) -> None:
    assert offered("mizzen get model ", tmp_path, **environ) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_asks_the_command(tmp_path: Path, shell: str) -> None:
    script = mizzen("completion", shell, cwd=tmp_path, check=True).stdout
    assert f"_MIZZEN_COMPLETE=complete_{shell}" in script


def test_offering_words_loads_nothing_heavy(tmp_path: Path) -> None:
    code = (
        "import os, sys; sys.argv = ['mizzen']\n"
        "os.environ.update(_MIZZEN_COMPLETE='complete_bash', COMP_WORDS='mizzen get model x', COMP_CWORD='3')\n"
        "from mizzen.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
        "loaded = {'mizzen.kinds.schema.resource', 'numpy', 'httpx2', 'yaml'} & set(sys.modules)\n"
        "sys.exit(f'imported: {loaded}' if loaded else 0)"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
