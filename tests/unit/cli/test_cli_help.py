from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer.testing

from mizzen.cli.app import app

COMMANDS = [command.name or command.callback.__name__ for command in app.registered_commands if command.callback]
HEAVY = {"pydantic", "numpy", "httpx2", "rich", "yaml", "asyncio", "sklearn"}


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; sys.argv = ['mizzen', '--help']\n"
        "from mizzen.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
        f"loaded = {HEAVY!r} & set(sys.modules)\n"
        "sys.exit(f'imported: {loaded}' if loaded - {'asyncio'} else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "deploy" in done.stdout


def test_the_commands_of_the_public_surface_are_there() -> None:
    assert set(COMMANDS) == {
        "up", "down", "status", "deploy", "serve", "undeploy", "promote", "predict", "get", "delete", "logs", "history",
    }  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_shows_an_example(command: str) -> None:
    shown = typer.testing.CliRunner().invoke(app, [command, "--help"], prog_name="mizzen")
    assert shown.exit_code == 0
    assert "Example:" in shown.output
    assert f"      mizzen {command}" in shown.output.replace("    mizzen", "      mizzen")


def test_it_runs_as_a_module_and_tells_its_version() -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "mizzen.cli.main", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("mizzen 0.")


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
    ],
)
def test_wrong_usage_is_exit_code_2(words: tuple[str, ...], says: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mizzen.cli.main", *words], env=os.environ | {"COLUMNS": "200"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_a_result_that_nobody_reads_is_no_failure(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "mizzen.cli.main", "down", "--data-dir", str(tmp_path / "none")]
    try:
        done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")
