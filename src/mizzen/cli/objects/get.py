"""get, delete, logs: looking at what there is, and removing it."""

from __future__ import annotations

import difflib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mizzen import errors
from mizzen.cli import completions, object_arguments, output
from mizzen.cli.object_arguments import KindArgument, NamesArgument
from mizzen.cli.objects import watch as objects_watch
from mizzen.cli.objects.columns import Columns
from mizzen.cli.output import Format, Listed
from mizzen.cli.plane import log_tail
from mizzen.cli.session import DataDir, Namespace, Output, call

if TYPE_CHECKING:
    from mizzen.kinds.schema.kind_names import Called
    from mizzen.sdk.client import AsyncPlane

_PROCESS = re.compile(r"plane|supervisor|gateway(-\d+)?")
_ACCESS = "access"
_LOCAL = ("plane", "gateway", "supervisor", _ACCESS)
"""Logs that no plane shows: they are files in its data dir."""


def get(
    kind: KindArgument,
    names: NamesArgument = None,
    *,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Go on with each change until Ctrl-C.")] = False,
    selector: Annotated[
        str | None,
        typer.Option("--selector", "-l", metavar="LABELS", help="By labels: team=a, 'stage in (dev, prod)', !old, …"),
    ] = None,
    field_selector: Annotated[
        str | None,
        typer.Option("--field-selector", metavar="FIELDS", help="By fields: spec.modelName=iris, metadata.name=x."),
    ] = None,
    everywhere: Annotated[bool, typer.Option("--all-namespaces", "-A", help="Of every namespace.")] = False,
    namespace: Namespace = None,
    data_dir: DataDir = None,
    form: Annotated[Listed, typer.Option("--output", "-o", help="How to print the result.")] = Listed.TABLE,
) -> None:
    """Show objects of a kind.

    \b
    Example:
      mizzen get models
      mizzen get inferencemodel/iris-1 -o yaml
      mizzen get modelversions -l team=vision --all-namespaces
    """
    asked = object_arguments.kinds_and_names(kind, names or [])
    if asked[0][1] and (selector or field_selector or everywhere):
        raise typer.BadParameter("a name says it all: leave out selectors and --all-namespaces")
    where = "*" if everywhere else namespace
    if watch:
        if len(asked) > 1:
            raise typer.BadParameter("watches one kind at a time", param_hint="'--watch'")
        call(data_dir, lambda plane: objects_watch.watch(plane, *asked[0], selector, form), where)
        return

    async def work(plane: AsyncPlane) -> list[tuple[Called, dict[str, Any]]]:
        found = []
        for one, named in asked:
            if named:
                found += [(one, await plane.get(one.plural, name)) for name in named]
            else:
                found.append((one, await plane.list(one.plural, labels=selector, fields=field_selector)))
        return found

    found = call(data_dir, work, where)
    if form in (Listed.JSON, Listed.YAML):
        output.data(_joined([whole for _, whole in found]), form)
        return
    for index, (one, _) in enumerate(asked):
        if index and form is not Listed.NAME:
            output.say()
        items = [item for called, whole in found if called is one for item in whole.get("items", [whole])]
        _show(items, Columns(one, everywhere=everywhere, wide=form is Listed.WIDE), form)


def delete(
    kind: KindArgument,
    names: NamesArgument = None,
    *,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Until it and its processes are gone.")] = True,
    cascade: Annotated[bool, typer.Option("--cascade", help="A model: end all that serves it first.")] = False,
    namespace: Namespace = None,
    data_dir: DataDir = None,
    form: Output = Format.TABLE,
) -> None:
    """Delete objects.

    \b
    Example:
      mizzen delete inferencemodel iris-1
      mizzen delete model/iris --cascade --no-wait
    """
    asked = object_arguments.kinds_and_names(kind, names or [])
    for one, named in asked:
        if not named:
            raise typer.BadParameter(f"which {one.singular}? write {one.singular}/NAME")
        if cascade and one.name != "Model":
            raise typer.BadParameter(f"is for a model, not for a {one.name}", param_hint="'--cascade'")
    done: list[dict[str, Any]] = []

    async def work(plane: AsyncPlane) -> None:
        for one, name in [(one, name) for one, named in asked for name in named]:
            await plane.remove(one.plural, name, cascade=cascade, wait=wait)
            done.append({"kind": one.name, "name": name, "deleted": True, "gone": wait})
            if form is Format.TABLE:
                output.say(f"{one.singular}/{name} {'is gone' if wait else 'deleted'}")

    call(data_dir, work, namespace)
    if form is not Format.TABLE:
        output.data(done[0] if len(done) == 1 else {"items": done}, form)


