"""The group version: code and files that never change again."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mizzen import errors
from mizzen.cli import output, words
from mizzen.cli.describe import lines
from mizzen.cli.output import Format
from mizzen.cli.session import DataDir, Namespace, Output, call
from mizzen.cli.words import Labels, ModelArgument, VersionArgument

if TYPE_CHECKING:
    from mizzen.sdk.client import AsyncPlane

version = typer.Typer(
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
    given = words.pairs(labels or [], "--label")
    sent = _Sent(model_name)

    async def work(plane: AsyncPlane) -> dict[str, Any]:
        with sent.shown():
            try:
                return await plane.add_version(
                    model_name,
                    source,
                    version=number,
                    framework=framework,
                    entrypoint=entrypoint,
                    labels=given or None,
                    progress=sent.tell,
                )
            except errors.NotFound as error:
                if not error.message.startswith("Model/"):
                    raise
                hint = f"'mizzen model create {model_name}' makes it; 'mizzen get models' lists what there is"
                raise errors.NotFound(error.message, hint=hint) from error

    with sent.told_when_interrupted():
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


class _Sent:
    """How much of the files is with the plane: a bar on a terminal, and a word when it is interrupted."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._done = 0
        self._total: int | None = None
        self._show: Callable[[int, int | None], None] | None = None

    def tell(self, sent: int, total: int | None) -> None:
        self._done, self._total = sent, total
        if self._show is not None:
            self._show(sent, total)

    @contextmanager
    def shown(self) -> Iterator[None]:
        if sys.stderr is None or not sys.stderr.isatty():
            yield
            return
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

        columns = (TextColumn("sending {task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(self._model, total=None)
            self._show = lambda sent, total: bar.update(task, completed=sent, total=total)
            yield

    @contextmanager
    def told_when_interrupted(self) -> Iterator[None]:
        try:
            yield
        except KeyboardInterrupt:
            output.note(f"interrupted: {self._left()}")
            raise typer.Exit(130) from None

    def _left(self) -> str:
        if self._total and self._done < self._total:
            return f"nothing is registered; the same command goes on from {100 * self._done // self._total}%"
        return f"the plane may go on and register it; see 'mizzen version list {self._model}'"


def _version_row(item: Mapping[str, Any]) -> tuple[str, ...]:
    artifacts = item.get("artifacts") or []
    total = sum(artifact.get("size", 0) for artifact in artifacts)
    current = "yes" if item.get("current") else ""
    shown = (str(item["version"]), current, str(item.get("framework") or ""), str(len(artifacts)), output.size(total))
    return (*shown, str(item.get("createdBy") or ""), output.age(item.get("createdAt")))
