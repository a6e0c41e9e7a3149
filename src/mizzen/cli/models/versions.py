"""The group `mizzen version`: immutable code and files of a model."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mizzen import errors
from mizzen.cli import interrupts, object_arguments, output
from mizzen.cli.help_format import Group
from mizzen.cli.models.upload_progress import UploadProgress
from mizzen.cli.object_arguments import (
    Labels,
    ModelArgument,
    PackageOptions,
    VersionArgument,
)
from mizzen.cli.objects.describe import describe_lines
from mizzen.cli.parameters import argument, option
from mizzen.cli.session import Session

if TYPE_CHECKING:
    from mizzen.sdk.client import AsyncPlane
    from mizzen.sdk.keywords import LoadKeywords

_OPTIONS: Final = {"downloadURL": "--url", "sha256sum": "--sha256", "git.repo": "--git", "git.ref": "--ref"}
"""Options for the fields of a source."""
_FIELDS: Final = re.compile("|".join(map(re.escape, _OPTIONS)))

version = Group(
    "version", "Versions of a model: add, list, describe, trust, delete.", "mizzen version add iris model.joblib"
)


@version.command("add")
def add_version(
    *,
    model_name: ModelArgument,
    path: Annotated[Path | None, argument("PATH", "File, folder or archive.")] = None,
    number: Annotated[str | None, option("Number or name [default: the next number].", "--version")] = None,
    git: Annotated[str | None, option("Git repository to fetch instead of PATH.", metavar="REPO")] = None,
    ref: Annotated[str, option("Branch, tag or commit of the repository.")] = "HEAD",
    url: Annotated[str | None, option("http(s) URL to fetch instead of PATH.")] = None,
    sha256: Annotated[str | None, option("SHA-256 of the file at the URL.")] = None,
    framework: Annotated[str | None, option("Framework [default: the model's, or detected].")] = None,
    entrypoint: Annotated[str | None, option("Object or file to load: module:object, or a file.")] = None,
    training: Annotated[
        bool, option("Register training code, whose model file does not exist yet.", "--training")
    ] = False,
    packages: PackageOptions,
    labels: Labels = None,
    session: Session,
) -> None:
    """Register a version of a model. Its code and files never change. This does not serve it.

    \b
    Example:
      mizzen version add iris model.joblib
      mizzen version add iris --git https://example.org/iris.git --ref v1.2 --entrypoint iris:predict
      mizzen version add iris --url https://example.org/iris.tar.gz --sha256 9f86d0…
    """
    source = _parse_source(path, git, ref, url, sha256)
    pairs = object_arguments.parse_pairs(labels or [], "--label")
    loading: LoadKeywords = {"framework": framework, "entrypoint": entrypoint, **packages.keywords()}
    sending = UploadProgress(model_name, source)

    async def work(plane: AsyncPlane) -> dict[str, Any]:
        await sending.remember_versions(plane)
        with sending.show():
            try:
                return await plane.add_version(
                    model_name, source, version=number, labels=pairs or None, training=training,
                    progress=sending.tell, **loading,
                )  # fmt: skip
            except errors.NotFound as error:
                if not error.message.startswith("Model/"):
                    raise
                hint = f"'mizzen model create {model_name}' creates it; 'mizzen get models' lists models"
                raise errors.NotFound(error.message, hint=hint) from error
            except (errors.Invalid, errors.AlreadyExists) as error:
                raise _translate_fields(error) from error

    with interrupts.report_interrupt(lambda: session.call(sending.summary)):
        added = session.call(work)
    done = "registered" if added["created"] else "was already registered"
    session.write_outcome(added, f"version {added['version']} of {model_name} {done}")


@version.command("list")
def list_versions(model_name: ModelArgument, session: Session) -> None:
    """List the versions of a model.

    \b
    Example:
      mizzen version list iris
    """
    items = session.call(lambda plane: plane.list_versions(model_name))
    titles = ("VERSION", "CURRENT", "FRAMEWORK", "FILES", "SIZE", "BY", "AGE")
    session.write_rows(items, titles, map(_version_row, items), f"{model_name} has no versions")


@version.command("describe")
def describe_version(model_name: ModelArgument, number: VersionArgument, session: Session) -> None:
    """Show a version: its files, source and state.

    \b
    Example:
      mizzen version describe iris 2
    """

    async def work(plane: AsyncPlane) -> tuple[dict[str, Any], dict[str, Any]]:
        described = await plane.describe_version(model_name, number)
        return described, await plane.get("modelversions", str(described["name"]))

    described, resource = session.call(work)
    halves = " and ".join(half for half in ("code", "data") if described["changed"][half])
    changed = f"Since the previous version: {halves or 'no file'} changed"
    session.write_lines(described, (*describe_lines(resource, []), changed))


@version.command("trust")
def trust_version(model_name: ModelArgument, number: VersionArgument, session: Session) -> None:
    """Trust a version that another user added. Its code and pickles may then run. Requires admin on the model.

    \b
    Example:
      mizzen version trust iris 2
    """
    trusted = session.call(lambda plane: plane.trust_version(model_name, number))
    session.write_outcome(trusted, f"version {number} of {model_name} is trusted")


@version.command("delete")
def delete_version(model_name: ModelArgument, number: VersionArgument, session: Session) -> None:
    """Delete a version that is not served, current or aliased. Its number is never reused.

    \b
    Example:
      mizzen version delete iris 1
    """
    session.call(lambda plane: plane.delete_version(model_name, number))
    session.write_outcome(
        {"model": model_name, "version": number, "deleted": True},
        f"version {number} of {model_name} deleted",
    )


def _parse_source(path: Path | None, git: str | None, ref: str, url: str | None, sha256: str | None) -> Any:
    if sum(given is not None for given in (path, git, url)) != 1:
        raise typer.BadParameter("give exactly one of PATH, --git REPO and --url URL")
    if url is not None:
        if sha256 is None:
            raise typer.BadParameter("--url needs --sha256, to verify the fetched file")
        return {"downloadURL": url, "sha256sum": sha256}
    return {"git": {"repo": git, "ref": ref}} if git is not None else path


def _translate_fields(error: errors.MizzenError) -> errors.MizzenError:
    """The error with the names of options in place of API fields."""

    def translate(text: str) -> str:
        return _FIELDS.sub(lambda found: _OPTIONS[found[0]], text)

    faults = tuple(errors.Fault(translate(fault.path), fault.message) for fault in error.faults)
    return type(error)(translate(error.message), hint=translate(error.hint), faults=faults)


def _version_row(item: Mapping[str, Any]) -> tuple[str, ...]:
    artifacts = item.get("artifacts") or []
    size = output.format_size(sum(artifact.get("size", 0) for artifact in artifacts))
    return (
        str(item["version"]), "yes" if item.get("current") else "", str(item.get("framework") or ""),
        str(len(artifacts)), size, str(item.get("createdBy") or ""), output.format_age(item.get("createdAt")),
    )  # fmt: skip
