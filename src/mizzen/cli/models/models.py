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
from mizzen.cli.session import DataDir, Namespace, Output, call

model = Group(
    name="model",
    help="Models: create, list, describe, delete.\n\n\b\nExample:\n  mizzen model create iris\n  mizzen model list",
    no_args_is_help=True,
)
alias = Group(
    name="alias",
    help="Names for versions of a model: set, list, delete.\n\n\b\nExample:\n  mizzen alias set iris prod 2",
    no_args_is_help=True,
)


@model.command("create")
def create_model(
    *,
    name: Annotated[str, typer.Argument(help="Name: lower-case letters, digits and '-'.")],
    framework: Annotated[str | None, typer.Option(help="Framework of versions that do not name one.")] = None,
    labels: Labels = None,
    namespace: Namespace = None,
    data_dir: DataDir = None,
    form: Output = Format.TABLE,
) -> None:
    """Create a model without versions.

    \b
    Example:
      mizzen model create iris --framework sklearn --label team=vision
    """
    pairs = object_arguments.parse_pairs(labels or [], "--label")
    try:
        created = call(data_dir, lambda plane: plane.create_model(name, framework=framework, labels=pairs), namespace)
    except errors.AlreadyExists as error:
        hint = error.hint or f"'mizzen version add {name} PATH' adds a version to it"
        raise errors.AlreadyExists(error.message, hint=hint) from error
    output.write_outcome(created, form, f"model {name} created")


@model.command("list")
def list_models(
    selector: Annotated[str | None, typer.Option("--selector", "-l", help="Labels: team=vision.")] = None,
    namespace: Namespace = None,
    data_dir: DataDir = None,
    form: Output = Format.TABLE,
) -> None:
    """List models.

    \b
    Example:
      mizzen model list -l team=vision
    """
    items = call(data_dir, lambda plane: plane.list_models(selector), namespace)
    rows = ((*_cells(each, "name", "current", "framework"), output.format_age(each.get("createdAt"))) for each in items)
    output.write_rows(items, ("NAME", "CURRENT", "FRAMEWORK", "AGE"), rows, "no models", form)


@model.command("describe")
def describe_model(
    name: ModelArgument,
    namespace: Namespace = None,
    data_dir: DataDir = None,
    form: Output = Format.TABLE,
) -> None:
    """Show a model with its versions, aliases, servers and latest changes.

    \b
    Example:
      mizzen model describe iris
    """
    if form is Format.TABLE:
        describe("model", name, namespace, data_dir)
    else:
        output.write_data(call(data_dir, lambda plane: plane.describe_model(name), namespace), form)


@model.command("delete")
def delete_model(
    *,
    name: ModelArgument,
    cascade: Annotated[bool, typer.Option("--cascade", help="Stop its servers first.")] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until all of it is gone.")] = True,
    namespace: Namespace = None,
    data_dir: DataDir = None,
    form: Output = Format.TABLE,
) -> None:
    """Delete a model and its versions. Its history is kept.

    \b
    Example:
      mizzen model delete iris --cascade
    """
    call(data_dir, lambda plane: plane.delete_model(name, cascade=cascade, wait=wait), namespace)
    output.write_outcome(
        {"name": name, "deleted": True, "gone": wait}, form, f"model {name} {'is gone' if wait else 'deleted'}"
    )


@alias.command("set")
def set_alias(
    *,
    model_name: ModelArgument,
    name: Annotated[
        str, typer.Argument(metavar="ALIAS", help="Alias, such as prod.", autocompletion=completions.aliases)
    ],
    number: VersionArgument,
    force: Force = False,
    namespace: Namespace = None,
    data_dir: DataDir = None,
    form: Output = Format.TABLE,
) -> None:
    """Point an alias at a version; calls follow as soon as that version is ready.

    \b
    Example:
      mizzen alias set iris prod 2
    """
    call(data_dir, lambda plane: plane.alias(model_name, name, number, force=force), namespace)
    output.write_outcome(
        {"model": model_name, "alias": name, "version": number}, form, f"{model_name}@{name} is version {number}"
    )


@alias.command("list")
def list_aliases(
    model_name: ModelArgument,
    namespace: Namespace = None,
    data_dir: DataDir = None,
    form: Output = Format.TABLE,
) -> None:
    """List the aliases of a model and their versions.

    \b
    Example:
      mizzen alias list iris
    """
    found = call(data_dir, lambda plane: plane.describe_model(model_name), namespace)
    items = [{"alias": name, "version": number} for name, number in sorted((found.get("aliases") or {}).items())]
    output.write_list(items, ("alias", "version"), f"{model_name} has no aliases", form)


@alias.command("delete")
def delete_alias(
    model_name: ModelArgument,
    name: Annotated[str, typer.Argument(metavar="ALIAS", help="Alias.", autocompletion=completions.aliases)],
    namespace: Namespace = None,
    data_dir: DataDir = None,
    form: Output = Format.TABLE,
) -> None:
    """Delete an alias.

    \b
    Example:
      mizzen alias delete iris prod
    """
    call(data_dir, lambda plane: plane.delete_alias(model_name, name), namespace)
    output.write_outcome({"model": model_name, "alias": name, "deleted": True}, form, f"{model_name}@{name} deleted")


def _cells(item: Mapping[str, Any], *keys: str) -> tuple[str, ...]:
    return tuple("" if item.get(key) is None else str(item[key]) for key in keys)
