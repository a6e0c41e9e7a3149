"""The command `mizzen`, and the one place where errors become messages and exit codes: 0 done, 1 failed, 2 usage."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Annotated

import typer

from mizzen import __version__
from mizzen.cli import deploy, inspect, output, up
from mizzen.errors import MizzenError

app = typer.Typer(
    name="mizzen",
    help="Take a machine-learning model from code to production traffic.\n\n\b\nExample:\n"
    "  mizzen up --demo\n  mizzen deploy model.joblib --name iris\n  mizzen predict iris --data '[[5.1,3.5,1.4,0.2]]'",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_COMMANDS: tuple[Callable[..., None], ...] = (
    up.up, up.down, up.status,
    deploy.deploy, deploy.undeploy, deploy.promote, deploy.predict,
    inspect.get, inspect.delete, inspect.logs, inspect.history,
)  # fmt: skip
for _command in _COMMANDS:
    app.command()(_command)


def main() -> None:
    """Never returns, never shows a traceback (MIZZEN_DEBUG=1 does)."""
    try:
        app(prog_name="mizzen")
    except MizzenError as error:
        output.fail(error)
    except Exception as error:
        if os.environ.get("MIZZEN_DEBUG"):
            raise
        what = str(error) or "no more is known"
        output.fail(MizzenError(f"{type(error).__name__}: {what}", hint="MIZZEN_DEBUG=1 shows where this happened"))
    sys.exit(1)


def _show_version(wanted: bool) -> None:
    if wanted:
        output.say(f"mizzen {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Options of the command itself."""


if __name__ == "__main__":
    main()
