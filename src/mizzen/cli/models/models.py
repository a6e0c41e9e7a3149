"""The groups model and alias, as the /model API has them."""

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
    name: Annotated[str, typer.Argument(help="Its name: lower-case letters, digits and '-'.")],
    framework: Annotated[str | None, typer.Option(help="Of versions that do not name their own.")] = None,
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
    given = object_arguments.pairs(labels or [], "--label")
    try:
        made = call(data_dir, lambda plane: plane.create_model(name, framework=framework, labels=given), namespace)
    except errors.AlreadyExists as error:
        hint = error.hint or f"'mizzen version add {name} PATH' adds a version to it"
        raise errors.AlreadyExists(error.message, hint=hint) from error
    output.outcome(made, form, f"model {name} created")


@model.command("list")
def list_models(
    selector: Annotated[str | None, typer.Option("--selector", "-l", help="By labels: team=vision.")] = None,
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
    if form is not Format.TABLE:
        output.data({"items": items}, form)
    elif not items:
        output.note("no models")
    else:
        output.table(
            ("NAME", "CURRENT", "FRAMEWORK", "AGE"),
            ((*_texts(item, "name", "current", "framework"), output.age(item.get("createdAt"))) for item in items),
        )


@model.command("describe")
def describe_model(
    name: ModelArgument,
    namespace: Namespace = None,
    data_dir: DataDir = None,
    form: Output = Format.TABLE,
) -> None:
    """Show a model with its versions, aliases and servers, and who changed it last.

    \b
    Example:
      mizzen model describe iris
    """
    if form is Format.TABLE:
        describe("model", name, namespace, data_dir)
    else:
        output.data(call(data_dir, lambda plane: plane.describe_model(name), namespace), form)


@model.command("delete")
def delete_model(
    *,
    name: ModelArgument,
    cascade: Annotated[bool, typer.Option("--cascade", help="End all that serves it first.")] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Until all of it is gone.")] = True,
    namespace: Namespace = None,
    data_dir: DataDir = None,
    form: Output = Format.TABLE,
) -> None:
    """Delete a model with its versions. Its history stays.

    \b
    Example:
      mizzen model delete iris --cascade
    """
    call(data_dir, lambda plane: plane.delete_model(name, cascade=cascade, wait=wait), namespace)
    output.outcome(
        {"name": name, "deleted": True, "gone": wait}, form, f"model {name} {'is gone' if wait else 'deleted'}"
    )


@alias.command("set")
def set_alias(
    *,
    model_name: ModelArgument,
    name: Annotated[
        str, typer.Argument(metavar="ALIAS", help="The alias, such as prod.", autocompletion=completions.aliases)
    ],
    number: VersionArgument,
    force: Force = False,
    namespace: Namespace = None,
    data_dir: DataDir = None,
    form: Output = Format.TABLE,
) -> None:
    """Let an alias stand for a version; calls follow as soon as that version is ready.

    \b
    Example:
      mizzen alias set iris prod 2
    """
    call(data_dir, lambda plane: plane.alias(model_name, name, number, force=force), namespace)
    output.outcome(
        {"model": model_name, "alias": name, "version": number}, form, f"{model_name}@{name} is version {number}"
    )


@alias.command("list")
def list_aliases(
    model_name: ModelArgument,
    namespace: Namespace = None,
    data_dir: DataDir = None,
    form: Output = Format.TABLE,
) -> None:
    """List the aliases of a model, and the version each stands for.

    \b
    Example:
      mizzen alias list iris
    """
    found = call(data_dir, lambda plane: plane.describe_model(model_name), namespace)
    items = [{"alias": name, "version": number} for name, number in sorted((found.get("aliases") or {}).items())]
    output.listing(items, ("alias", "version"), f"{model_name} has no aliases", form)


@alias.command("delete")
def delete_alias(
    model_name: ModelArgument,
    name: Annotated[str, typer.Argument(metavar="ALIAS", help="The alias.", autocompletion=completions.aliases)],
    namespace: Namespace = None,
    data_dir: DataDir = None,
    form: Output = Format.TABLE,
) -> None:
    """Remove an alias.

    \b
    Example:
      mizzen alias delete iris prod
    """
    call(data_dir, lambda plane: plane.delete_alias(model_name, name), namespace)
    output.outcome({"model": model_name, "alias": name, "deleted": True}, form, f"{model_name}@{name} deleted")


def _texts(item: Mapping[str, Any], *keys: str) -> tuple[str, ...]:
    return tuple("" if item.get(key) is None else str(item[key]) for key in keys)
