from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.main import get_command

from mizzen.cli import completions
from mizzen.cli.app import app
from mizzen.kinds import catalog
from tests.support.cli.command import mizzen
from tests.support.golden import Golden
from tools.reference.cli import commands

COMMANDS = [words.removeprefix("mizzen ") for words, _ in commands("mizzen", get_command(app))]


def test_the_commands_of_the_public_surface_are_there() -> None:
    assert set(COMMANDS) == {
        "up", "down", "status", "deploy", "serve", "scale", "undeploy", "promote", "predict", "get", "delete", "logs",
        "history", "apply", "lint", "diff", "explain", "describe", "rollback", "permit", "limit", "whoami", "audit",
        "completion", "import", "environments", "kubeconfig", "top", "backup", "restore", "plugins", "feedback",
        "doctor",
        "service install", "service uninstall", "service status", "graph show", "graph explain", "graph state",
        "model create", "model list", "model describe", "model delete", "version add", "version list",
        "version describe", "version trust", "version delete", "alias set", "alias list", "alias delete", "user add",
        "user list", "user delete", "token create", "token list", "token revoke", "secret set", "secret list",
        "secret delete", "train start", "train list", "train show", "train logs", "train checkpoints", "train stop",
        "train suspend", "train resume", "monitor start", "monitor open", "monitor show", "monitor stop",
    }  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_shows_an_example(command: str, tmp_path: Path) -> None:
    shown = mizzen(*command.split(), "--help", cwd=tmp_path, check=True).stdout
    assert "Example:" in shown
    assert f"      mizzen {command}" in shown.replace("    mizzen", "      mizzen")


def test_every_command_that_tells_something_tells_it_as_data_too() -> None:
    without = {
        words
        for words, command in commands("mizzen", get_command(app))
        if not any("--output" in parameter.opts for parameter in command.params)
    }
    assert without == {"mizzen up", "mizzen logs", "mizzen completion", "mizzen train logs"}


def test_kinds_that_shells_are_offered_are_those_of_the_catalog() -> None:
    assert completions.kinds("") == [name for kind in catalog.KINDS for name in (kind.singular, kind.plural)]


@pytest.mark.parametrize("group", sorted({command.split()[0] for command in COMMANDS if " " in command}))
def test_every_group_shows_an_example(group: str, tmp_path: Path) -> None:
    shown = mizzen(group, "--help", cwd=tmp_path, check=True).stdout
    assert f"Example:\n    mizzen {group} " in shown, shown


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("frob",), "No such command 'frob'"),
        (("deploy",), "Missing argument"),
        (("deploy", "x"), "--name"),
        (("get", "models", "-o", "xml"), "xml"),
        (("up", "--port", "many"), "--port"),
        (("logs", "x", "--tail", "-1"), "--tail"),
        (("status", "--data-dir", ""), "the name is empty"),
        (("deploy", "x", "--name", "x", "--timeout", "0"), "must be more than 0"),
        (("deploy", "x", "--name", "x", "--timeout", "nan"), "must be more than 0"),
        (("get", "model/"), "has no name after the /"),
        (("get", "model/iris", "iris"), "write model iris or model/iris"),
        (("describe", "model"), "the name is missing; write model/NAME"),
        (("diff", "iris:1"), "two versions"),
        (("diff",), "-f FILE"),
        (("history", "iris", "--at", "yesterday"), "is not a valid time"),
        (("history", "iris", "--at", "2999-01-01"), "'2999-01-01' is in the future"),
        (("get", "model/iris", "im"), "write model im or model/im"),
        (("get", "model,mv", "-w"), "can watch only one kind at a time"),
        (("delete", "models"), "the name is missing; write model/NAME"),
        (("rollback", "mlgraph/x", "--to", "one"), "must be a revision number"),
        (("version", "add", "iris"), "give exactly one of PATH, --git REPO and --url URL"),
        (("version", "add", "iris", "--url", "http://127.0.0.1/x"), "--sha256"),
        (("model", "create", "iris", "--label", "team"), "is not KEY=VALUE"),
        (("secret", "set", "db", "=x"), "no key before"),
        (("train", "start", "iris", "1", "python", "train.py"), "comes after --: … -- python train.py"),
        (("train", "start", "iris", "1", "--code", "."), "give --code or VERSION, not both"),
        (("train", "start", "iris", "--serve", "--no-wait"), "--serve needs the end of training"),
        (("train", "start", "iris", "--python", "3.12"), "need --code"),
        (("train", "start", "iris", "--param", "rate"), "is not KEY=VALUE"),
        (("train", "start", "iris", "--params", "[1]"), "must be a JSON object"),
        (("train", "start", "iris", "--replicas", "boss=1"), "'boss=1' is not TYPE=N"),
        (("train", "list", "--version", "1"), "--version needs MODEL"),
        (("train", "list", "--state", "odd"), "'odd' is not one of"),
        (("train", "checkpoints", "x", "--to", "y"), "--to needs --get ID"),
    ],
)
def test_wrong_usage_is_exit_code_2(words: tuple[str, ...], says: str, tmp_path: Path) -> None:
    done = mizzen(*words, cwd=tmp_path, environ={"COLUMNS": "200"})
    assert done.returncode == 2
    assert says in done.stderr
    assert not done.stdout


def test_usage_faults_are_told_as_all_errors_are(tmp_path: Path, golden: Golden) -> None:
    done = mizzen("get", "models", "-o", "xml", cwd=tmp_path)
    golden.check(done.stderr)
    assert mizzen("model", cwd=tmp_path).stderr.startswith("Usage: mizzen model [OPTIONS] COMMAND")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_speaks_of_what_people_type(command: str, tmp_path: Path) -> None:
    shown = mizzen(*command.split(), "--help", cwd=tmp_path, check=True, environ={"COLUMNS": "200"}).stdout
    assert not re.search(r"<(str|int|float|list|Path)|range>|\{", shown.partition("Example:")[0]), shown
    assert not re.search(r"^  [^E]*<(str|int|float|list|Path)", shown, re.M), shown
    usage = shown.splitlines()[0].removeprefix(f"Usage: mizzen {command}")
    assert usage == usage.upper(), usage
