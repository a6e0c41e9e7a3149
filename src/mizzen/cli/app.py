"""The command `mizzen` and its subcommands."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.main import get_command

from mizzen import __version__
from mizzen.cli import completion, output
from mizzen.cli.access import kubeconfig, limits, secrets, users
from mizzen.cli.help_format import Group
from mizzen.cli.host import backups, doctor, environments, plugins, systemd
from mizzen.cli.models import deploy, graphs, models, scale, versions
from mizzen.cli.objects import apply, describe, explain, get, history, import_graphs
from mizzen.cli.parameters import option
from mizzen.cli.plane import top, up
from mizzen.cli.training import commands, monitors

app = Group(
    "mizzen",
    "Take a machine-learning model from code to production traffic.",
    "mizzen up --demo",
    "mizzen deploy model.joblib --name iris",
    "mizzen predict iris --data '[[5.1,3.5,1.4,0.2]]'",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_COMMANDS: tuple[Callable[..., None], ...] = (
    up.up, up.down, up.status,
    deploy.deploy, deploy.serve, scale.scale, deploy.undeploy, deploy.promote, deploy.predict,
    deploy.feedback,
    apply.apply, apply.lint, apply.diff, import_graphs.import_, explain.explain,
    get.get, describe.describe, get.delete, get.logs, top.top, environments.environments,
    history.history, history.rollback,
    users.permit, limits.limit, users.whoami, users.audit,
    backups.backup, backups.restore, doctor.doctor, plugins.plugins,
    kubeconfig.kubeconfig, completion.completion,
)  # fmt: skip
_GROUPS = (
    models.model, versions.version, models.alias, commands.train, monitors.monitor, graphs.graph, users.user,
    users.token, secrets.secret, systemd.service,
)  # fmt: skip
for _command in _COMMANDS:
    app.command(_command.__name__.rstrip("_"))(_command)  # `import` is a Python keyword
for _group in _GROUPS:
    app.add_typer(_group)


def _show_version(wanted: bool) -> None:
    if wanted:
        output.write(f"mizzen {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool, option("Show the version and exit.", "--version", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Options of `mizzen` itself."""


@functools.cache
def command() -> Callable[..., Any]:
    """The command that parses and runs the command line. Cached: building it takes longer than most commands."""
    return get_command(app)
