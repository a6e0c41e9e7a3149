"""The groups `mizzen model` and `mizzen alias`, over the /model API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from mizzen import errors
from mizzen.cli import completions, object_arguments, output
from mizzen.cli.help_format import Group
from mizzen.cli.object_arguments import Force, Labels, ModelArgument, VersionArgument
from mizzen.cli.objects.describe import describe
from mizzen.cli.output import Format
from mizzen.cli.parameters import argument, option
from mizzen.cli.session import Session

model = Group("model", "Models: create, list, describe, delete.", "mizzen model create iris", "mizzen model list")
alias = Group("alias", "Aliases of versions, such as prod: set, list, delete.", "mizzen alias set iris prod 2")


@model.command("create")
def create_model(
    *,
    name: Annotated[str, typer.Argument(help="Name: lower-case letters, digits and '-'.")],
    framework: Annotated[str | None, option("Framework of versions that do not name one.")] = None,
    labels: Labels = None,
    session: Session,
) -> None:
    """Create a model without versions.

    \b
    Example:
      mizzen model create iris --framework sklearn --label team=vision
    """
    pairs = object_arguments.parse_pairs(labels or [], "--label")
    try:
        created = session.call(lambda plane: plane.create_model(name, framework=framework, labels=pairs))
    except errors.AlreadyExists as error:
        hint = error.hint or f"'mizzen version add {name} PATH' adds a version to it"
        raise errors.AlreadyExists(error.message, hint=hint) from error
    session.write_outcome(created, f"model {name} created")


@model.command("list")
def list_models(
    selector: Annotated[str | None, option("Labels: team=vision.", "--selector", "-l")] = None,
    *,
    session: Session,
) -> None:
    """List models.

    \b
    Example:
      mizzen model list -l team=vision
    """
    items = session.call(lambda plane: plane.list_models(selector))
    rows = ((*_cells(each, "name", "current", "framework"), output.format_age(each.get("createdAt"))) for each in items)
    session.write_rows(items, ("NAME", "CURRENT", "FRAMEWORK", "AGE"), rows, "no models")


@model.command("describe")
def describe_model(name: ModelArgument, session: Session) -> None:
    """Show a model: versions, aliases, servers, latest changes.

    \b
    Example:
      mizzen model describe iris
    """
    if session.form is Format.TABLE:
        describe("model", name, session=session)
    else:
        session.write_data(session.call(lambda plane: plane.describe_model(name)))


@model.command("delete")
def delete_model(
    *,
    name: ModelArgument,
    cascade: Annotated[bool, option("Stop its servers first.", "--cascade")] = False,
    wait: Annotated[bool, option("Wait until all of it is gone.", "--wait/--no-wait")] = True,
    session: Session,
) -> None:
    """Delete a model and its versions. Its history is kept.

    \b
    Example:
      mizzen model delete iris --cascade
    """
    session.call(lambda plane: plane.delete_model(name, cascade=cascade, wait=wait))
    session.write_outcome(
        {"name": name, "deleted": True, "gone": wait}, f"model {name} {'is gone' if wait else 'deleted'}"
    )


@alias.command("set")
def set_alias(
    *,
    model_name: ModelArgument,
    name: Annotated[str, argument("ALIAS", "Alias, such as prod.", completions.aliases)],
    number: VersionArgument,
    force: Force = False,
    session: Session,
) -> None:
    """Point an alias at a version. Calls follow as soon as that version is ready.

    \b
    Example:
      mizzen alias set iris prod 2
    """
    session.call(lambda plane: plane.alias(model_name, name, number, force=force))
    session.write_outcome(
        {"model": model_name, "alias": name, "version": number},
        f"{model_name}@{name} is version {number}",
    )


@alias.command("list")
def list_aliases(model_name: ModelArgument, session: Session) -> None:
    """List the aliases of a model and their versions.

    \b
    Example:
      mizzen alias list iris
    """
    found = session.call(lambda plane: plane.describe_model(model_name))
    items = [{"alias": name, "version": number} for name, number in sorted((found.get("aliases") or {}).items())]
    session.write_list(items, ("alias", "version"), f"{model_name} has no aliases")


@alias.command("delete")
def delete_alias(
    model_name: ModelArgument,
    name: Annotated[str, argument("ALIAS", "Alias.", completions.aliases)],
    session: Session,
) -> None:
    """Delete an alias.

    \b
    Example:
      mizzen alias delete iris prod
    """
    session.call(lambda plane: plane.delete_alias(model_name, name))
    session.write_outcome({"model": model_name, "alias": name, "deleted": True}, f"{model_name}@{name} deleted")


def _cells(item: Mapping[str, Any], *keys: str) -> tuple[str, ...]:
    return tuple("" if item.get(key) is None else str(item[key]) for key in keys)
