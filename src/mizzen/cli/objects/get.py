"""`mizzen get`, `delete` and `logs`."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mizzen import errors
from mizzen.cli import completions, object_arguments, output
from mizzen.cli.object_arguments import KindArgument, NamesArgument
from mizzen.cli.objects import watch as objects_watch
from mizzen.cli.objects.columns import Columns
from mizzen.cli.output import Format, ListFormat
from mizzen.cli.parameters import argument, option
from mizzen.cli.plane import log_tail
from mizzen.cli.session import PlaneConnection, Session

if TYPE_CHECKING:
    from mizzen.kinds.schema.names_and_columns import KindNames
    from mizzen.sdk.client import AsyncPlane

_PROCESS = re.compile(r"plane|supervisor|gateway(-\d+)?")
_ACCESS = "access"
_LOCAL = ("plane", "gateway", "supervisor", _ACCESS)
"""Logs that the API does not serve: they are files in the data dir."""


def get(
    kind: KindArgument,
    names: NamesArgument = None,
    *,
    watch: Annotated[bool, option("Keep printing changes until Ctrl-C.", "--watch", "-w")] = False,
    selector: Annotated[
        str | None, option("Labels: team=a, 'stage in (dev, prod)', !old, …", "--selector", "-l", metavar="LABELS")
    ] = None,
    field_selector: Annotated[
        str | None, option("Fields: spec.modelName=iris, metadata.name=x.", metavar="FIELDS")
    ] = None,
    everywhere: Annotated[bool, option("Show all namespaces.", "--all-namespaces", "-A")] = False,
    connection: PlaneConnection,
    form: Annotated[ListFormat, option("Output format.", "--output", "-o")] = ListFormat.TABLE,
) -> None:
    """Show objects of a kind.

    \b
    Example:
      mizzen get models
      mizzen get inferencemodel/iris-1 -o yaml
      mizzen get modelversions -l team=vision --all-namespaces
    """
    targets = object_arguments.parse_kinds(kind, names or [])
    if targets[0][1] and (selector or field_selector or everywhere):
        raise typer.BadParameter("names cannot be combined with selectors or --all-namespaces")
    if everywhere:
        connection = replace(connection, namespace="*")
    if watch:
        if len(targets) > 1:
            raise typer.BadParameter("can watch only one kind at a time", param_hint="'--watch'")
        connection.call(lambda plane: objects_watch.watch(plane, *targets[0], selector, form))
        return

    async def work(plane: AsyncPlane) -> list[tuple[KindNames, dict[str, Any]]]:
        found = []
        for one, named in targets:
            if named:
                found += [(one, await plane.get(one.plural, name)) for name in named]
            else:
                found.append((one, await plane.list(one.plural, labels=selector, fields=field_selector)))
        return found

    found = connection.call(work)
    if form in (ListFormat.JSON, ListFormat.YAML):
        output.write_data(join_objects([whole for _, whole in found]), form)
        return
    for index, (one, _) in enumerate(targets):
        if index and form is not ListFormat.NAME:
            output.write()
        items = [item for called, whole in found if called is one for item in whole.get("items", [whole])]
        _show(items, Columns(one, everywhere=everywhere, wide=form is ListFormat.WIDE), form)


def delete(
    kind: KindArgument,
    names: NamesArgument = None,
    *,
    wait: Annotated[bool, option("Wait until all its processes are gone.", "--wait/--no-wait")] = True,
    cascade: Annotated[bool, option("For a model: stop its servers first.", "--cascade")] = False,
    session: Session,
) -> None:
    """Delete objects.

    \b
    Example:
      mizzen delete inferencemodel iris-1
      mizzen delete model/iris --cascade --no-wait
    """
    targets = object_arguments.parse_kinds(kind, names or [])
    for one, named in targets:
        if not named:
            raise typer.BadParameter(f"the name is missing; write {one.singular}/NAME")
        if cascade and one.name != "Model":
            raise typer.BadParameter(f"applies only to models, not to a {one.name}", param_hint="'--cascade'")
    done: list[dict[str, Any]] = []

    async def work(plane: AsyncPlane) -> None:
        for one, name in [(one, name) for one, named in targets for name in named]:
            await plane.remove(one.plural, name, cascade=cascade, wait=wait)
            done.append({"kind": one.name, "name": name, "deleted": True, "gone": wait})
            if session.form is Format.TABLE:
                output.write(f"{one.singular}/{name} {'is gone' if wait else 'deleted'}")

    session.call(work)
    if session.form is not Format.TABLE:
        session.write_data(done[0] if len(done) == 1 else {"items": done})


def logs(
    name: Annotated[
        str,
        argument(
            "NAME",
            "InferenceModel such as iris-1, model, plane, gateway, supervisor or access.",
            completions.logging_names,
        ),
    ],
    *,
    follow: Annotated[bool, option("Keep printing new lines until Ctrl-C.", "--follow", "-f")] = False,
    lines: Annotated[int | None, option("Only the last N lines.", "--tail", min=0)] = None,
    build: Annotated[bool, option("Show the build log of its environment.", "--build")] = False,
    connection: PlaneConnection,
) -> None:
    """Show the log of a served model or of the plane.

    The plane has a log for each of its processes, and the access log of its gateways.

    \b
    Example:
      mizzen logs iris-1 --tail 20 -f
      mizzen logs iris-1 --build
      mizzen logs gateway
      mizzen logs access -f
    """
    if name == _ACCESS or _PROCESS.fullmatch(name):
        _require_data_dir(name, connection.data_dir)
        files = (
            _find_access_logs(connection.data_dir) if name == _ACCESS else [_find_log_file(name, connection.data_dir)]
        )
        for piece in log_tail.tail(files, lines, follow=follow):
            output.write(piece, nl=False, colors=True)
        return

    async def work(plane: AsyncPlane) -> None:
        try:
            server = await plane.server_of(name)
        except errors.NotFound as error:
            if not (close := difflib.get_close_matches(name, _LOCAL, n=1, cutoff=0.75)):
                raise
            raise errors.NotFound(error.message, hint=f"did you mean '{close[0]}'?") from error
        if server != name:
            output.note(f"model '{name}' is served by {server}, whose output follows:")
        async for piece in plane.logs(server, tail=lines, follow=follow, build=build):
            output.write(piece, nl=False, colors=True)

    connection.call(work)


def join_objects(found: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """One object or list unchanged; several joined into one List, which `apply` reads."""
    if len(found) == 1:
        return found[0]
    return {"apiVersion": "v1", "kind": "List", "items": [item for one in found for item in one.get("items", [one])]}


def _show(items: list[dict[str, Any]], columns: Columns, form: ListFormat) -> None:
    if form is ListFormat.NAME:
        for item in items:
            output.write(f"{columns.kind.singular}/{item['metadata']['name']}")
    elif items:
        output.write_table(columns.titles, map(columns.row, items))
    else:
        output.note(f"no {columns.kind.plural}")


def _require_data_dir(name: str, data_dir: Path | None) -> None:
    """Raise BadRequest if MIZZEN_URL names the plane: the files here are then most likely those of another plane."""
    url = os.environ.get("MIZZEN_URL")
    if url and data_dir is None:
        raise errors.BadRequest(
            f"the log of '{name}' can only be read from the plane's data dir, not over MIZZEN_URL={url}",
            hint=f"run 'mizzen logs {name} --data-dir DIR' on the plane's machine",
        )


def _find_access_logs(data_dir: Path | None) -> list[Path]:
    """The access logs of all gateways."""
    folder = _logs_folder(data_dir)
    if found := sorted(folder.glob(f"{_ACCESS}.*.log")):
        return found
    raise errors.NotFound(
        f"no access log in {folder}",
        hint="set access_log to 'errors' to log 5xx responses only, or to 'all'; 'off' writes no log",
    )


def _find_log_file(process: str, data_dir: Path | None) -> Path:
    folder = _logs_folder(data_dir)
    for file in (folder / f"{process}.log", folder / f"{process}-0.log"):
        if file.is_file():
            return file
    present = ", ".join(sorted(file.stem for file in folder.glob("*.log") if _PROCESS.fullmatch(file.stem)))
    hint = f"logs there: {present}" if present else "no plane has run there: 'mizzen up' starts one"
    raise errors.NotFound(f"no log of '{process}' in {folder}", hint=hint)


def _logs_folder(data_dir: Path | None) -> Path:
    from mizzen.sdk.connection import locate
    from mizzen.supervisor.data_dir import Home

    return Home.of(locate.data_dir_of(data_dir)).logs