def logs(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="An InferenceModel such as iris-1, or a model; or plane, gateway, supervisor, access.",
            autocompletion=completions.logging_names,
        ),
    ],
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as more is printed, until Ctrl-C.")] = False,
    lines: Annotated[int | None, typer.Option("--tail", min=0, help="Only the last N lines.")] = None,
    build: Annotated[bool, typer.Option("--build", help="What was printed while its environment was built.")] = False,
    namespace: Namespace = None,
    data_dir: DataDir = None,
) -> None:
    """Show what a served model, or a process of the plane, printed; or which requests were answered (access).

    \b
    Example:
      mizzen logs iris-1 --tail 20 -f
      mizzen logs iris-1 --build
      mizzen logs gateway
      mizzen logs access -f
    """
    if name == _ACCESS or _PROCESS.fullmatch(name):
        _refuse_elsewhere(name, data_dir)
        files = _access_logs(data_dir) if name == _ACCESS else [_log_file(name, data_dir)]
        for piece in log_tail.read(files, lines, follow=follow):
            output.say(piece, nl=False, colours=True)
        return

    async def work(plane: AsyncPlane) -> None:
        try:
            server = await plane.server_of(name)
        except errors.NotFound as error:
            if not (close := difflib.get_close_matches(name, _LOCAL, n=1, cutoff=0.75)):
                raise
            raise errors.NotFound(error.message, hint=f"did you mean '{close[0]}'?") from error
        if server != name:
            output.note(f"model '{name}' is served by {server}, which printed this:")
        async for piece in plane.logs(server, tail=lines, follow=follow, build=build):
            output.say(piece, nl=False, colours=True)

    call(data_dir, work, namespace)


def _joined(found: list[dict[str, Any]]) -> dict[str, Any]:
    """One object or list as it is; several as one list, which `apply` reads."""
    if len(found) == 1:
        return found[0]
    return {"apiVersion": "v1", "kind": "List", "items": [item for one in found for item in one.get("items", [one])]}


def _show(items: list[dict[str, Any]], columns: Columns, form: Listed) -> None:
    if form is Listed.NAME:
        for item in items:
            output.say(f"{columns.kind.singular}/{item['metadata']['name']}")
    elif items:
        output.table(columns.titles, map(columns.row, items))
    else:
        output.note(f"no {columns.kind.plural}")


def _refuse_elsewhere(name: str, data_dir: Path | None) -> None:
    """BadRequest when a plane is named by its address: then the files here are most likely another one's."""
    url = os.environ.get("MIZZEN_URL")
    if url and data_dir is None:
        raise errors.BadRequest(
            f"the log of '{name}' is a file in the data dir of a plane, and MIZZEN_URL={url} names none",
            hint=f"on its machine: 'mizzen logs {name} --data-dir DIR'",
        )


def _access_logs(data_dir: Path | None) -> list[Path]:
    """Those of all gateways."""
    from mizzen.sdk.connection import locate
    from mizzen.supervisor.data_dir import Home

    folder = Home.of(locate.data_dir_of(data_dir)).logs
    if found := sorted(folder.glob(f"{_ACCESS}.*.log")):
        return found
    raise errors.NotFound(
        f"no access log in {folder}",
        hint="a plane writes one unless its setting access_log is off: 'errors' for 5xx only, 'all' for every one",
    )


def _log_file(process: str, data_dir: Path | None) -> Path:
    from mizzen.sdk.connection import locate
    from mizzen.supervisor.data_dir import Home

    folder = Home.of(locate.data_dir_of(data_dir)).logs
    candidates = [folder / f"{process}.log", folder / f"{process}-0.log"]
    for file in candidates:
        if file.is_file():
            return file
    there = ", ".join(sorted(file.stem for file in folder.glob("*.log") if _PROCESS.fullmatch(file.stem)))
    hint = f"logs there: {there}" if there else "no plane has run there: 'mizzen up' starts one"
    raise errors.NotFound(f"no log of '{process}' in {folder}", hint=hint)
