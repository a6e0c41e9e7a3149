"""The group version: code and files that never change again."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mizzen import errors
from mizzen.cli import interrupts, object_arguments, output
from mizzen.cli.help_format import Group
from mizzen.cli.models.upload_progress import Sending
from mizzen.cli.object_arguments import (
    Labels,
    ModelArgument,
    NoRequirements,
    OneRequirement,
    PythonOption,
    RequirementsFile,
    VersionArgument,
)
from mizzen.cli.objects.describe import lines
from mizzen.cli.output import Format
from mizzen.cli.session import DataDir, Namespace, Output, call

if TYPE_CHECKING:
    from mizzen.sdk.client import AsyncPlane

_OPTIONS: Final = {"downloadURL": "--url", "sha256sum": "--sha256", "git.repo": "--git", "git.ref": "--ref"}
"""What the fields of a source are called here."""
_FIELDS: Final = re.compile("|".join(map(re.escape, _OPTIONS)))

version = Group(
    name="version",
    help="Versions of a model: add, list, describe, trust, delete.\n\n"
    "\b\nExample:\n  mizzen version add iris model.joblib",
    no_args_is_help=True,
)


@version.command("add")
def add_version(
    *,
    model_name: ModelArgument,
    path: Annotated[Path | None, typer.Argument(metavar="PATH", help="A file, a folder, or an archive.")] = None,
    number: Annotated[str | None, typer.Option("--version", help="Default: the next number.")] = None,
    git: Annotated[
        str | None, typer.Option("--git", metavar="REPO", help="A git repository in place of a path.")
    ] = None,
    ref: Annotated[str, typer.Option("--ref", help="Its branch, tag or commit.")] = "HEAD",
    url: Annotated[str | None, typer.Option("--url", help="An http(s) address in place of a path.")] = None,
    sha256: Annotated[str | None, typer.Option("--sha256", help="Of what is at the address.")] = None,
    framework: Annotated[str | None, typer.Option(help="Default: the model's, or by the files.")] = None,
    entrypoint: Annotated[str | None, typer.Option(help="What to load: module:object, or a file.")] = None,
    training: Annotated[
        bool, typer.Option("--training", help="It is code to be trained: what to load is still to be made.")
    ] = False,
    requirements: RequirementsFile = None,
    requirement: OneRequirement = None,
    no_requirements: NoRequirements = False,
    python: PythonOption = None,
    labels: Labels = None,
    namespace: Namespace = None,
    data_dir: DataDir = None,
    form: Output = Format.TABLE,
) -> None:
    """Register a version of a model: code and files that never change again. It is not served yet.

    \b
    Example:
      mizzen version add iris model.joblib
      mizzen version add iris --git https://example.org/iris.git --ref v1.2 --entrypoint iris:predict
      mizzen version add iris --url https://example.org/iris.tar.gz --sha256 9f86d0…
    """
    source = _source(path, git, ref, url, sha256)
    given = object_arguments.pairs(labels or [], "--label")
    required = object_arguments.required(requirements, requirement, none=no_requirements)
    sending = Sending(model_name, source)

    async def work(plane: AsyncPlane) -> dict[str, Any]:
        await sending.begin(plane)
        with sending.shown():
            try:
                return await plane.add_version(
                    model_name,
                    source,
                    version=number,
                    framework=framework,
                    entrypoint=entrypoint,
                    requirements=required,
                    python=python,
                    labels=given or None,
                    training=training,
                    progress=sending.tell,
                )
            except errors.NotFound as error:
                if not error.message.startswith("Model/"):
                    raise
                hint = f"'mizzen model create {model_name}' makes it; 'mizzen get models' lists what there is"
                raise errors.NotFound(error.message, hint=hint) from error
            except (errors.Invalid, errors.AlreadyExists) as error:
                raise _in_options(error) from error

    with interrupts.told(lambda: call(data_dir, sending.left, namespace)):
        added = call(data_dir, work, namespace)
    done = "registered" if added["created"] else "was already registered"
    output.outcome(added, form, f"version {added['version']} of {model_name} {done}")


@version.command("list")
def list_versions(
    model_name: ModelArgument,
    namespace: Namespace = None,
    data_dir: DataDir = None,
    form: Output = Format.TABLE,
) -> None:
    """List the versions of a model.

    \b
    Example:
      mizzen version list iris
    """
    items = call(data_dir, lambda plane: plane.list_versions(model_name), namespace)
    if form is not Format.TABLE:
        output.data({"items": items}, form)
    elif not items:
        output.note(f"{model_name} has no versions")
    else:
        output.table(
            ("VERSION", "CURRENT", "FRAMEWORK", "FILES", "SIZE", "BY", "AGE"), (_version_row(item) for item in items)
        )


@version.command("describe")
def describe_version(
    model_name: ModelArgument,
    number: VersionArgument,
    namespace: Namespace = None,
    data_dir: DataDir = None,
    form: Output = Format.TABLE,
) -> None:
    """Show a version: its files, where they are from, and whether it can be served.

    \b
    Example:
      mizzen version describe iris 2
    """

    async def work(plane: AsyncPlane) -> tuple[dict[str, Any], dict[str, Any]]:
        described = await plane.describe_version(model_name, number)
        return described, await plane.get("modelversions", str(described["name"]))

    described, resource = call(data_dir, work, namespace)
    if form is not Format.TABLE:
        output.data(described, form)
        return
    for line in lines(resource, []):
        output.say(line)
    halves = " and ".join(half for half in ("code", "data") if described["changed"][half])
    output.say(f"Since the version before: {halves or 'no file'} changed")


@version.command("trust")
def trust_version(
    model_name: ModelArgument,
    number: VersionArgument,
    namespace: Namespace = None,
    data_dir: DataDir = None,
    form: Output = Format.TABLE,
) -> None:
    """Vouch for a version that somebody else added: its code and pickles may run. For admins of the model.

    \b
    Example:
      mizzen version trust iris 2
    """
    trusted = call(data_dir, lambda plane: plane.trust_version(model_name, number), namespace)
    output.outcome(trusted, form, f"version {number} of {model_name} is trusted")


@version.command("delete")
def delete_version(
    model_name: ModelArgument,
    number: VersionArgument,
    namespace: Namespace = None,
    data_dir: DataDir = None,
    form: Output = Format.TABLE,
) -> None:
    """Delete a version that is not served, current or aliased. Its number is never given again.

    \b
    Example:
      mizzen version delete iris 1
    """
    call(data_dir, lambda plane: plane.delete_version(model_name, number), namespace)
    output.outcome(
        {"model": model_name, "version": number, "deleted": True}, form, f"version {number} of {model_name} deleted"
    )


def _source(path: Path | None, git: str | None, ref: str, url: str | None, sha256: str | None) -> Any:
    if sum(given is not None for given in (path, git, url)) != 1:
        raise typer.BadParameter("give one of PATH, --git REPO and --url URL")
    if url is not None:
        if sha256 is None:
            raise typer.BadParameter("--url needs --sha256: what is fetched must be what you mean")
        return {"downloadURL": url, "sha256sum": sha256}
    return {"git": {"repo": git, "ref": ref}} if git is not None else path


def _in_options(error: errors.MizzenError) -> errors.MizzenError:
    """In the words of the command line, where the plane's are other ones."""

    def said(text: str) -> str:
        return _FIELDS.sub(lambda found: _OPTIONS[found[0]], text)

    faults = tuple(errors.Fault(said(fault.path), fault.message) for fault in error.faults)
    return type(error)(said(error.message), hint=said(error.hint), faults=faults)


def _version_row(item: Mapping[str, Any]) -> tuple[str, ...]:
    artifacts = item.get("artifacts") or []
    total = sum(artifact.get("size", 0) for artifact in artifacts)
    current = "yes" if item.get("current") else ""
    shown = (str(item["version"]), current, str(item.get("framework") or ""), str(len(artifacts)), output.size(total))
    return (*shown, str(item.get("createdBy") or ""), output.age(item.get("createdAt")))
